// The counts over the whole store, composed: the owner of the first shard counts for the whole cluster.
import { asShardId } from "../ids.js";
import type { Placement } from "../shard/placement.js";
import { countEnds } from "../store/end-counts.js";
import { countOutgoing } from "../store/outgoing-events.js";
import { countUnwatched } from "../store/poll.js";
import { countSlots } from "../store/slots.js";
import type { Triggers } from "../trigger/index.js";
import type { WorkLoop } from "../work/loop.js";
import { countingLoop } from "./counts.js";
import type { Foundations } from "./foundations.js";

/** Clients read the runs that ended since then, a microsecond each. */
const KEPT_SECONDS = 60;

/** Two loops: however long the ended runs take to count, the gauges do not wait for it. */
export function composeCounts(
  { nodeId, upkeep, metrics, log }: Foundations,
  { placement, triggers }: { readonly placement: Placement; readonly triggers: Pick<Triggers, "gauge"> },
): Pick<WorkLoop, "start" | "stop"> {
  const isMine = () => placement.owner(asShardId(0)) === nodeId;
  const gauges = countingLoop({
    ...{ what: "gauges of the store", log, isMine },
    count: async () => {
      metrics.runsUnwatched.set(await countUnwatched(upkeep));
      metrics.eventsOwed.set(await countOutgoing(upkeep));
      const { waiting, held, leaked } = await countSlots(upkeep);
      metrics.concurrencyWaiting.set(waiting);
      metrics.concurrencyHeld.set(held);
      metrics.concurrencyLeaked.set(leaked);
      await triggers.gauge();
    },
    forget: () => {
      metrics.runsUnwatched.remove();
      metrics.eventsOwed.remove();
      metrics.concurrencyWaiting.remove();
      metrics.concurrencyHeld.remove();
      metrics.concurrencyLeaked.remove();
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
