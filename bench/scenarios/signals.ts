// Signal cycles: a run is started, waits, is signalled and ends. The latency is that of its second half: from the signal's request
// to the answer to a request that waits for the end.
import type { Client } from "../client.js";
import type { Timed } from "../stage.js";
import { SIGNALLED } from "../workloads.js";
import type { Scenario } from "./scenario.js";

async function cycle(api: Client): Promise<Timed> {
  const runId = await api.start(SIGNALLED);
  await api.paused(runId);
  const ended = api.ended(runId);
  const since = performance.now();
  await Promise.all([api.signal(runId), ended]);
  await ended;
  return { ms: performance.now() - since };
}

function cycles(given: Pick<Scenario, "name" | "title" | "count" | "concurrency">): Scenario {
  return {
    ...{ unit: "cycles", kind: "operations" },
    ...given,
    async play(stage) {
      await stage.api.publish(SIGNALLED);
      await stage.load("signal to end", () => cycle(stage.api));
    },
  };
}

export const SIGNALS = [
  cycles({ name: "signal", title: "Signal round trip, one at a time", count: 500, concurrency: 1 }),
  cycles({ name: "signal-64", title: "Signal round trips, 64 at once", count: 3_000, concurrency: 64 }),
];
