// The undo list of a run: which steps join it, and with which compensation.

import { ExpressionError } from "../../expression/index.js";
import { scopeOf } from "../../expression/scope.js";
import type { ActionFact } from "../../messages/fact.js";
import { undoOwed, undoPassed } from "../../messages/owed.js";
import { withSecrets } from "../../schema/secrets.js";
import type { ActionCall } from "../../state/call.js";
import type { Unprotected } from "../../state/frame.js";
import type { UndoEntry } from "../../state/rollback.js";
import { parseActionName } from "../../steps/action.js";
import type { StepPlan } from "../../steps/step.js";
import type { RunId } from "../../values/ids.js";
import type { Json, JsonObject } from "../../values/json.js";
import type { Draft } from "../draft.js";
import { groupOf } from "./groups.js";

/** Steps that a warning names. It counts all. */
const NAMED = 100;

/** The idempotency key of a step entry: the same for all its attempts. Workers store it, so its form must never change. */
export function forwardKey(runId: RunId, stepId: string, entry: number): string {
  return `${runId}:${stepId}:${entry}`;
}

/** The step entry succeeded, or may have: it joins the undo list. The inputs of its undo are evaluated now, in its scope. */
export function joinUndoList(draft: Draft, plan: StepPlan, output: Json, entry = draft.context.entry): void {
  const { run } = draft.context;
  // It joins once, however many of its attempts may have happened.
  if (entry?.mayHaveHappened && entry === draft.context.entry)
    draft.change({ entry: { ...entry, mayHaveHappened: undefined } });
  if (!entry || (!plan.compensation && !plan.type.effectful)) return;
  // A sub-saga that handed over its undo list is undone by that list.
  if (!plan.compensation && groupOf(draft, plan)?.group.handed) return;
  const forwardIdempotencyKey = forwardKey(run.id, plan.id, entry.number);
  const about = { stepId: plan.id, entry: entry.number, forwardIdempotencyKey, ...forwardTrace(draft) };
  if (plan.compensation)
    return addUndo(draft, { ...about, ...compensationOf(draft, plan, plan.compensation, output, entry.at) });
  const { unprotected, call } = draft.context;
  const registered = call && draft.facts.action(call.service, call.action, call.version, run.tenantId);
  const review = registered?.compensable ?? false;
  draft.change({ unprotected: { ...unprotected, [plan.id]: review } });
  // A step that owes nothing is in no list: the warning of a rollback names it.
  if (review) draft.owe(undoOwed(draft, about));
}

/** Of the attempt that has just succeeded, for a link from its undo. */
function forwardTrace({ context, facts }: Draft): Pick<UndoEntry, "forwardTrace"> {
  const { wait } = context;
  if (wait?.kind !== "dispatched" || facts.traces?.run(context.run) === undefined) return {};
  return { forwardTrace: facts.traces.attempt(context, wait.dispatchId) };
}

export function addUndo(draft: Draft, entry: UndoEntry): void {
  draft.change({ owed: draft.context.owed + 1 });
  draft.owe(undoOwed(draft, entry));
}

/** Joins the undo list if an attempt of this entry ended with an unknown outcome. No more answers to it will count. */
export function joinIfMayHaveHappened(draft: Draft, plan: StepPlan): void {
  const { entry, wait } = draft.context;
  const done = wait?.kind === "incident" ? wait.done : undefined;
  if (entry?.mayHaveHappened) joinUndoList(draft, plan, done ?? null);
}

/** The undo of a sub-saga that is cancelled but may have succeeded first, in which case it dropped its own undo list. */
export function subSagaUndo(draft: Draft, plan: StepPlan): UndoEntry | undefined {
  const { run, entry } = draft.context;
  if (!entry || !plan.compensation) return undefined;
  const forwardIdempotencyKey = forwardKey(run.id, plan.id, entry.number);
  const call = compensationOf(draft, plan, plan.compensation, null, entry.at);
  return { stepId: plan.id, entry: entry.number, forwardIdempotencyKey, ...call };
}

function compensationOf(
  draft: Draft,
  { id }: StepPlan,
  { action, inputs }: NonNullable<StepPlan["compensation"]>,
  output: Json,
  now: number,
): Required<Pick<UndoEntry, "action" | "inputs">> {
  const { call } = draft.context;
  const scope = scopeOf(draft.context, now, output);
  const fallback: JsonObject = { inputs: call?.stepId === id ? undoneInputs(call) : {}, output };
  const name = ifEvaluable(() => pinnedAction(draft, String(action.render(scope)))) ?? "";
  const given = (inputs && ifEvaluable(() => inputs.render(scope) as JsonObject)) ?? fallback;
  return { action: name, inputs: withSecrets(findAction(draft, name)?.inputSchema, given) };
}

/** The inputs of a call as its undo receives them. The headers of a request stay out: they may hold credentials. */
function undoneInputs(call: ActionCall | undefined): JsonObject {
  if (!call?.request) return call?.inputs ?? {};
  const { method, url, body } = call.request;
  const target = { method, url: url as Json };
  return body === undefined ? target : { ...target, body };
}

function ifEvaluable<T>(evaluate: () => T): T | undefined {
  try {
    return evaluate();
  } catch (error) {
    if (error instanceof ExpressionError) return undefined;
    throw error;
  }
}

/**
 * Pins the version at the completion of the step. An unknown action keeps its bare name: it may be registered by the time of the
 * undo.
 */
function pinnedAction(draft: Draft, name: string): string {
  const found = findAction(draft, name);
  return found ? `${found.service}.${found.name}@${found.version}` : name;
}

export function findAction(draft: Draft, name: string): ActionFact | undefined {
  const parsed = parseActionName(name);
  return parsed && draft.facts.action(parsed.service, parsed.name, parsed.version, draft.context.run.tenantId);
}

/** The state of a run while it undoes. The rollback of a try leaves it running. */
export function rollbackState({ ending, unwinding }: Draft["context"]): "compensating" | "running" {
  return ending && !unwinding ? "compensating" : "running";
}

/** One warning names the completed steps that have no compensation. `since`: those that the try being rolled back has completed. */
export function passUnprotected(draft: Draft, since?: number): void {
  const { unprotected, state } = draft.context;
  const steps = Object.keys(unprotected);
  if (steps.length === 0) return;
  const message = "these steps completed and have no compensation: the rollback passes them over";
  const metadata = { kind: "undo_passed", level: "warn", message, steps: steps.slice(0, NAMED), count: steps.length };
  draft.row("log", state, { metadata });
  const review = Object.values(unprotected).includes(true);
  draft.change({ unprotected: {}, ...(review && { requiresManualReview: true }) });
  draft.owe(undoPassed(draft, { since }));
}

/** The union of two sets of unprotected steps. A step needs a review if either set says so. */
export function mergeUnprotected(left: Unprotected, right: Unprotected): Unprotected {
  const all = { ...left };
  for (const [step, review] of Object.entries(right)) all[step] = review || all[step] === true;
  return all;
}

export function undoMetadata(childRunId: RunId | undefined): JsonObject {
  return { phase: "compensation", ...(childRunId !== undefined && { child_run_id: childRunId }) };
}
