// Thousands of runs came due while no node was up: they are worked off in bounded batches.
// @module-tag long
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MAX_LEASED } from "../../src/run/leases.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { publish, start, startHalf } from "../run/rig.js";
import { allEnd, allSound, nothingUnwatched, report } from "../run/seen.js";

const OVERDUE = 2_000;

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  await publish(database, "quick", [{ id: "only", type: "noop" }]);
});
afterAll(() => database.drop());

describe("runs that are overdue at the start of a node", () => {
  it("all end, with a bounded number in progress at any time", async () => {
    const half = await startHalf(database, { hints: false, pollMs: 20 });
    const runIds = await Promise.all(Array.from({ length: OVERDUE }, () => start(half.starter, "quick")));
    await database.sql`update wakes set due_at = now() - interval '1 s'`;
    let most = 0;
    const watch = setInterval(() => {
      most = Math.max(most, half.poller.leased, half.runtime.residents.busy);
    }, 1);
    const began = performance.now();
    half.poller.start();
    await allEnd(database.sql, runIds, 90_000);
    clearInterval(watch);
    report({ overdue: OVERDUE, ms: Math.round(performance.now() - began), mostInHand: most });
    await allSound(database.sql, runIds.slice(0, 100));
    await nothingUnwatched(database.sql);
    await half.stop();
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(MAX_LEASED);
  }, 400_000);
});
