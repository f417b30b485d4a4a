// Entering a step and leaving it: what an outcome does to the run, the same for every step type. Not the attempts of an
// action (call.ts) and not the way down after a failure (rollback.ts).
import {
  dropOwnFrame,
  endBlock,
  endsBlock,
  endsChain,
  finish,
  goInside,
  leaveChains,
  ownFrame,
  raise,
} from "./blocks.js";
import { startCall } from "./call.js";
import { fork, groupOf, hold, releaseGroup } from "./children.js";
import type { StepError } from "./context.js";
import { burn, ExpressionError } from "./expression/index.js";
import type { Facts } from "./facts.js";
import { type Json, type JsonObject, measure } from "./json.js";
import { cutOff, failRun, joinIfHappened, joinUndo } from "./rollback.js";
import { scopeOf } from "./scope.js";
import type { Failure, Note, Outcome, StepPlan } from "./steps/step.js";
import { startSaga, tryAgain } from "./sub-saga.js";
import { formatInstant } from "./time.js";
import { type Draft, Needed } from "./transition.js";

export function enterStep(draft: Draft): void {
  const plan = currentPlan(draft);
  const number = draft.context.entries + 1;
  draft.change({ entries: number, entry: { number, at: draft.now } });
  draft.row("step.started", "running", { stepId: plan.id });
  const { entries } = draft.facts.limits;
  if (number > entries) {
    const error = { code: "limit_exceeded", message: `the run has entered ${entries} steps`, step_id: plan.id };
    failedRow(draft, plan, error, 0);
    return failRun(draft, error);
  }
  settle(draft, plan, outcomeOf(draft, plan));
}

export function currentPlan(draft: Draft): StepPlan {
  const plan = draft.program.steps.get(draft.context.step ?? "");
  if (!plan) throw new Error(`run ${draft.context.run.id} stands at a step that its definition does not have`);
  return plan;
}

/** What the step makes of where the run is: at its entry, after each of its rounds, and whenever one of its children has ended. */
export function outcomeOf(draft: Draft, plan: StepPlan, waited = false): Outcome {
  const { context, facts } = draft;
  const entry = context.entry;
  try {
    const scope = scopeOf(context, entry?.at ?? draft.now);
    const frame = ownFrame(context);
    const found = groupOf(draft, plan);
    const begun = frame !== undefined || waited || context.wait !== undefined || (found && !plan.type.joins);
    const { attributes } = plan;
    const { run, caught, entries } = context;
    const maybeSignalled = context.unconsumedSignals > 0 || run.family !== undefined;
    const number = entry?.number ?? entries;
    const around = { frame, group: found?.group, groupEntry: found?.entry ?? number, waited, caught, maybeSignalled };
    const entered = { program: draft.program, plan, attributes, scope, facts, run, entry: number, ...around };
    // However many expressions a step has, its entry burns one tank.
    return burn(() => {
      if (!begun && plan.when && !plan.when.test(scope)) return { kind: "skipped", reason: "when" };
      return plan.type.enter(entered);
    });
  } catch (error) {
    if (error instanceof ExpressionError)
      return { kind: "failed", error: { code: "expression_error", message: error.message } };
    throw error;
  }
}

export function settle(draft: Draft, plan: StepPlan, outcome: Outcome): void {
  switch (outcome.kind) {
    case "need":
      throw new Needed(outcome.need);
    case "done":
      note(draft, plan, outcome.notes);
      if (outcome.effects) draft.owe(...outcome.effects);
      if (outcome.signal) consume(draft, outcome.signal);
      return complete(draft, plan, outcome);
    case "skipped":
      return skip(draft, plan, outcome);
    case "failed":
      note(draft, plan, outcome.notes);
      // A sub-saga's earlier child may have succeeded too late.
      joinIfHappened(draft, plan);
      return failStep(draft, plan, outcome.error);
    case "wait":
      if (outcome.effects) draft.owe(...outcome.effects);
      draft.change({ wait: outcome.wait });
      draft.row("step.paused", "paused", { stepId: plan.id, metadata: pausedMetadata(outcome) });
      return draft.take("pause");
    case "call":
      return startCall(draft, plan, outcome.call);
    case "inside":
      if (outcome.forgets !== undefined) draft.forget(outcome.forgets);
      return goInside(draft, plan, outcome);
    case "fork":
      return fork(draft, plan, outcome);
    case "saga":
      return startSaga(draft, plan, outcome);
    case "again":
      return tryAgain(draft, plan, outcome);
    case "hold":
      return hold(draft, plan, outcome);
    case "cancel":
      complete(draft, plan, { cancels: outcome });
      return;
    case "end":
      return complete(draft, plan, { output: outcome.output, end: true });
  }
}

function note(draft: Draft, plan: StepPlan, notes: readonly Note[] = []): void {
  for (const { type, metadata } of notes) draft.row(type, draft.context.state, { stepId: plan.id, metadata });
}

/** Claims the signal. The count is of the run's own: a branch may take one of its family's. */
export function consume(draft: Draft, { id, runId }: NonNullable<Facts["signal"]>): void {
  const { run, unconsumedSignals } = draft.context;
  draft.owe({ kind: "signal.consumed", id });
  if (runId === run.id) draft.change({ unconsumedSignals: unconsumedSignals - 1 });
}

function pausedMetadata({ awaiting, name, wait }: Extract<Outcome, { kind: "wait" }>): JsonObject {
  const dueAt: JsonObject = "dueAt" in wait && wait.dueAt !== undefined ? { wakeup_at: formatInstant(wait.dueAt) } : {};
  return { awaiting, ...(name !== undefined && { name }), ...dueAt };
}

/** What a step that succeeded leaves, and where it goes. `attempt` is that of its call, 0 if it had none. */
export interface Completion {
  readonly output?: Json;
  readonly assign?: JsonObject;
  readonly edge?: string;
  readonly target?: string;
  readonly attempt?: number;
  /** The whole run ends here. */
  readonly end?: boolean;
  /** The run cancels itself here. */
  readonly cancels?: { readonly reason: string; readonly compensate: boolean };
  /** Of a try or catch chain that is done: the output of the last step entered, which is the block's if this step ends it. */
  readonly last?: Json;
}

/** The step succeeded: store, join the undo list, record, go on. Over a limit it fails, but what it did can be undone. */
export function complete(draft: Draft, plan: StepPlan, completion: Completion): void {
  const { output, assign, attempt = 0, end = false, cancels, edge, target } = completion;
  const stored = end || output === undefined || plan.saveAs === null ? assign : { ...assign, [plan.saveAs]: output };
  const fault = outputFault(draft, output) ?? store(draft, stored);
  joinUndo(draft, plan, output ?? null);
  if (fault) return failStep(draft, plan, fault, attempt);
  const duration = draft.now - (draft.context.entry?.at ?? draft.now);
  const metadata: JsonObject = output === undefined ? { duration_ms: duration } : { output, duration_ms: duration };
  draft.row("step.succeeded", "running", { stepId: plan.id, attempt, metadata });
  over(draft, plan);
  if (end) return finish(draft, output ?? null);
  if (cancels) return cancelSelf(draft, cancels);
  go(draft, edge ?? "next", edge === undefined ? plan.next : target, completion.last ?? output ?? null);
}

function skip(draft: Draft, plan: StepPlan, { reason, output }: Extract<Outcome, { kind: "skipped" }>): void {
  if (output !== undefined && plan.saveAs !== null) store(draft, { [plan.saveAs]: output });
  draft.row("step.skipped", "running", { stepId: plan.id, metadata: { reason } });
  over(draft, plan);
  go(draft, "skip", past(draft, plan), null);
}

/** A parallel that does not fork passes over its join, too. */
function past({ program }: Draft, { next, type }: StepPlan): string | undefined {
  return type.forks ? program.steps.get(next ?? "")?.next : next;
}

/** What the step kept for its rounds or its children is no longer needed. */
function over(draft: Draft, plan: StepPlan): void {
  dropOwnFrame(draft);
  releaseGroup(draft, plan);
}

/** Along an edge to the next step, or to the end of the block. `output`: what the step left. */
function go(draft: Draft, edge: string, target: string | undefined, output: Json): void {
  if (target === undefined || endsChain(draft, target)) return endBlock(draft, output);
  const ends = endsBlock(draft, target);
  leaveChains(draft, ends ? undefined : target);
  if (ends) return endBlock(draft, output);
  draft.change({ step: target, entry: undefined, wait: undefined, call: undefined });
  draft.take(edge);
}

function cancelSelf(draft: Draft, { reason, compensate }: NonNullable<Completion["cancels"]>): void {
  draft.change({ entry: undefined, wait: undefined, call: undefined });
  cutOff(draft, { to: "cancelled", reason, ...(!compensate && { abandon: true }) });
}

/** The step failed for good: `on_error` has its say, else its error goes outward. `retryable` is what the worker said. */
export function failStep(draft: Draft, plan: StepPlan, failure: Failure, attempt = 0, retryable = false): void {
  // Of a parallel and its join one `on_error` counts: the join's.
  const rule = plan.type.forks ? draft.program.steps.get(plan.next ?? "") : plan;
  const { onError = "fail", saveAs = null } = rule ?? {};
  const variable = onError === "fail" ? null : saveAs;
  const error = storeError(draft, plan, variable, { ...failure, step_id: failure.step_id ?? plan.id });
  failedRow(draft, plan, error, attempt, retryable);
  over(draft, plan);
  if (onError === "fail") return raise(draft, error);
  if (onError === "continue") go(draft, "continue", past(draft, plan), { error: { ...error } });
  else go(draft, "error", onError, null);
}

/** A failed step's output is its error, with an output's limits: one that is over them becomes the error of that. */
function storeError(draft: Draft, plan: StepPlan, variable: string | null, error: StepError): StepError {
  const output: JsonObject = { error: { ...error } };
  const fault = outputFault(draft, output) ?? (variable === null ? undefined : store(draft, { [variable]: output }));
  if (!fault) return error;
  const bounded = { ...fault, step_id: plan.id };
  if (variable !== null) store(draft, { [variable]: { error: bounded } });
  return bounded;
}

function failedRow(draft: Draft, plan: StepPlan, error: StepError, attempt: number, retryable = false): void {
  const { code, message } = error;
  const metadata = { code, message, retryable, will_retry: false };
  draft.row("step.failed", "running", { stepId: plan.id, attempt, metadata });
}

export function outputFault(draft: Draft, output: Json | undefined): Failure | undefined {
  const size = measure(output ?? null);
  if (typeof size !== "number") return { code: "expression_error", message: `the output${size.path} ${size.message}` };
  const { output: most } = draft.facts.limits;
  if (size <= most) return undefined;
  return { code: "limit_exceeded", message: `the output is over ${most} characters of JSON` };
}

/** Stores variables, or says why they cannot be stored. */
export function store(draft: Draft, variables: JsonObject | undefined): Failure | undefined {
  if (!variables) return undefined;
  let growth = 0;
  for (const [name, value] of Object.entries(variables)) {
    const size = measure(value);
    if (typeof size !== "number")
      return { code: "expression_error", message: `the variable ${name}${size.path} ${size.message}` };
    growth += size - sizeBefore(draft, name);
  }
  const { variables: most } = draft.facts.limits;
  if (draft.context.variablesSize + growth > most)
    return { code: "limit_exceeded", message: `the run's variables are over ${most} characters of JSON` };
  draft.store(variables, growth);
  return undefined;
}

function sizeBefore(draft: Draft, name: string): number {
  const { variables } = draft.context;
  if (!Object.hasOwn(variables, name)) return -name.length - 4;
  const size = measure(variables[name]);
  return typeof size === "number" ? size : 0;
}
