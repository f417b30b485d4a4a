// Business keys that runs hold. A start with a policy for conflicts, or one of a burst of starts, is based on the run that holds its key: the commit of the
// start checks that the holder is still the same (law 1), and cancels it where the policy says so.
import type { Sql } from "postgres";
import { type Row, type RunId, type SentCommand, startKey } from "../../machines/index.js";
import { conflict } from "../errors.js";
import { derivedUuid } from "../ids.js";
import { type Holder, holderOf } from "../store/engine/held-keys.js";
import type { StartAnswer, StartRequest } from "./ports.js";

/** How a new run comes to hold its key. */
export interface Hold {
  /** Milliseconds that the run waits for later starts of its burst. */
  readonly delayMs?: number;
  readonly held?: Omit<Row<"held_key">, "run_id">;
  /** What becomes of the run that has held it. */
  readonly cancel?: SentCommand;
}

/** Undefined: no run has held the business key of the start. */
export async function holderFor(sql: Sql, request: StartRequest): Promise<Holder | undefined> {
  const { businessKey: key } = request;
  return key === undefined ? undefined : holderOf(sql, { ...startKey(request, key), key });
}

/**
 * The hold of the new run `runId`, or the run that has the key and stands for it. Throws 409 if the policy refuses the start. Runs that were started without a
 * policy hold nothing.
 */
export function holdAfter(
  found: Holder | undefined,
  request: StartRequest,
  { runId, now }: { readonly runId: RunId; readonly now: number },
): { readonly hold: Hold } | { readonly holder: StartAnswer } {
  const { businessKey, onConflict, debounce, actor } = request;
  if (businessKey === undefined) return { hold: {} };
  const isReplaced = debounce !== undefined && isStillWaiting(found);
  const active = found?.active;
  if (active && !isReplaced && onConflict === "reject") throw keyIsHeld(active.id, active.state);
  if (active && !isReplaced && onConflict === "return") return { holder: asAnswer(active) };
  const burstAt = debounce && (isReplaced ? Number(found?.burstAt) : now);
  const isCancelled = active && (isReplaced || onConflict === "cancel_old");
  return {
    hold: {
      ...(debounce && burstAt !== undefined && { delayMs: delayOf(debounce, burstAt, now) }),
      held: { ...startKey(request, businessKey), expected: found?.runId, burst_at: burstAt },
      ...(isCancelled && { cancel: cancelOf(active.id, { unlessBegun: isReplaced, runId, actor }) }),
    },
  };
}

/** A run of a burst that has begun meanwhile goes on: it was the last one within its window. */
function isStillWaiting(holder: Holder | undefined): boolean {
  return holder?.burstAt != null && holder.active?.state === "pending";
}

function delayOf({ windowMs, maxMs }: NonNullable<StartRequest["debounce"]>, burstAt: number, now: number): number {
  return maxMs === undefined ? windowMs : Math.max(0, Math.min(windowMs, burstAt + maxMs - now));
}

/** By `runId`, the new run: a start that is committed again does not cancel again. */
function cancelOf(
  to: RunId,
  { unlessBegun, runId, actor }: { readonly unlessBegun: boolean; readonly runId: RunId; readonly actor: string },
): SentCommand {
  const reason = `the run ${runId} was started with the same business key`;
  const command = { type: "cancel", reason, compensate: true, ...(unlessBegun && { unlessBegun }), actor } as const;
  return { id: derivedUuid(`replaced:${runId}:${to}`), to, command };
}

function keyIsHeld(runId: RunId, state: string) {
  const message = `the run ${runId}, which is ${state}, has this business key`;
  return conflict(message, { run_id: runId, state });
}

function asAnswer(row: NonNullable<Holder["active"]>): StartAnswer {
  const { id: runId, workflow_id: workflowId, version, definition_id: definitionId, state } = row;
  return { runId, workflowId, version, definitionId, state, deduplicated: true, held: true };
}
