// Retention on several nodes, and by the clock of the database.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { Pruner } from "../../src/store/upkeep/pruner.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

describe("retention", () => {
  it("is the work of one node at a time", async () => {
    const pruner = () => new Pruner(database.sql, silentLog, { eventDays: 30 });
    const { sql, close } = database.session();
    await sql`select pg_advisory_lock(${0x7072756e})`;
    expect(await pruner().prune()).toBe(false);
    await close();
    expect(await pruner().prune()).toBe(true);
    expect(await pruner().prune()).toBe(true);
  });

  it("keeps audit rows by the time of the database, whatever the clock of the node says", async () => {
    const { sql } = database;
    const partitions = () => sql`
      select inhrelid::regclass::text as name from pg_inherits where inhparent = 'run_events'::regclass order by name`;
    const before = await partitions();
    vi.spyOn(Date, "now").mockReturnValue(Date.now() + 365 * 86_400_000);
    await new Pruner(sql, silentLog, { eventDays: 30, runDays: 7 }).prune();
    vi.restoreAllMocks();
    expect(await partitions()).toEqual(before);
  });
});
