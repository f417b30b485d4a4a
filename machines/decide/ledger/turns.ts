// The turns that a run asks for: when it asks, what it records, and the error of one that it does not get. The store gives
// them (src/store/engine/turns.ts); Draft.change gives back what is not used.

import { ExpressionError } from "../../expression/index.js";
import { scopeOf } from "../../expression/scope.js";
import { turnRequested } from "../../messages/owed.js";
import type { ActionCall } from "../../state/call.js";
import { isPausing } from "../../state/context.js";
import { RUN_SLOT } from "../../state/slot.js";
import { askedFor, type Turn, turnKey } from "../../state/turn.js";
import type { Wait } from "../../state/wait.js";
import { runTurn } from "../../steps/rate.js";
import type { Failure } from "../../steps/step.js";
import type { JsonObject } from "../../values/json.js";
import { formatInstant } from "../../values/time.js";
import type { Draft } from "../draft.js";

export type RateWait = Extract<Wait, { kind: "rate_limit" }>;

/** Whether the run begins in its turn. A branch or an item is part of a run that had one; a dry run does nothing. */
export function needsTurn({ workflow, context: { run, turn } }: Draft): boolean {
  // One that was moved to another version still takes the turn that it has asked for.
  if (turn) return true;
  return workflow.rateLimit !== undefined && !run.dryRun && run.family === undefined;
}

/** The turn that the run waits for before its first step. A run that a client started has asked for it with its start. */
export function runTurnOf(draft: Draft): Turn | Failure {
  const { workflow, context, now } = draft;
  const { rateLimit } = workflow;
  if (context.turn) return context.turn;
  if (!rateLimit) throw new Error(`run ${context.run.id} asks for a turn that its workflow does not limit`);
  try {
    return askRunTurn(draft, runTurn(context.run, rateLimit, scopeOf(context, now)));
  } catch (error) {
    if (error instanceof ExpressionError) return { code: "expression_error", message: error.message };
    throw error;
  }
}

export function askRunTurn(draft: Draft, limited: Turn): Turn {
  const turn = askedFor(limited);
  draft.change({ turn });
  draft.owe(turnRequested(draft, requestOf(turn, RUN_SLOT)));
  return turn;
}

/** The run stands still before its first step. */
export function awaitRunTurn(draft: Draft, turn: Turn): void {
  draft.change({ wait: waitFor(draft, turn, RUN_SLOT) });
  draft.row("log", "paused", { metadata: { kind: "turn_awaited", ...aboutTurn(turn) } });
  draft.close("note");
}

/** The call is made, and attempt `nth` is queued for a worker in its turn. `queueDueAt`: its queue timeout goes on. */
export function awaitStepTurn(
  draft: Draft,
  call: ActionCall,
  nth: number,
  { queueDueAt, metadata }: { readonly queueDueAt?: number; readonly metadata?: JsonObject } = {},
): void {
  const { entry, run } = draft.context;
  if (!entry?.turn) throw new Error(`run ${run.id} asks for a turn of a step without a rate limit`);
  const edge = isPausing(draft.context) ? "note" : "pause";
  const turn = askedFor(entry.turn);
  const due = queueDueAt === undefined ? {} : { queueDueAt };
  draft.change({
    call,
    entry: { ...entry, turn },
    wait: { ...waitFor(draft, turn, entry.number), nth, ...due },
  });
  draft.owe(turnRequested(draft, requestOf(turn, entry.number, call.stepId)));
  const about = { awaiting: "rate_limit", name: turn.key, ...metadata };
  draft.row("step.paused", "paused", { stepId: call.stepId, metadata: about });
  draft.close(edge);
}

function waitFor({ now }: Draft, { scope, key, at, full }: Turn, entry: number): RateWait {
  // One that is to be taken now has no time: the run is ready.
  const due = at === undefined || at <= now || full ? {} : { dueAt: at };
  return { kind: "rate_limit", entry, scope, key, since: now, ...due };
}

function requestOf(turn: Turn, entry: number, stepId?: string) {
  const { limit, perMs, burst } = turn;
  return { entry, key: turnKey(turn), limit, perMs, burst, ...(stepId !== undefined && { stepId }) };
}

/** The error of a turn that there is not. */
export const turnFailure = ({ scope, key }: Turn): Failure => ({
  code: "rate_limit_queue_full",
  message: `too many wait for their turn of the key "${key}" of ${scope}`,
});

export function aboutTurn({ scope, key, at }: Turn): JsonObject {
  return at === undefined ? { scope, key } : { scope, key, at: formatInstant(at) };
}
