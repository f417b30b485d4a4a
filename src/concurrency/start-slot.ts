// The slot of a run that is about to start: whether it may be started beside the others of its concurrency key is asked before its start is
// committed, so that a client is answered.
import type { Sql } from "postgres";
import {
  ExpressionError,
  type Program,
  type Row,
  RUN_SLOT,
  type RunContext,
  runSlot,
  type Slot,
  scopeOf,
  ticketOf,
} from "../../machines/index.js";
import { concurrencyLimit, queueFull, unprocessable } from "../errors.js";
import { dropReservation, isQueueFull, reserveSlot } from "../store/engine/slots.js";

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
  const slot = slotOf(context, concurrency);
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

function slotOf(context: RunContext, concurrency: NonNullable<Program["concurrency"]>): Slot {
  try {
    return runSlot(context.run, concurrency, scopeOf(context, context.run.startedAt));
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    const details = [{ path: "$.inputs", message: error.message }];
    throw unprocessable("the key of the workflow's concurrency cannot be evaluated", details);
  }
}
