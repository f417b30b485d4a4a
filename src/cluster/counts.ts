// Counts over the whole store: one node of the cluster takes them for all. They are never urgent, and a large store makes
// them slow, so they use little of the database's time.
import type { Log } from "../log.js";
import { countOutgoing } from "../store/engine/outgoing-events.js";
import { countBacklog, countUnwatched } from "../store/engine/poll.js";
import { countSlots } from "../store/engine/slots.js";
import { countTurns } from "../store/engine/turns.js";
import { countEnds } from "../store/statistics/end-counts.js";
import type { Triggers } from "../trigger/index.js";
import { WorkLoop } from "../work/loop.js";
import type { Foundations } from "./foundations.js";

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

/** Clients read the runs that ended since then, a microsecond each. */
const KEPT_SECONDS = 60;

/** Two loops: however long the ended runs take to count, the gauges do not wait for it. */
export function composeCounts(
  { upkeep, metrics, log }: Foundations,
  { isMine, triggers }: { readonly isMine: () => boolean; readonly triggers: Pick<Triggers, "gauge"> },
): Pick<WorkLoop, "start" | "stop"> {
  const gauges = countingLoop({
    ...{ what: "gauges of the store", log, isMine },
    count: async () => {
      metrics.runsUnwatched.set(await countUnwatched(upkeep));
      const { incidents, reviews, overdueSeconds } = await countBacklog(upkeep);
      metrics.incidentsOpen.set(incidents);
      metrics.runsInReview.set(reviews);
      metrics.wakeOverdueSeconds.set(overdueSeconds);
      metrics.eventsOwed.set(await countOutgoing(upkeep));
      const { waiting, held, leaked } = await countSlots(upkeep);
      metrics.concurrencyWaiting.set(waiting);
      metrics.concurrencyHeld.set(held);
      metrics.concurrencyLeaked.set(leaked);
      const turns = await countTurns(upkeep);
      metrics.rateLimitWaiting.set(turns.waiting);
      metrics.rateLimitLeaked.set(turns.leaked);
      await triggers.gauge();
    },
    forget: () => {
      metrics.runsUnwatched.remove();
      metrics.incidentsOpen.remove();
      metrics.runsInReview.remove();
      metrics.wakeOverdueSeconds.remove();
      metrics.eventsOwed.remove();
      metrics.concurrencyWaiting.remove();
      metrics.concurrencyHeld.remove();
      metrics.concurrencyLeaked.remove();
      metrics.rateLimitWaiting.remove();
      metrics.rateLimitLeaked.remove();
      metrics.triggersFailing.remove();
    },
  });
  const kept = countingLoop({
    ...{ what: "counts of ended runs", log, isMine },
    count: () => countEnds(upkeep, { seconds: KEPT_SECONDS }),
  });
  return {
    start() {
      gauges.start();
      kept.start();
    },
    async stop() {
      await Promise.all([gauges.stop(), kept.stop()]);
    },
  };
}
