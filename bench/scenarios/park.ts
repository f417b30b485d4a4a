// Runs that wait: the time to park them on a signal and to resume them all, and a start of the service with runs that became due while
// it was down. Requests that the service sheds are repeated after the time that it asks for.
import { setTimeout as delay } from "node:timers/promises";
import type { Stage } from "../stage.js";
import { SIGNALLED, TIMED } from "../workloads.js";
import type { Scenario } from "./scenario.js";
import { startTimed } from "./timers.js";

const park: Scenario = {
  ...{
    name: "park",
    title: "Park runs on a signal and resume them",
    unit: "runs",
    count: 100_000,
    concurrency: 64,
    kind: "work",
  },
  async play(stage) {
    const { api } = stage;
    await api.publish(SIGNALLED);
    const [parked, ended] = [await api.count(SIGNALLED, "paused"), await api.count(SIGNALLED, "succeeded")];
    await stage.measured(async () => {
      const ids: string[] = [];
      await figured(stage, "park", async () => {
        await startAll(stage, ids);
        await api.untilCount(SIGNALLED, "paused", parked + ids.length);
      });
      await figured(stage, "resume", async () => {
        await signalAll(stage, ids);
        await api.untilCount(SIGNALLED, "succeeded", ended + ids.length);
      });
      return { count: ids.length };
    });
    if (api.shed > 0) stage.note(`${api.shed} requests were shed and repeated`);
  },
};

/** Adds the ids of the runs. */
async function startAll(stage: Stage, ids: string[]): Promise<void> {
  const { api, size } = stage;
  await stage.operations({ count: size.count, concurrency: size.concurrency }, "start", async () => {
    ids.push(await api.insist(() => api.start(SIGNALLED)));
  });
}

async function signalAll(stage: Stage, ids: readonly string[]): Promise<void> {
  const { api, size } = stage;
  await stage.operations({ count: ids.length, concurrency: size.concurrency }, "signal", async (nth) => {
    await api.insist(() => api.signal(ids[nth] ?? ""));
  });
}

/** The time that the phase took becomes a figure. */
async function figured(stage: Stage, name: string, phase: () => Promise<void>): Promise<void> {
  const since = performance.now();
  await phase();
  stage.figure(name, (performance.now() - since) / 1_000, "s");
}

const coldStart: Scenario = {
  ...{ name: "cold-start", title: "Start with unfinished runs that are overdue", unit: "runs", count: 10_000 },
  ...{ concurrency: 64, kind: "work", ownOnly: "it stops and starts the service" },
  async play(stage) {
    const { place, size } = stage;
    await stage.api.publish(TIMED);
    await place.beginWrites();
    const { firstDue } = await startTimed(stage, () => 0);
    const ended = size.warmup + size.count;
    await place.stopService();
    await delay(Math.max(0, firstDue - Date.now()));
    await stage.measured(async () => {
      await figured(stage, "ready", () => place.startService());
      await figured(stage, "all ended after", () => stage.api.untilCount(TIMED, "succeeded", ended));
      return { count: size.count };
    });
  },
};

export const PARKED = [park, coldStart];
