// The commands of a turn: `turn_given` and `turn_refused`; and how a run, or its step, goes on in its turn, or gives up one that it did not use in
// time. Until then the wait is a timer.

import type { Answer, Command } from "../messages/command.js";
import { type Decided, type DecisionOn, unchanged } from "../messages/transition.js";
import { isTerminal } from "../state/lifecycle.js";
import { RUN_SLOT } from "../state/slot.js";
import { isAnswered, isTooLate, type Turn, taken, turnOf } from "../state/turn.js";
import type { Wait } from "../state/wait.js";
import { queueCall, resolveDispatch } from "./dispatching.js";
import { currentPlan, type Draft } from "./draft.js";
import { failRun } from "./ending.js";
import {
  aboutTurn,
  askRunTurn,
  awaitRunTurn,
  awaitStepTurn,
  needsTurn,
  type RateWait,
  runTurnOf,
  turnFailure,
} from "./ledger/turns.js";
import { failStep } from "./token.js";

/** An answer about a turn that the run no longer waits for is stale: the commit that ended the wait gave the turn back. */
export function turnDecided(draft: Draft, command: Command<"turn_given" | "turn_refused">): DecisionOn<"turn_given"> {
  const { context, now } = draft;
  const { entry, wait } = context;
  const awaited = turnOf(context, command.entry);
  if (!awaited?.open || awaited.at !== undefined || isTerminal(context.state)) return unchanged({ type: "advanced" });
  const turn: Turn = command.type === "turn_given" ? { ...awaited, at: command.at } : { ...taken(awaited), full: true };
  if (command.entry === RUN_SLOT) draft.change({ turn });
  else draft.change({ entry: entry && { ...entry, turn } });
  // One that may be taken now makes the run ready, without a time to wait for: its next step follows in the same commit, unless it is halted.
  if (wait?.kind === "rate_limit" && command.type === "turn_given" && command.at > now)
    draft.change({ wait: { ...wait, dueAt: command.at } });
  draft.close("note");
  return draft.decided({ type: "advanced" });
}

/** The run needs no turn, or takes it now. False: it stands before its first step, and `moved` says whether anything has changed. */
export function takeRunTurn(draft: Draft): { readonly began: boolean; readonly moved: boolean } {
  if (!needsTurn(draft)) return { began: true, moved: false };
  const { context, now } = draft;
  const turn = runTurnOf(draft);
  if ("code" in turn) failRun(draft, turn);
  else if (turn.full) failRun(draft, turnFailure(turn));
  else if (isTooLate(turn, now)) awaitRunTurn(draft, askRunTurn(draft, turn));
  else if (turn.at !== undefined && turn.at <= now) {
    draft.change({ turn: taken(turn) });
    return { began: true, moved: true };
  } else if (context.wait?.kind === "rate_limit") return { began: false, moved: false };
  else awaitRunTurn(draft, turn);
  return { began: false, moved: true };
}

/** The step is in its turn, and its call is queued; or it fails without one. False: its time has not come yet. */
export function takeStepTurn(draft: Draft, { nth = 1, queueDueAt }: RateWait): boolean {
  const { context, now } = draft;
  const { entry, call } = context;
  const { turn } = entry ?? {};
  if (!entry || !call || !turn || !isAnswered(turn) || (turn.at ?? now) > now) return false;
  const plan = currentPlan(draft);
  const queue = queueDueAt === undefined ? {} : { queueDueAt };
  if (turn.full) failStep(draft, plan, turnFailure(turn));
  else if (isTooLate(turn, now)) awaitStepTurn(draft, call, nth, { ...queue, metadata: { late: true } });
  else {
    draft.row("log", "running", { stepId: plan.id, metadata: { kind: "turn_taken", ...aboutTurn(turn) } });
    draft.change({ entry: { ...entry, turn: taken(turn) } });
    queueCall(draft, call, nth, "resume", queueDueAt);
  }
  return true;
}

/** A worker takes the call too late after its turn: the credit goes back, and the call waits for another one. Undefined: the call may go. */
export function giveUpLateTurn<A extends Answer>(
  draft: Draft,
  wait: Extract<Wait, { kind: "queued" }>,
  answer: A,
): Decided<A> | undefined {
  const { entry, call } = draft.context;
  if (!entry?.turn || call?.phase !== "forward" || !isTooLate(entry.turn, draft.now)) return undefined;
  resolveDispatch(draft, wait);
  const queue = wait.dueAt === undefined ? {} : { queueDueAt: wait.dueAt };
  awaitStepTurn(draft, call, wait.nth, { ...queue, metadata: { late: true } });
  return draft.decided(answer);
}
