// The slot of a run that is about to start, and its turn: whether it may be started beside the others of its concurrency key, or may wait behind those of its rate limit, is
// asked before its start is committed, so that a client is answered.
import type { Sql } from "postgres";
import {
  ExpressionError,
  type Program,
  type Row,
  RUN_SLOT,
  type RunContext,
  runSlot,
  runTurn,
  type Slot,
  type SlotKey,
  scopeOf,
  type Turn,
  ticketOf,
  turnKey,
  turnTicketOf,
} from "../../machines/index.js";
import { concurrencyLimit, queueFull, turnQueueFull, unprocessable } from "../errors.js";
import { dropReservation, isQueueFull, reserveSlot } from "../store/engine/slots.js";
import { isTurnQueueFull } from "../store/engine/turns.js";

/** A run that has asked for its slot with its start. */
export interface StartSlot {
  readonly slot: Slot;
  readonly ticket: Row<"ticket">;
}

/**
 * Undefined: the run needs no slot, or asks for it when it begins: a delayed run would keep one from others that could go on. Throws 409 if
 * the workflow refuses runs over the limit, 422 if the key cannot be evaluated, 429 if too many wait.
 */
export async function slotForStart(
  sql: Sql,
  context: RunContext,
  { concurrency }: Pick<Program, "concurrency">,
  { room, reserves }: { readonly room: number; readonly reserves: boolean },
): Promise<StartSlot | undefined> {
  const { run } = context;
  if (!concurrency || run.dryRun || run.delayedUntil !== undefined) return undefined;
  const slot = keyOf("concurrency", context, (scope) => runSlot(run, concurrency, scope));
  const { limit, onLimit } = concurrency;
  if (onLimit === "refuse") {
    if (reserves && !(await reserveSlot(sql, slot, limit, run.id))) throw concurrencyLimit(slot.key, limit);
  } else if (await isQueueFull(sql, slot, room)) throw queueFull(slot.key, room);
  return { slot, ticket: ticketOf({ run }, { entry: RUN_SLOT, slot, limit, onLimit }, true) };
}

/** The start of the run was not committed, because it repeats another one, or is refused. If this fails, its reservation expires. */
export async function withdrawStart(sql: Sql, { run, slot }: RunContext): Promise<void> {
  if (slot) await dropReservation(sql, run.id).catch(() => {});
}

/** A run that has asked for its turn with its start. */
export interface StartTurn {
  readonly turn: Turn;
  readonly ticket: Row<"turn">;
}

/**
 * Undefined: the run needs no turn, or asks for it later: when it begins, or when it has its slot. Throws 422 if the key cannot be evaluated, 429 if
 * too many wait.
 */
export async function turnForStart(
  sql: Sql,
  context: RunContext,
  { concurrency, rateLimit }: Pick<Program, "concurrency" | "rateLimit">,
  room: number,
): Promise<StartTurn | undefined> {
  const { run } = context;
  if (!rateLimit || run.dryRun || run.delayedUntil !== undefined) return undefined;
  const turn: Turn = { ...keyOf("rate_limit", context, (scope) => runTurn(run, rateLimit, scope)), open: true };
  if (await isTurnQueueFull(sql, turn, room)) throw turnQueueFull(turn.key, room);
  if (concurrency) return undefined;
  const { limit, perMs, burst } = turn;
  return { turn, ticket: turnTicketOf({ run }, { entry: RUN_SLOT, key: turnKey(turn), limit, perMs, burst }, true) };
}

function keyOf<K extends SlotKey>(
  attribute: string,
  context: RunContext,
  evaluate: (scope: ReturnType<typeof scopeOf>) => K,
): K {
  try {
    return evaluate(scopeOf(context, context.run.startedAt));
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    const details = [{ path: "$.inputs", message: error.message }];
    throw unprocessable(`the key of the workflow's ${attribute} cannot be evaluated`, details);
  }
}
