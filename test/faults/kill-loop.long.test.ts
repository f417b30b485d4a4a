// The kill loop (kills.ts) for twenty seconds: the same laws as at full strength, on a machine that has other work.
import { afterAll, beforeAll, describe, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { KillLoop } from "./kills.js";

const TWENTY_SECONDS = { lastsMs: 20_000, runsPerSecond: 30, least: { kills: 3, acknowledged: 100 } };

let database: TestDatabase;
let loop: KillLoop;

beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  loop = await KillLoop.open(database, TWENTY_SECONDS);
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
