// The commands `pause` and `resume`: a run, and with it its family, takes nothing new until it is resumed. Results that come are kept.

import type { Acted, Command, OperatorAct } from "../messages/command.js";
import type { Decision, DecisionOn } from "../messages/transition.js";
import { livingChildren } from "../state/context.js";
import { isTerminal } from "../state/lifecycle.js";
import type { JsonObject } from "../values/json.js";
import type { Draft } from "./draft.js";
import { sendToChildren } from "./ledger/groups.js";
import { letOthersPass } from "./ledger/slots.js";
import { continueAfterHalt, restingState } from "./quarantine.js";

export function pause(draft: Draft, command: Command<"pause">): DecisionOn<"pause"> {
  const { context } = draft;
  const { actor, reason } = command;
  if (isTerminal(context.state)) return ended(draft);
  if (!isNext(draft, command) || context.held)
    return draft.decided({ type: "acted", state: context.state, changed: false });
  draft.change({ held: { by: actor, since: draft.now, ...(reason !== undefined && { reason }) } });
  recordAct(draft, command);
  sendOn(draft, command);
  letOthersPass(draft);
  draft.close("note");
  return acted(draft);
}

/** What came while the run was paused is taken now: a signal, a submitted task, children that ended, what has become due. */
export function resume(draft: Draft, command: Command<"resume">): DecisionOn<"resume"> {
  const { context } = draft;
  if (isTerminal(context.state)) return ended(draft);
  if (!isNext(draft, command) || !context.held) return notNow(draft, "the run is not paused by an operator");
  draft.change({ held: undefined });
  sendOn(draft, command);
  recordAct(draft, command);
  continueAfterHalt(draft);
  return acted(draft);
}

/** What was sent to the children, and what came from the parent, is counted. No step has such an id. */
const SENT = "/holds";
const RECEIVED = "/held";

/**
 * Records the number of a command from the parent. False: a later one has arrived already. Normally each is handed over at once, but after
 * the death of a node it waits for the poll, and the next one can overtake it. A child that took an old pause would never be resumed.
 */
function isNext(draft: Draft, { nth }: Command<"pause" | "resume">): boolean {
  const { attempts } = draft.context;
  if (nth === undefined) return true;
  if (nth <= (attempts[RECEIVED] ?? 0)) return false;
  draft.change({ attempts: { ...attempts, [RECEIVED]: nth } });
  draft.close("note");
  return true;
}

/**
 * A cancel or a terminate has ended the pause of this run, and with it that of its children. Those that were ending before ignore the stop that
 * they are sent, so all are resumed: after that stop, or they would take a step in between, and by a number, so that the pause does not come last.
 */
export function resumeChildren(draft: Draft, actor: string): void {
  if (sendOn(draft, { type: "resume", actor })) draft.close("note");
}

/** Each child does the same with its own children. False: there are none. */
function sendOn(draft: Draft, { nth: _, ...command }: Command<"pause" | "resume">): boolean {
  const { context } = draft;
  if (livingChildren(context) === 0) return false;
  // Each time is another command.
  const nth = (context.attempts[SENT] ?? 0) + 1;
  draft.change({ attempts: { ...context.attempts, [SENT]: nth } });
  sendToChildren(draft, { ...command, nth }, `hold/${nth}`);
  return true;
}

/** The act in the audit log, with who asked. */
export function recordAct(
  draft: Draft,
  { type: kind, actor: by, ...about }: OperatorAct | Command<"fork">,
  more: JsonObject = {},
): void {
  const { step } = draft.context;
  const reason: JsonObject = "reason" in about && about.reason !== undefined ? { reason: about.reason } : {};
  draft.actor = by;
  draft.row("log", restingState(draft.context), { stepId: step, metadata: { kind, by, ...reason, ...more } });
  draft.actor = "coordinator";
}

export function acted(draft: Draft): Decision<Acted> {
  return draft.decided({ type: "acted", state: draft.context.state, changed: true });
}

export function ended(draft: Draft): Decision<Acted> {
  return notNow(draft, "the run has ended");
}

/** A refusal that keeps what the decision has done before. */
function notNow(draft: Draft, reason: string): Decision<Acted> {
  return draft.decided({ type: "acted", state: draft.context.state, changed: false, reason });
}
