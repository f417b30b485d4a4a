// Counts over whole tables, for gauges: one node of the cluster takes them for all. They are never urgent, and a large store makes
// them slow, so they use little of the database's time.
import type { Log } from "../log.js";
import { WorkLoop } from "../work/loop.js";

/** Between two counts, and at least so many times what the last one took: one session is busy for a twentieth of the time at most. */
const PAUSE_MS = 5_000;
const PAUSE_FACTOR = 19;

export interface CountsOptions {
  /** What is counted, for the log. */
  readonly what: string;
  readonly log: Log;
  /** Whether this node counts; another one does if not. */
  readonly isMine: () => boolean;
  /** If it throws, the gauges keep their values. */
  readonly count: () => Promise<void>;
  /** The values on this node are outdated: another node counts from now on. */
  readonly forget?: () => void;
}

export function countingLoop({ what, log, isMine, count, forget }: CountsOptions): WorkLoop {
  const round = async () => {
    try {
      if (isMine()) await count();
    } finally {
      // Also a count during which the shards were placed anew.
      if (!isMine()) forget?.();
    }
  };
  const pauseMs = (tookMs: number) => Math.max(PAUSE_MS, PAUSE_FACTOR * tookMs);
  return new WorkLoop({ what, log, polls: { pauseMs, round } });
}
