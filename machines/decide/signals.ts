// Signals: recorded by the run that they are addressed to, consumed by it or by a branch or item of it that waits. Two runs must
// find each other, so each side commits first and then looks; the look itself is owed by a wake row (law 9).
//
// A sender is answered `matched` when a branch is found to wait: the commit that records the signal also promises it to that branch. From then
// on the branch cannot leave its wait without the signal, whatever else would end the wait: see promisedSignal.
//
// The commands `take` and `look` are sent between runs and keep their durable names; see acceptSignal and requestMatch.

import type { Command } from "../messages/command.js";
import { Needed, type RecordedSignal } from "../messages/fact.js";
import { commandOwed, type Owed, signalRecorded } from "../messages/owed.js";
import { type DecisionOn, refused, unchanged } from "../messages/transition.js";
import { isHalted, type RunContext } from "../state/context.js";
import { isTerminal } from "../state/lifecycle.js";
import type { Wait } from "../state/wait.js";
import { recordedPayload } from "../steps/payload.js";
import type { RunId } from "../values/ids.js";
import { MAX_KEPT_SIGNALS } from "../values/limits.js";
import { currentPlan, type Draft } from "./draft.js";
import { consumeSignal } from "./ledger/signals.js";
import { isTaskSignal } from "./tasks.js";
import { completeWithPayload } from "./token.js";

/** A signal to this run: its waiting step consumes it, a waiting branch is promised it, or it is kept for a later wait. */
export function recordSignal(
  draft: Draft,
  { id, name, payload: given, traceparent }: Command<"signal">,
): DecisionOn<"signal"> {
  const { context } = draft;
  if (isTaskSignal(name)) return refused("signals named user_task.… come from submitted user tasks only");
  const payload = recordedPayload(draft.workflow, name, given);
  const signal = { id, name, payload };
  const ended = isTerminal(context.state);
  if (!awaitsSignal(context, name) && keepsTooMany(draft, ended)) return refused(keptSentence(ended));
  if (ended)
    return unchanged({ type: "signal", id, matched: false, ended }, signalRecorded(draft, signal, { consumed: false }));
  const earlier = promisedSignal(draft);
  const consumed = !earlier && awaitsSignal(context, name);
  const promisedTo = consumed ? undefined : nextWaiter(draft, name);
  const matched = consumed || promisedTo !== undefined;
  draft.owe(signalRecorded(draft, signal, { consumed, promisedTo }));
  const metadata = { kind: "signal", name, signal_id: id, matched, ...(traceparent && { traceparent }) };
  draft.row("log", context.state, { stepId: context.step, metadata });
  draft.actor = "coordinator";
  if (consumed) completeWithPayload(draft, currentPlan(draft), payload);
  else keepSignal(draft, id, name, promisedTo);
  if (earlier) takePromised(draft, earlier);
  return draft.decided({ type: "signal", id, matched });
}

/**
 * Whether the run has as many unconsumed signals as it may keep. The number that a running one knows counts those that its branches took, too,
 * and an ended one counts no more: then the rows are counted.
 */
function keepsTooMany({ context, facts }: Draft, ended: boolean): boolean {
  if (!ended && context.unconsumedSignals < MAX_KEPT_SIGNALS) return false;
  if (facts.keptSignals === undefined) throw new Needed({ kind: "kept_signals" });
  return facts.keptSignals >= MAX_KEPT_SIGNALS;
}

const keptSentence = (ended: boolean) =>
  `the signal is not recorded: the run ${ended ? "has ended and " : ""}has ${MAX_KEPT_SIGNALS} signals that no step has taken, the most that are kept`;

/** The signal that this branch or item has been promised, if it waits for one. */
function promisedSignal({ context: { wait, run }, facts }: Draft): RecordedSignal | undefined {
  if (wait?.kind !== "signal" || !run.family) return undefined;
  if (facts.signal === undefined) throw new Needed({ kind: "signal", name: wait.name });
  return facts.signal?.promised ? facts.signal : undefined;
}

/** In quarantine the signal is consumed and the step left alone: it may be what ended the process. */
function takePromised(draft: Draft, signal: RecordedSignal): void {
  if (draft.context.quarantined) consumeSignal(draft, signal);
  else completeWithSignal(draft, signal);
}

/** Before the wait ends in another way: a signal that this run was promised is taken. False: there is none. */
export function keepPromise(draft: Draft): boolean {
  const promised = promisedSignal(draft);
  if (promised) takePromised(draft, promised);
  return promised !== undefined;
}

/** No step of this run consumes the signal: it is offered to the branch that waits, or to those that begin to wait. */
function keepSignal(draft: Draft, id: string, name: string, waiter: RunId | undefined): void {
  const { context } = draft;
  draft.change({ unconsumedSignals: context.unconsumedSignals + 1 });
  if (waiter !== undefined) offerSignal(draft, waiter, id, name);
  else if (hasBlockChildren(context)) draft.change({ looking: [...(context.looking ?? []), name] });
  draft.close("note");
}

function awaitsSignal(context: RunContext, name: string): boolean {
  const { wait, ending, unwinding } = context;
  return wait?.kind === "signal" && wait.name === name && !isHalted(context) && !ending && !unwinding;
}

/** Whether branches or items of the run are still running. Sub-sagas have ids and signals of their own. */
function hasBlockChildren({ groups }: RunContext): boolean {
  return Object.values(groups).some(({ kind, running }) => kind !== "saga" && running > 0);
}

/** The branch or item that has waited longest for a signal of this name, and is free for one. */
function nextWaiter({ context, facts }: Draft, name: string): RunId | undefined {
  if (!hasBlockChildren(context)) return undefined;
  if (facts.waiter === undefined) throw new Needed({ kind: "waiter", name });
  return facts.waiter?.id;
}

function offerSignal(draft: Draft, to: RunId, signalId: string, name: string): void {
  const { run } = draft.context;
  const id = draft.facts.uuid(run.id, `${signalId}/${to}/take`);
  draft.owe(commandOwed(draft, { to, id, command: { type: "take", signalId, name, from: run.id } }));
}

/** After its commit the run looks for branches that began to wait meanwhile. Both sides look, so one of them finds the other. */
export function offerToWaiters(draft: Draft, [name = "", ...others]: readonly string[]): void {
  const { unmatched } = draft.facts;
  if (hasBlockChildren(draft.context)) {
    if (unmatched === undefined) throw new Needed({ kind: "unmatched", name });
    // Several signals may have been offered to one branch, which sends a single `look` back: so all are offered again.
    for (const { signalId, waiter } of unmatched) offerSignal(draft, waiter, signalId, name);
  }
  draft.change({ looking: others.length > 0 ? others : undefined });
  draft.close("note");
}

/** A branch that has begun to wait looks, after its commit, for signals that its family recorded before. */
export function matchRecorded(draft: Draft, { look: _, ...wait }: Extract<Wait, { kind: "signal" }>): boolean {
  const { signal } = draft.facts;
  if (signal === undefined) throw new Needed({ kind: "signal", name: wait.name });
  if (signal) completeWithSignal(draft, signal);
  else {
    draft.change({ wait });
    draft.close("note");
  }
  return true;
}

/** `take`: the family offers a recorded signal. A run that no longer waits for it asks for another match. */
export function acceptSignal(draft: Draft, offer: Command<"take">): DecisionOn<"take"> {
  const { signal } = draft.facts;
  const { name, signalId } = offer;
  if (!awaitsSignal(draft.context, name)) return unchanged({ type: "advanced" }, declined(draft, offer));
  if (signal === undefined) return { need: { kind: "signal", name } };
  if (signal === null) return unchanged({ type: "advanced" });
  // Another signal came first: the one that was offered goes to another branch.
  if (signal.id !== signalId) draft.owe(declined(draft, offer));
  completeWithSignal(draft, signal);
  return draft.decided({ type: "advanced" });
}

function declined(draft: Draft, { name, signalId, from: to }: Command<"take">): Owed {
  const { run, facts } = draft;
  const id = facts.uuid(run.id, `${signalId}/${run.id}/look`);
  return commandOwed(draft, { to, id, command: { type: "look", name } });
}

/** `look`: an offered signal was not accepted. After its commit this run offers it to another branch. */
export function requestMatch(draft: Draft, { name }: Command<"look">): DecisionOn<"look"> {
  const { context } = draft;
  if (isTerminal(context.state) || context.looking?.includes(name) || !hasBlockChildren(context))
    return unchanged({ type: "advanced" });
  draft.change({ looking: [...(context.looking ?? []), name] });
  draft.close("note");
  return draft.decided({ type: "advanced" });
}

function completeWithSignal(draft: Draft, signal: RecordedSignal): void {
  consumeSignal(draft, signal);
  completeWithPayload(draft, currentPlan(draft), signal.payload);
}
