// What the rows of a new run and of a running one have in common: the due time of the wake row, and the random token that every commit
// writes beside the revision (law 1).
import { randomFillSync } from "node:crypto";
import { CARRIED_MS, isOwedByRun, type Rows, type RunContext, type RunId, wakeAt } from "../../machines/index.js";
import { shardOf } from "../ids.js";

/** The wake row of a run that is stepping is due this far ahead: it is polled only if the run's node died. */
export const STEPPING_GRACE_MS = 2_000;

/** Whether the wake row owes a dispatch that has no row of its own. A run in quarantine is left alone. */
export function owesLook({ wait, call, quarantined }: RunContext): boolean {
  return !quarantined && call !== undefined && wait !== undefined && "dispatchId" in wait && isOwedByRun(wait, call);
}

/**
 * The due time of the run's wake row; null: it needs none. A dispatch without a row of its own has the run looked at as soon as its row would have
 * been due: until then the node that committed it carries it out.
 */
export function wakeTime(context: RunContext, now: number): number | null {
  const wake = wakeAt(context);
  if (wake === "soon") return now + STEPPING_GRACE_MS;
  if (owesLook(context)) return Math.min(wake ?? Number.POSITIVE_INFINITY, now + CARRIED_MS);
  return wake ?? null;
}

/** A look that is due within this time is not put off by the commits that come before it. */
const LOOKED_AT_SOON_MS = 1_000;

/**
 * The wake row that a commit writes; undefined: the `stored` one is still good, where it is known. While the run is stepping, or a worker
 * has its call, another commit will come long before the row is due, so a row that is due too early is moved only when it is nearly due:
 * when less than half of the time is left. A parked run has the exact time: due earlier, the row would wake it for nothing.
 */
export function wakeChange(
  context: RunContext,
  now: number,
  stored: number | null | undefined,
): number | null | undefined {
  const due = wakeTime(context, now);
  if (stored === undefined || due === null || stored === null) return stored === due ? undefined : due;
  // The run of a node that is gone: its dispatch may be lost, and only the look finds that out.
  if (owesLook(context) && stored <= due && stored - now < LOOKED_AT_SOON_MS) return undefined;
  const early = stored <= due && stored - now >= (due - now) / 2;
  return stored > now && (stored === due || (early && isUnderWay(context))) ? undefined : due;
}

function isUnderWay(context: RunContext): boolean {
  return wakeAt(context) === "soon" || context.wait?.kind === "dispatched" || owesLook(context);
}

/** The wake row that the run needs now, as `wakeChange` says. */
export function wakeRows(runId: RunId, due: number | null | undefined): Pick<Rows, "wake" | "wake_gone"> {
  if (due === undefined) return {};
  if (due === null) return { wake_gone: [{ run_id: runId }] };
  return { wake: [{ run_id: runId, shard: shardOf(runId), due_at: due }] };
}

/**
 * Eight bytes: two histories of one run agree by chance once in 1.8e19, and each update costs eight bytes in the hot row. Nothing is
 * guessed, so their secrecy does not matter; they come from the system's generator and not from Math.random() because its state is
 * copied with a snapshot of a virtual machine, and the copy would repeat the tokens of the original. One call fills many: a
 * token costs 0.1 µs.
 */
const TOKENS = new BigInt64Array(512);
let used = TOKENS.length;

/**
 * A new token, an int8 as text. It has no order and no meaning: it only tells two histories apart that have reached the same revision, after the
 * database has lost commits.
 */
export function newFence(): string {
  if (used === TOKENS.length) {
    randomFillSync(TOKENS);
    used = 0;
  }
  return String(TOKENS[used++]);
}
