// The children of a run: branches, items and sub-sagas, each a run of its own on the parent's shard. Making them, hearing of
// their ends, stopping them, and telling a parent. What a step makes of its children's ends stands with its type, how a
// sub-saga is begun and tried again in sub-saga.ts.
import { unwind } from "./blocks.js";
import type { RunCommand } from "./commands.js";
import {
  type ChildState,
  type Frame,
  type Group,
  isPausing,
  living,
  type RunContext,
  type RunIdentity,
  type StepError,
  type UndoEntry,
} from "./context.js";
import type { NewChild } from "./effects.js";
import { complete, currentPlan, failStep, outcomeOf, settle } from "./enter.js";
import type { Json, JsonObject } from "./json.js";
import { MOST_NESTING } from "./limits.js";
import { descend, merged, oweUndo } from "./rollback.js";
import { localsOf } from "./scope.js";
import type { Outcome, StepPlan } from "./steps/step.js";
import { formatInstant } from "./time.js";
import { type Draft, Needed } from "./transition.js";

/** Children created in one transition; the next makes more. */
const CHILDREN_AT_ONCE = 100;

type ChildEnded = Extract<RunCommand, { type: "child" }>;

/** The group that the step waits for: its own entry's, and a join's that of the parallel before it. */
export function groupOf({ program, context }: Draft, plan: StepPlan): { entry: number; group: Group } | undefined {
  const found = Object.entries(context.groups).findLast(([number, { step, left }]) => {
    if (left) return false;
    return plan.type.joins ? program.steps.get(step)?.next === plan.id : Number(number) === context.entry?.number;
  });
  return found && { entry: Number(found[0]), group: found[1] };
}

/** Branches or items: as many as may run at once are created with the step's own transition. */
export function fork(draft: Draft, plan: StepPlan, { group, items }: Extract<Outcome, { kind: "fork" }>): void {
  if (tooDeep(draft, plan)) return;
  const entry = entryNumber(draft);
  const { run, variables, groups } = draft.context;
  const ended = group.kind === "branches" ? { ended: [] } : {};
  const locals = group.kind === "branches" && group.window < group.total ? { locals: localsOf(draft.context) } : {};
  const fresh: Group = { step: plan.id, ...group, started: 0, running: 0, failed: 0, ...ended, ...locals };
  draft.change({ groups: { ...groups, [entry]: fresh }, ...(items && { items }) });
  draft.owe({ kind: "scope.kept", entry, inputs: run.inputs, variables });
  const more = startMore(draft, entry);
  if (group.kind === "branches") return complete(draft, plan, {});
  awaitChildren(draft, plan, { more });
}

/** Fails the step where no run may stand below this one. */
export function tooDeep(draft: Draft, plan: StepPlan): boolean {
  if ((draft.context.run.depth ?? 0) < MOST_NESTING) return false;
  failStep(draft, plan, { code: "limit_exceeded", message: `runs may be nested ${MOST_NESTING} deep` });
  return true;
}

export function entryNumber({ context }: Draft): number {
  if (!context.entry) throw new Error("a step without an entry has children");
  return context.entry.number;
}

/** The step waits for its children; the first time it says so. */
export function awaitChildren(draft: Draft, plan: StepPlan, about: { dueAt?: number; more?: boolean }): void {
  const { wait, state } = draft.context;
  const waited = wait?.kind === "children";
  const dueAt = about.dueAt === undefined ? {} : { dueAt: about.dueAt };
  draft.change({ wait: { kind: "children", ...dueAt, ...(about.more && { more: true }) } });
  if (waited && state === "paused") return draft.take("note");
  const due: JsonObject = about.dueAt === undefined ? {} : { wakeup_at: formatInstant(about.dueAt) };
  draft.row("step.paused", "paused", { stepId: plan.id, metadata: { awaiting: "children", ...due } });
  draft.take("pause");
}

/** Its children still run: more of them begin, or those that are left over are told to end. */
export function hold(draft: Draft, plan: StepPlan, { stop }: Extract<Outcome, { kind: "hold" }>): void {
  const found = groupOf(draft, plan);
  if (!found) throw new Error("a step waits for children that it does not have");
  const { wait } = draft.context;
  if (stop !== undefined) stopChildren(draft, found.entry, stop, true);
  const more = stop === undefined && startMore(draft, found.entry);
  const dueAt = stop === undefined && wait?.kind === "children" ? wait.dueAt : undefined;
  awaitChildren(draft, plan, { dueAt, more });
}

/** Creates the next children that may run; says whether there are more that could begin at once. */
function startMore(draft: Draft, entry: number): boolean {
  const group = draft.context.groups[entry];
  if (!group || group.stopped) return false;
  const room = Math.min(group.window - group.running, group.total - group.started);
  const count = Math.max(0, Math.min(room, CHILDREN_AT_ONCE));
  for (let nth = group.started; nth < group.started + count; nth++) {
    const child = blockChild(draft, group, entry, nth);
    draft.owe({ kind: "child.start", child });
    draft.born.push({ id: child.identity.id, entry });
  }
  changeGroup(draft, entry, { ...group, started: group.started + count, running: group.running + count });
  return room > count;
}

/** A branch or an item: the same definition, a copy of the variables, its own beginning. */
function blockChild(draft: Draft, group: Group, entry: number, nth: number): NewChild {
  const { context, facts, program } = draft;
  const { run, items, variables, variablesSize } = context;
  const plan = program.steps.get(group.step) as StepPlan;
  const block = group.kind === "branches" ? plan.blocks[nth] : plan.blocks[0];
  const branch = block?.name ?? String(nth);
  const id = facts.uuid(run.id, `${run.id}/${group.step}/${entry}/${branch}`);
  const identity: RunIdentity = {
    ...inherited(draft, id, entry, plan),
    parentBranchId: branch,
    inputs: run.inputs,
    entrypoint: "",
    family: [run.id, ...(run.family ?? [])],
    startStep: block?.start,
    locals: {
      ...(group.locals ?? localsOf(context)),
      ...(group.kind === "items" && itemLocals(plan, items?.[nth] ?? null, nth)),
    },
  };
  // The run has gone on and changed its variables: the child finds those that were kept for it.
  const known = group.left ? {} : { variables, variablesSize };
  return { identity, ...known, inherited: true, at: draft.now };
}

function itemLocals({ attributes }: StepPlan, item: Json, index: number): JsonObject {
  const { item_var = "item", index_var = "index" } = attributes as { item_var?: string; index_var?: string };
  return { item, index, [item_var]: item, [index_var]: index };
}

/** What every child has of its parent. */
export function inherited(
  { context, now }: Draft,
  id: string,
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
  };
}

/** A child has ended: it is counted, what it handed over is owed here, and whoever waited for it goes on. */
export function childEnded(draft: Draft, command: ChildEnded): boolean {
  const { context } = draft;
  const group = context.groups[command.entry];
  if (!group || group.ended?.some(([branch]) => branch === command.branch)) return false;
  count(draft, command, group);
  if (context.quarantined) draft.take("note");
  else goOnAfterChildren(draft);
  return true;
}

/** A child has ended, or while the run was in quarantine some did: whoever waited for them goes on. */
export function goOnAfterChildren(draft: Draft): void {
  tendLeft(draft);
  const { unwinding, ending, finishing, wait, output = null } = draft.context;
  if (wait?.kind !== "children") draft.take("note");
  else if (unwinding) goOnIf(draft, living(draft.context, unwinding.entry) === 0, () => unwind(draft, unwinding));
  else if (ending) goOnIf(draft, living(draft.context) === 0, () => descend(draft, "note"));
  else if (finishing) goOnIf(draft, living(draft.context) === 0, () => succeed(draft, output));
  else resume(draft);
}

/** Of children that were left to themselves the next begin, or the last has ended. */
function tendLeft(draft: Draft): void {
  for (const [entry, { left }] of Object.entries(draft.context.groups)) {
    if (!left) continue;
    startMore(draft, Number(entry));
    if (draft.context.groups[Number(entry)]?.running === 0) forget(draft, Number(entry));
  }
}

function goOnIf(draft: Draft, ready: boolean, goOn: () => void): void {
  if (ready) goOn();
  else {
    draft.change({ wait: { kind: "children" } });
    draft.take("note");
  }
}

function count(draft: Draft, { entry, branch, state, error, owed, unprotected }: ChildEnded, group: Group): void {
  const { context } = draft;
  const running = group.running - 1;
  const verdict = verdictAfter(group, state, error);
  changeGroup(draft, entry, {
    ...group,
    running,
    failed: group.failed + (state === "succeeded" ? 0 : 1),
    ...(group.ended && branch !== undefined && { ended: [...group.ended, [branch, state] as const] }),
    ...(verdict && { verdict }),
    ...(owed > 0 && { handed: true }),
  });
  if (owed > 0) draft.change({ owed: context.owed + owed });
  if (state === "succeeded" && group.undo) succeededTooLate(draft, entry, group.undo);
  inherit(draft, entry, owed, unprotected);
}

/** A sub-saga succeeded although it was told to end. A step that still stands there may try again: its entry is owed once, in the end. */
function succeededTooLate(draft: Draft, number: number, undo: UndoEntry): void {
  const { entry } = draft.context;
  if (entry?.number === number) draft.change({ entry: { ...entry, mayHaveHappened: true } });
  else oweUndo(draft, undo);
}

/** What a child hands over that was made before a try was entered was owed and left unprotected outside of that. */
function inherit(draft: Draft, entry: number, owed: number, unprotected: RunContext["unprotected"]): void {
  if (owed === 0 && Object.keys(unprotected).length === 0) return;
  const { frames } = draft.context;
  const inner = frames.findIndex((frame) => frame.kind === "try" && frame.entry.number > entry);
  if (inner < 0) return draft.change({ unprotected: merged(draft.context.unprotected, unprotected) });
  const changed = frames.map((frame, index): Frame => {
    if (frame.kind !== "try" || index < inner) return frame;
    const outside = index === inner ? merged(frame.unprotected, unprotected) : frame.unprotected;
    return { ...frame, owed: frame.owed + owed, unprotected: outside };
  });
  draft.change({ frames: changed });
}

/** Items keep the failure that went over the tolerance. */
function verdictAfter(group: Group, state: ChildState, error: StepError | undefined): Group["verdict"] {
  if (group.kind === "branches") return undefined;
  const settled = group.kind === "items" && (group.stopped || state === "succeeded");
  return settled ? group.verdict : { state, ...(error && { error }) };
}

/** Asks the step that waits for its children again. */
export function resume(draft: Draft): void {
  const plan = currentPlan(draft);
  settle(draft, plan, outcomeOf(draft, plan));
}

/** Tells every child of the step entries from `from` on to end. Those that have ended meanwhile take no notice. */
export function stopChildren(draft: Draft, from: number, reason: string, compensate: boolean): void {
  const { groups, run } = draft.context;
  const open = Object.entries(groups).filter(([entry, group]) => Number(entry) >= from && !group.stopped);
  if (open.some(([, { running }]) => running > 0)) {
    const { living: ids } = draft.facts;
    if (!ids) throw new Needed({ kind: "living", from });
    // Those that this very decision creates could not be read yet.
    const born = draft.born.filter(({ entry }) => entry >= from).map(({ id }) => id);
    for (const to of [...ids, ...born]) {
      const id = draft.facts.uuid(run.id, `${to}/stop`);
      draft.owe({ kind: "send", to, id, command: { type: "cancel", reason, compensate, actor: "coordinator" } });
    }
  }
  for (const [entry, group] of open) changeGroup(draft, Number(entry), { ...group, stopped: true });
}

/** The step is over: its group goes, or stays until the children that are left to themselves have ended. */
export function releaseGroup(draft: Draft, plan: StepPlan): void {
  const found = groupOf(draft, plan);
  if (!found || plan.type.forks) return;
  if (draft.context.items) draft.change({ items: undefined });
  const { entry, group } = found;
  // Only where a join says that the remaining go on do those go on that have not begun.
  const total = plan.type.joins && plan.attributes.cancel_remaining === false ? group.total : group.started;
  changeGroup(draft, entry, { ...group, total, left: true });
  tendLeft(draft);
}

/** The run has succeeded, but for the branches that were left running: they are stopped and awaited. */
export function succeed(draft: Draft, output: Json): void {
  const { context } = draft;
  if (living(context) > 0) {
    const edge = isPausing(context) ? "resume" : "note";
    stopChildren(draft, 0, "the run is about to end", true);
    draft.change({
      finishing: true,
      output: output ?? undefined,
      entry: undefined,
      call: undefined,
      wait: { kind: "children" },
    });
    return draft.take(edge);
  }
  const gone = {
    step: undefined,
    entry: undefined,
    wait: undefined,
    call: undefined,
    finishing: undefined,
    looking: undefined,
  };
  draft.change({ ...gone, groups: {}, output: output ?? undefined });
  tellParent(draft, "succeeded");
  draft.row("run.succeeded", "succeeded");
  draft.take("run.succeeded");
}

/** The parent hears of the end; of a success it takes over what would have to be undone. */
export function tellParent(draft: Draft, state: ChildState, error?: StepError): void {
  const { run, owed, unprotected } = draft.context;
  const { parentRunId: to, parentEntry: entry, parentBranchId: branch, keepsUndo } = run;
  if (to === undefined || entry === undefined) return;
  const owing = state === "succeeded" && (owed > 0 || Object.keys(unprotected).length > 0);
  if (owing) draft.owe(keepsUndo ? { kind: "undo.dropped" } : { kind: "undo.handed", to, entry });
  const handed = owing && !keepsUndo ? { owed, unprotected } : { owed: 0, unprotected: {} };
  const command: ChildEnded = { type: "child", entry, branch, state, ...(error && { error }), ...handed };
  draft.owe({ kind: "send", to, id: draft.facts.uuid(run.id, `${run.id}/ended`), command });
}

export function changeGroup(draft: Draft, entry: number, group: Group): void {
  draft.change({ groups: { ...draft.context.groups, [entry]: group } });
}

/** Children of a block that is left: those that were left running before stay until they have ended. */
export function forgetEnded(draft: Draft, from: number): void {
  const open = Object.entries(draft.context.groups).filter(
    ([entry, { running }]) => Number(entry) < from || running > 0,
  );
  draft.change({ groups: Object.fromEntries(open) });
}

function forget(draft: Draft, entry: number): void {
  const { [entry]: _, ...groups } = draft.context.groups as Record<number, Group>;
  draft.change({ groups: groups as RunContext["groups"] });
}
