// Business keys that runs hold. A start with a policy for conflicts, or one of a burst of starts, is based on the run that holds its key: the commit of the
// start checks that the holder is still the same (law 1), and cancels it where the policy says so.
import { type Row, type RunId, type SentCommand, startKey } from "../../machines/index.js";
import { conflict } from "../errors.js";
import { derivedUuid } from "../ids.js";
import type { Holder } from "../store/engine/load.js";
import type { StartAnswer, StartRequest } from "./ports.js";

/** How a new run comes to hold its key. */
export interface Hold {
  /** Milliseconds that the run waits for later starts of its burst. */
  readonly delayMs?: number;
  readonly held?: Omit<Row<"held_key">, "run_id">;
  /** What becomes of the run that has held it. */
  readonly cancel?: SentCommand;
}

/** The key that the start is to hold. Undefined: it holds none, and meets no conflict. A dry run neither holds one nor ends the run that does. */
export function keyToHold(request: StartRequest): ReturnType<typeof startKey> | undefined {
  const { businessKey, onConflict, debounce, dryRun } = request;
  return businessKey === undefined || dryRun || !(onConflict || debounce) ? undefined : startKey(request, businessKey);
}

/** The hold of the new run `runId`, or the run that has the key and stands for it. Throws 409 if the policy refuses the start. */
export function holdAfter(
  found: Holder | undefined,
  { onConflict, debounce, actor }: StartRequest,
  { key, runId, now }: { readonly key: ReturnType<typeof startKey>; readonly runId: RunId; readonly now: number },
): { readonly hold: Hold } | { readonly holder: StartAnswer } {
  const active = found?.active;
  const isReplaced = debounce !== undefined && isStillWaiting(found);
  if (active && !isReplaced) {
    if (onConflict === "reject") throw keyIsHeld(active.id, active.state);
    if (onConflict === "return") return { holder: asAnswer(active) };
  }
  const burstAt = isReplaced ? Number(found?.burstAt) : now;
  const isCancelled = active && (isReplaced || onConflict === "cancel_old");
  return {
    hold: {
      ...(debounce && { delayMs: delayOf(debounce, burstAt, now) }),
      held: { ...key, expected: found?.runId, burst_at: debounce && burstAt },
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
