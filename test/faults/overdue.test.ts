// Twenty thousand runs came due while no node was there to see it: they are worked off, not stampeded.
import { afterAll, beforeAll, expect, it } from "vitest";
import { IN_HAND } from "../../src/run/loans.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { publish, start, startHalf } from "../run/rig.js";
import { allEnd, allSound, nothingUnwatched, report } from "../run/seen.js";

const OVERDUE = 20_000;

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  await publish(database, "quick", [{ id: "only", type: "noop" }]);
});
afterAll(() => database.drop());

it("all of them end, with a bounded number in hand at any time", async () => {
  const half = await startHalf(database, { hints: false, pollMs: 20 });
  const runIds = await Promise.all(Array.from({ length: OVERDUE }, () => start(half.runtime, "quick")));
  await database.sql`update wakes set due_at = now() - interval '1 s'`;
  let most = 0;
  const watch = setInterval(() => {
    most = Math.max(most, half.stager.inHand, half.runtime.residents.busy);
  }, 1);
  const began = performance.now();
  half.stager.start();
  await allEnd(database.sql, runIds, 90_000);
  clearInterval(watch);
  report({ overdue: OVERDUE, ms: Math.round(performance.now() - began), mostInHand: most });
  await allSound(database.sql, runIds.slice(0, 100));
  await nothingUnwatched(database.sql);
  await half.stop();
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThanOrEqual(IN_HAND);
}, 120_000);
