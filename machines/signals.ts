// Signals: recorded by the run that they are addressed to, taken by it or by a branch or item of it that waits. Two different
// runs must find each other, so each side commits first and then looks, and the look itself is owed by a wake row (law 9).
import type { Answer } from "./commands.js";
import type { RunContext, Wait } from "./context.js";
import { type Command, refused, unchanged } from "./decide.js";
import type { Effect } from "./effects.js";
import { complete, consume, currentPlan } from "./enter.js";
import { isTerminal } from "./lifecycle.js";
import { isTaskSignal } from "./task.js";
import { type Decision, type Draft, Needed } from "./transition.js";

export function signal(draft: Draft, { id, name, payload }: Command<"signal">): Decision {
  const { context } = draft;
  if (isTaskSignal(name)) return refused("signals named user_task.… come from submitted user tasks only");
  const taken = waitsFor(context, name);
  const recorded: Effect = { kind: "signal.recorded", id, name, payload, consumed: taken };
  if (isTerminal(context.state)) return unchanged({ type: "signal", id, matched: false }, [recorded]);
  const waiter = taken ? undefined : waiterFor(draft, name);
  const matched = taken || waiter !== undefined;
  draft.owe(recorded);
  draft.row("log", context.state, { stepId: context.step, metadata: { kind: "signal", name, signal_id: id, matched } });
  draft.actor = "coordinator";
  if (taken) complete(draft, currentPlan(draft), { output: payload });
  else {
    draft.change({ unconsumedSignals: context.unconsumedSignals + 1 });
    if (waiter !== undefined) pass(draft, waiter, id, name);
    else if (hasFamily(context)) draft.change({ looking: [...(context.looking ?? []), name] });
    draft.take("note");
  }
  return draft.decided({ type: "signal", id, matched });
}

function waitsFor({ wait, quarantined, ending, unwinding }: RunContext, name: string): boolean {
  return wait?.kind === "signal" && wait.name === name && !quarantined && !ending && !unwinding;
}

/** Whether branches or items of it run: a sub-saga is addressed by its own id. */
function hasFamily({ groups }: RunContext): boolean {
  return Object.values(groups).some(({ kind, running }) => kind !== "saga" && running > 0);
}

/** The branch or item that is to take the next one. */
function waiterFor({ context, facts }: Draft, name: string): string | undefined {
  if (!hasFamily(context)) return undefined;
  if (facts.waiter === undefined) throw new Needed({ kind: "waiter", name });
  return facts.waiter?.id;
}

function pass(draft: Draft, to: string, signalId: string, name: string): void {
  const { run } = draft.context;
  const id = draft.facts.uuid(run.id, `${signalId}/${to}/take`);
  draft.owe({ kind: "send", to, id, command: { type: "take", signalId, name, from: run.id } });
}

/** After its commit the run looks for who began to wait meanwhile; both sides look, so one of them finds the other. */
export function look(draft: Draft, [name = "", ...others]: readonly string[]): void {
  const { unmatched } = draft.facts;
  if (hasFamily(draft.context)) {
    if (unmatched === undefined) throw new Needed({ kind: "unmatched", name });
    // All of them: several signals may have gone to one and the same, and one look is all that comes of it.
    for (const { signalId, waiter } of unmatched) pass(draft, waiter, signalId, name);
  }
  draft.change({ looking: others.length > 0 ? others : undefined });
  draft.take("note");
}

/** A branch that has begun to wait looks, after its commit, at what its family recorded. */
export function lookOnce(draft: Draft, { look: _, ...wait }: Extract<Wait, { kind: "signal" }>): boolean {
  const { signal } = draft.facts;
  if (signal === undefined) throw new Needed({ kind: "signal", name: wait.name });
  if (signal) taken(draft, signal);
  else {
    draft.change({ wait });
    draft.take("note");
  }
  return true;
}

/** A signal of the family's is there for this run. Who no longer waits says so: somebody else may. */
export function takeSignal(draft: Draft, { name, signalId, from }: Command<"take">): Decision {
  const { context, facts } = draft;
  const answer: Answer = { type: "advanced" };
  if (!waitsFor(context, name)) {
    const id = facts.uuid(context.run.id, `${signalId}/${context.run.id}/look`);
    return unchanged(answer, [{ kind: "send", to: from, id, command: { type: "look", name } }]);
  }
  if (facts.signal === undefined) return { need: { kind: "signal", name } };
  if (facts.signal === null) return unchanged(answer);
  taken(draft, facts.signal);
  return draft.decided(answer);
}

export function lookAgain(draft: Draft, { name }: Command<"look">): Decision {
  const { context } = draft;
  const answer: Answer = { type: "advanced" };
  if (isTerminal(context.state) || context.looking?.includes(name) || !hasFamily(context)) return unchanged(answer);
  draft.change({ looking: [...(context.looking ?? []), name] });
  draft.take("note");
  return draft.decided(answer);
}

function taken(draft: Draft, signal: NonNullable<Draft["facts"]["signal"]>): void {
  consume(draft, signal);
  complete(draft, currentPlan(draft), { output: signal.payload });
}
