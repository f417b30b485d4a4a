// The pool: its types, its timeouts, and that a lost session is nobody's crash.
import { eq } from "drizzle-orm";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openDatabase } from "../../src/store/connection.js";
import { rules } from "../../src/store/schema.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase({ max: 3 });
});
afterAll(() => database.drop());

describe("values", () => {
  it("int8 is a string, a timestamp a Date, json parsed with its key order", async () => {
    const [row] = await database.sql`
      select 9007199254740993::int8 as big, '2026-11-21T00:00:00.123Z'::timestamptz as at, '{"b":1,"a":[2]}'::json as value`;
    expect(row).toEqual({ big: "9007199254740993", at: new Date("2026-11-21T00:00:00.123Z"), value: { b: 1, a: [2] } });
    expect(JSON.stringify(row?.value)).toBe('{"b":1,"a":[2]}');
  });

  it("Dates, arrays and JSON text go in", async () => {
    const at = new Date("2026-11-21T00:00:00.123Z");
    const [row] = await database.sql`
      select ${at}::timestamptz as at, ${'{"a":1}'}::json as text, ${["x", "y"]}::text[] as list`;
    expect(row).toEqual({ at, text: { a: 1 }, list: ["x", "y"] });
  });

  it("drizzle reads and writes the same", async () => {
    const id = "0192f0c1-0000-7000-8000-000000000001";
    const createdAt = new Date("2026-11-21T00:00:00.123Z");
    const spec = { hit_policy: "first", rows: [] };
    const rule = { id, ruleId: "r", version: 1, name: "n", ruleType: "decision_table", published: true };
    await database.db.insert(rules).values({ ...rule, spec, everPublished: true, createdAt });
    const [found] = await database.db.select().from(rules).where(eq(rules.id, id));
    expect(found).toMatchObject({ ...rule, spec, createdAt });
    const [raw] = await database.sql`select spec, created_at from rules where id = ${id}`;
    expect(raw).toEqual({ spec, created_at: createdAt });
  });
});

describe("sessions", () => {
  it("have timeouts, a name and synchronous commits", async () => {
    const names = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "synchronous_commit"];
    const rows = await database.sql<{ name: string; setting: string }[]>`
      select name, setting from pg_settings where name = any (${[...names, "application_name"]})`;
    expect(Object.fromEntries(rows.map(({ name, setting }) => [name, setting]))).toEqual({
      statement_timeout: "30000",
      lock_timeout: "5000",
      idle_in_transaction_session_timeout: "10000",
      synchronous_commit: "on",
      application_name: "saga-test",
    });
  });

  it("refuses a URL that would make commits asynchronous", () => {
    const options = { max: 1, applicationName: "x", log: silentLog };
    for (const query of ["synchronous_commit=off", "options=-c%20synchronous_commit%3Doff"])
      expect(() => openDatabase(`${database.url}?${query}`, options)).toThrow("synchronous_commit");
  });

  it("that are lost are opened again", async () => {
    const other = openDatabase(database.url, { max: 2, applicationName: "saga-victim", log: silentLog });
    try {
      await other.sql`select 1`;
      const ended = await database.sql`
        select pg_terminate_backend(pid) as ended from pg_stat_activity where application_name = 'saga-victim'`;
      expect(ended.length).toBeGreaterThan(0);
      const [row] = await until(() => other.sql`select 1 as one`);
      expect(row).toEqual({ one: 1 });
    } finally {
      await other.close();
      await other.close();
    }
    await expect(other.sql`select 1`).rejects.toThrow();
  });

  it("to nowhere fail the query, not the process", async () => {
    const nowhere = openDatabase("postgres://x@127.0.0.1:1/x", { max: 1, applicationName: "x", log: silentLog });
    await expect(nowhere.sql`select 1`).rejects.toThrow("ECONNREFUSED");
    await nowhere.close();
  });
});
