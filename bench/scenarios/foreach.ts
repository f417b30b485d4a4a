// A foreach beside few and many variables: what it writes must not grow with what an item only sees (law 15).
import { readCounters } from "../measure/writes.js";
import type { Stage } from "../stage.js";
import { FOREACH } from "../workloads.js";
import type { Scenario } from "./scenario.js";

const beside: Scenario = {
  ...{ name: "foreach-variables", title: "A foreach beside 1 KB and 1 MB of variables", unit: "items", count: 1_000 },
  ...{ concurrency: 1, kind: "work", ownOnly: "it counts all WAL of the server" },
  async play(stage) {
    await stage.api.publish(FOREACH);
    await stage.measured(async () => {
      const small = await walBeside(stage, 1);
      const large = await walBeside(stage, 1_000);
      stage.figure("WAL with 1 MB against 1 KB", large / small, "times");
      return { count: 2 * stage.size.count };
    });
  },
};

/** Megabytes of WAL of one run. */
async function walBeside(stage: Stage, kilobytes: number): Promise<number> {
  const { api, place, size } = stage;
  const inputs = { items: Array.from({ length: size.count }, (_, nth) => nth) };
  const before = await readCounters(place.sql);
  await stage.operations({ count: 1, concurrency: 1 }, `start to end with ${kilobytes} KB`, async () => {
    await api.run(FOREACH, { inputs, variables: { records: records(kilobytes) } });
  });
  const written = ((await readCounters(place.sql)).walBytes - before.walBytes) / 1e6;
  stage.figure(`WAL with ${kilobytes} KB of variables`, written, "MB");
  return written;
}

/** JSON as applications have it: about a kilobyte for every ten records. */
function records(kilobytes: number): object[] {
  const random = () => Math.random().toString(36).slice(2, 8);
  return Array.from({ length: kilobytes * 10 }, (_, nth) => ({
    ...{ order_id: `order-${nth}-${random()}`, status: "confirmed", currency: "EUR" },
    ...{ amount: nth * 7, customer: random() },
  }));
}

export const FOREACHES = [beside];
