// Two nodes that both believe they own every shard work on the same runs of one database. Placement is for speed; the
// compare-and-set alone keeps every history sound.
// @module-tag long
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { uuidv7 } from "../../src/ids.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { nothingUnwatched, report } from "../run/seen.js";
import type { Client } from "./client.js";
import { Load } from "./load.js";
import { type Service, startService } from "./rig.js";

const RUNS = 15;
const TICKS = 4;

let database: TestDatabase;
let services: Service[];

beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  // Without a bus each takes every shard.
  services = [await startService(database.url), await startService(database.url)];
  await services[0]?.client.publish("ticks", [
    { id: "begin", type: "set_var", name: "n", value: 0, next: "wait" },
    { id: "wait", type: "wait_for_signal", signal_name: "tick", timeout_ms: 400, on_timeout: "pay", next: "count" },
    { id: "count", type: "set_var", name: "n", value: "${vars.n + 1}", next: "pay" },
    { id: "pay", type: "action", action: "shop.charge", compensation: { action: "shop.refund" }, next: "more" },
    { id: "more", type: "switch", cases: [{ when: `vars.n < ${TICKS}`, next: "wait" }], default: "done" },
    { id: "done", type: "end", output: "${vars.n}" },
  ]);
});
afterAll(async () => {
  for (const service of services) await service.stop();
  await database.drop();
});

const client = (nth: number) => services[nth % 2]?.client as Client;

async function conflicts(): Promise<number> {
  const counts = await Promise.all(services.map(({ node }) => node.metrics.commitConflicts.get()));
  return counts.reduce((sum, { values }) => sum + (values[0]?.value ?? 0), 0);
}

/** Sends the same command to both nodes at the same moment: both must answer with the one outcome. */
async function toBoth(path: string, body: object): Promise<void> {
  const [one, other] = await Promise.all([client(0).insist("POST", path, body), client(1).insist("POST", path, body)]);
  const { request_id: _one, ...first } = one.body;
  const { request_id: _other, ...second } = other.body;
  expect([other.status, second]).toEqual([one.status, first]);
}

describe("two nodes that own everything", () => {
  it("bring every order to its expected end", async () => {
    const load = new Load(
      services.map((service) => service.client),
      services.map(({ shop }) => shop),
    );
    await load.begin({ atOnce: 12, count: RUNS });
    await load.finish();
    await nothingUnwatched(database.sql);
  }, 400_000);

  it("keep one history of each run, although both get its signals, cancels, timers and answers at once", async () => {
    const before = await conflicts();
    const runIds = await Promise.all(Array.from({ length: RUNS }, (_, nth) => client(nth).start("ticks")));
    await Promise.all(
      runIds.map(async (runId, nth) => {
        for (let round = 0; round < TICKS + 1; round++) {
          await toBoth(`/sagas/${runId}/signal/tick`, { payload: { round }, idempotency_key: uuidv7() });
          if (nth % 4 !== 0 || round !== 2) continue;
          const answers = await Promise.all(
            [0, 1].map((at) => client(at).insist("POST", `/sagas/${runId}/cancel`, {})),
          );
          for (const { status } of answers) expect(status).toBe(202);
        }
      }),
    );
    const seen = await client(0).allEnd(runIds);
    await nothingUnwatched(database.sql);
    const cancelled = seen.filter(({ run }) => run.state === "cancelled").length;
    expect(seen.filter(({ run }) => run.state === "succeeded").length).toBe(RUNS - cancelled);
    expect(cancelled).toBeGreaterThan(0);
    await eachKeyOncePerEntry(runIds);
    const lost = (await conflicts()) - before;
    // The nodes did conflict.
    expect(lost).toBeGreaterThan(0);
    report({ runs: RUNS, cancelled, commitsLost: lost });
  }, 400_000);

  /** There are no more keys than dispatched steps and undos: a second execution has the key of the first. */
  async function eachKeyOncePerEntry(runIds: readonly string[]): Promise<void> {
    for (const runId of runIds) {
      const executed = services.flatMap(({ shop }) => shop.of(runId));
      const { events } = await client(0).look(runId);
      const entries = events.filter(({ event_type, step_id }) => event_type === "step.dispatched" && step_id === "pay");
      const keys = new Set(executed.map(({ key }) => key));
      expect([runId, keys.size <= entries.length]).toEqual([runId, true]);
    }
  }
});
