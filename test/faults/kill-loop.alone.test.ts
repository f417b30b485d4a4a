// The kill loop (kills.ts) at full strength: two minutes, 60 runs a second. It needs the whole machine.
import { afterAll, beforeAll, describe, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { KillLoop } from "./kills.js";

const TWO_MINUTES = { lastsMs: 120_000, runsPerSecond: 60, least: { kills: 15, acknowledged: 1_000 } };

let database: TestDatabase;
let loop: KillLoop;

beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  loop = await KillLoop.open(database, TWO_MINUTES);
}, 180_000);
afterAll(async () => {
  await loop.close();
  await database.drop();
});

describe("four nodes, of which one is killed every two seconds", () => {
  it("bring every acknowledged run to its right end, and quarantine the poisonous one among them, and only it", async () => {
    await loop.expectRight(await loop.run());
  }, 600_000);
});
