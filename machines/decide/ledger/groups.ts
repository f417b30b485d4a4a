// The groups of a run: the children of its step entries. Creates children, counts them and stops them.

import { localsOf } from "../../expression/scope.js";
import type { Command, RunCommand } from "../../messages/command.js";
import { Needed } from "../../messages/fact.js";
import { childStarted, commandOwed, type NewChild, scopeKept, undoHanded, undoPassed } from "../../messages/owed.js";
import { livingChildren, type RunContext } from "../../state/context.js";
import type { StepError } from "../../state/entry.js";
import type { ChildState, Group } from "../../state/group.js";
import { type RunIdentity, startupSource, traceBelow } from "../../state/identity.js";
import type { StepOutcome, StepPlan } from "../../steps/step.js";
import { asRunId, type RunId } from "../../values/ids.js";
import type { Json, JsonObject } from "../../values/json.js";
import { formatInstant } from "../../values/time.js";
import type { Draft } from "../draft.js";

/** The most children that one transition creates; the next transition creates more. */
const CHILDREN_AT_ONCE = 100;

/** The group that the step waits for: that of its own entry, or for a join that of the parallel before it. */
export function groupOf(
  { workflow, context }: Draft,
  plan: StepPlan,
): { readonly entry: number; readonly group: Group } | undefined {
  const found = Object.entries(context.groups).findLast(([number, { step, left }]) => {
    if (left) return false;
    return plan.type.joins ? workflow.steps.get(step)?.next === plan.id : Number(number) === context.entry?.number;
  });
  return found && { entry: Number(found[0]), group: found[1] };
}

export function entryNumber({ context }: Draft): number {
  if (!context.entry) throw new Error(`run ${context.run.id} has children of a step that it has not entered`);
  return context.entry.number;
}

/** An empty group for the branches or items of this step entry, and the scope that they begin with. */
export function createGroup(
  draft: Draft,
  plan: StepPlan,
  { group, items }: Extract<StepOutcome, { kind: "start_children" }>,
): void {
  const entry = entryNumber(draft);
  const { run, variables, groups } = draft.context;
  const ended = group.kind === "branches" ? { ended: [] } : {};
  const locals = group.kind === "branches" && group.window < group.total ? { locals: localsOf(draft.context) } : {};
  const fresh: Group = { step: plan.id, ...group, started: 0, running: 0, failed: 0, ...ended, ...locals };
  draft.change({ groups: { ...groups, [entry]: fresh }, ...(items && { items }) });
  draft.owe(scopeKept({ run }, entry, variables));
}

/** The step waits for its children; the first time it records a pause. */
export function awaitChildren(draft: Draft, plan: StepPlan, about: { dueAt?: number; more?: boolean }): void {
  const { wait, state } = draft.context;
  const waited = wait?.kind === "children";
  const dueAt = about.dueAt === undefined ? {} : { dueAt: about.dueAt };
  draft.change({ wait: { kind: "children", ...dueAt, ...(about.more && { more: true }) } });
  if (waited && state === "paused") return draft.close("note");
  const due: JsonObject = about.dueAt === undefined ? {} : { wakeup_at: formatInstant(about.dueAt) };
  draft.row("step.paused", "paused", { stepId: plan.id, metadata: { awaiting: "children", ...due } });
  draft.close("pause");
}

/** The step waits on: more of its children start or, with `stop`, those that still run are cancelled. */
export function startOrStopChildren(
  draft: Draft,
  plan: StepPlan,
  { stop }: Extract<StepOutcome, { kind: "await_children" }>,
): void {
  const found = groupOf(draft, plan);
  if (!found) throw new Error(`the step ${plan.id} waits for children that it does not have`);
  const { wait } = draft.context;
  if (stop !== undefined) stopChildren(draft, found.entry, stop, true);
  const more = stop === undefined && startNextChildren(draft, found.entry);
  const dueAt = stop === undefined && wait?.kind === "children" ? wait.dueAt : undefined;
  awaitChildren(draft, plan, { dueAt, more });
}

/** Creates the next children that the window allows. True if it allows more than one transition creates. */
export function startNextChildren(draft: Draft, entry: number): boolean {
  const group = draft.context.groups[entry];
  if (!group || group.stopped) return false;
  const room = Math.min(group.window - group.running, group.total - group.started);
  const count = Math.max(0, Math.min(room, CHILDREN_AT_ONCE));
  for (let nth = group.started; nth < group.started + count; nth++) {
    const child = blockChild(draft, group, entry, nth);
    draft.owe(childStarted(child));
    draft.createdChildren.push({ id: child.identity.id, entry });
  }
  setGroup(draft, entry, { ...group, started: group.started + count, running: group.running + count });
  return room > count;
}

/** A branch or an item: a run of the same definition, with the parent's variables and a start of its own. */
function blockChild(draft: Draft, group: Group, entry: number, nth: number): NewChild {
  const { context, facts, workflow } = draft;
  const { run, items, variables, variablesSize } = context;
  const plan = workflow.steps.get(group.step) as StepPlan;
  const block = group.kind === "branches" ? plan.blocks[nth] : plan.blocks[0];
  const branch = block?.name ?? String(nth);
  const id = asRunId(facts.uuid(run.id, `${run.id}/${group.step}/${entry}/${branch}`));
  const item = group.kind === "items" && itemLocals(plan, items?.[nth] ?? null, nth);
  const identity: RunIdentity = {
    ...inheritedIdentity(draft, id, entry, plan),
    ...{ parentBranchId: branch, startStep: block?.start, inputs: run.inputs, entrypoint: "" },
    family: [run.id, ...(run.family ?? [])],
    locals: { ...(group.locals ?? localsOf(context)), ...item },
  };
  // The parent has gone on and may have changed its variables: a late child reads those kept at the step entry.
  const known = group.left ? {} : { variables, variablesSize };
  return { identity, ...known, inherited: true, at: draft.now };
}

function itemLocals({ type, attributes }: StepPlan, item: Json, index: number): JsonObject {
  const own = type.block?.locals?.(attributes);
  return { item, index, ...(own && { [own.item]: item, [own.index]: index }) };
}

/** The part of a child's identity that comes from its parent. */
export function inheritedIdentity(
  { context, now, facts }: Draft,
  id: RunId,
  entry: number,
  plan: StepPlan,
): Omit<RunIdentity, "inputs" | "entrypoint"> {
  const { run } = context;
  return {
    id,
    workflowId: run.workflowId,
    version: run.version,
    definitionId: run.definitionId,
    tenantId: run.tenantId,
    businessKey: run.businessKey,
    dryRun: run.dryRun,
    features: run.features,
    parentRunId: run.id,
    parentStepId: plan.id,
    parentEntry: entry,
    rootRunId: run.rootRunId ?? run.id,
    depth: (run.depth ?? 0) + 1,
    startedAt: now,
    startupFrom: startupSource(run),
    precedence: run.precedence,
    ...traceBelow(run, facts.traces),
  };
}

/** Groups that their steps have left: their next children start, and a group is dropped once its last child has ended. */
export function tendDetachedGroups(draft: Draft): void {
  for (const [entry, { left }] of Object.entries(draft.context.groups)) {
    if (!left) continue;
    startNextChildren(draft, Number(entry));
    if (draft.context.groups[Number(entry)]?.running === 0) dropGroup(draft, Number(entry));
  }
}

/** Cancels every child of the step entries from `from` on. A child that has ended by then ignores it. */
export function stopChildren(draft: Draft, from: number, reason: string, compensate: boolean): void {
  const { groups } = draft.context;
  const open = Object.entries(groups).filter(([entry, group]) => Number(entry) >= from && !group.stopped);
  const command = { type: "cancel", reason, compensate, actor: "coordinator" } as const;
  if (open.some(([, { running }]) => running > 0)) sendToChildren(draft, command, "stop", from);
  for (const [entry, group] of open) setGroup(draft, Number(entry), { ...group, stopped: true });
}

/** Terminates every child, also those that have been told to stop. */
export function stopEveryChild(draft: Draft, command: Command<"terminate">): void {
  if (livingChildren(draft.context) > 0) sendToChildren(draft, command, "terminate");
  for (const [entry, group] of Object.entries(draft.context.groups))
    setGroup(draft, Number(entry), { ...group, stopped: true });
}

/** Sends a command to the children of the step entries from `from` on that have not ended. `name`: each is sent once. */
export function sendToChildren(draft: Draft, command: RunCommand, name: string, from = 0): void {
  const { run } = draft.context;
  for (const to of livingFrom(draft, from))
    draft.owe(commandOwed(draft, { to, id: draft.facts.uuid(run.id, `${to}/${name}`), command }));
}

/** The children that have not ended: those that can be read, and those that this very decision creates. */
function livingFrom({ facts, createdChildren }: Draft, from: number): readonly RunId[] {
  if (!facts.living) throw new Needed({ kind: "living", from });
  return [...facts.living, ...createdChildren.filter(({ entry }) => entry >= from).map(({ id }) => id)];
}

/** The step is over. Its group is detached: it stays until the last of its children has ended. */
export function releaseGroup(draft: Draft, plan: StepPlan): void {
  const found = groupOf(draft, plan);
  if (!found || plan.type.forks) return;
  if (draft.context.items) draft.change({ items: undefined });
  const { entry, group } = found;
  // Children that have not started start only if a join lets the remaining ones go on.
  const total = plan.type.joins && plan.attributes.cancel_remaining === false ? group.total : group.started;
  setGroup(draft, entry, { ...group, total, left: true });
  tendDetachedGroups(draft);
}

/** Tells the parent that this run has ended. The undo list of a run that succeeded goes to the parent. */
export function notifyParent(draft: Draft, state: ChildState, error?: StepError): void {
  const { run, owed, unprotected } = draft.context;
  const { parentRunId: to, parentEntry: entry, parentBranchId: branch, keepsUndo } = run;
  if (to === undefined || entry === undefined) return;
  const owing = state === "succeeded" && (owed > 0 || Object.keys(unprotected).length > 0);
  if (owing) draft.owe(keepsUndo ? undoPassed(draft, { every: true }) : undoHanded(draft, to, entry));
  const handed = owing && !keepsUndo ? { owed, unprotected } : { owed: 0, unprotected: {} };
  const command: Command<"child"> = { type: "child", entry, branch, state, ...(error && { error }), ...handed };
  draft.owe(commandOwed(draft, { to, id: draft.facts.uuid(run.id, `${run.id}/ended`), command }));
}

export function setGroup(draft: Draft, entry: number, group: Group): void {
  draft.change({ groups: { ...draft.context.groups, [entry]: group } });
}

/** Drops the groups of a block that is left. Groups with children that still run stay until those have ended. */
export function dropEndedGroups(draft: Draft, from: number): void {
  const open = Object.entries(draft.context.groups).filter(
    ([entry, { running }]) => Number(entry) < from || running > 0,
  );
  draft.change({ groups: Object.fromEntries(open) });
}

function dropGroup(draft: Draft, entry: number): void {
  const { [entry]: _, ...groups } = draft.context.groups as Record<number, Group>;
  draft.change({ groups: groups as RunContext["groups"] });
}
