// The pool: its types, its timeouts, and lost sessions, which crash nothing. And the query builder on it.
import { setImmediate as nextTurn } from "node:timers/promises";
import { eq, sql } from "drizzle-orm";
import type { Sql, TransactionSql } from "postgres";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { uuidv7 } from "../../src/ids.js";
import { openDatabase } from "../../src/store/engine/connection.js";
import { sqlStateOf } from "../../src/store/engine/failure.js";
import { query } from "../../src/store/engine/query.js";
import { rules, signals } from "../../src/store/schema.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { asRunId } from "../harness/ids.js";
import { until } from "../harness/until.js";
import { CuttingProxy } from "../run/cutting-proxy.js";

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

  it("Dates, arrays and JSON text are accepted as parameters", async () => {
    const at = new Date("2026-11-21T00:00:00.123Z");
    const [row] = await database.sql`
      select ${at}::timestamptz as at, ${'{"a":1}'}::json as text, ${["x", "y"]}::text[] as list`;
    expect(row).toEqual({ at, text: { a: 1 }, list: ["x", "y"] });
  });

  it("an array with an element that is undefined is refused", async () => {
    await expect(database.sql`select ${["a", undefined as unknown as string]}::text[]`).rejects.toThrow("is undefined");
  });

  it("arrays arrive with the values that were sent, whatever characters are in them", async () => {
    const texts = ["", "a,b", "{}", 'a "quoted" \\ word', "null", "NULL", " ", "\n", "é"];
    const at = new Date("2026-11-21T00:00:00.123Z");
    const id = uuidv7();
    const [row] = await database.sql`
      select ${texts}::text[] as texts, ${[]}::text[] as none, ${["a", null]}::text[] as gaps, ${[1, -2]}::int[] as ints,
        ${[0.5]}::float8[] as floats, ${["9007199254740993"]}::int8[] as bigs, ${[id]}::uuid[] as ids, ${["runs"]}::name[] as names,
        array[${at}::timestamptz] as times, array[true, false] as flags`;
    const [ints, floats, bigs] = [[1, -2], [0.5], ["9007199254740993"]];
    const given = { texts, none: [], gaps: ["a", null], ints, floats, bigs, ids: [id], names: ["runs"], times: [at] };
    expect(row).toEqual({ ...given, flags: [true, false] });
  });

  it("the query builder reads and writes the same values", async () => {
    const id = "0192f0c1-0000-7000-8000-000000000001";
    const createdAt = new Date("2026-11-21T00:00:00.123Z");
    const spec = { hit_policy: "first", rows: [] };
    const rule = { id, key: "r", version: 1, name: "n", ruleType: "decision_table", published: true };
    await query(database.sql)
      .insert(rules)
      .values({ ...rule, spec, everPublished: true, createdAt });
    const [found] = await query(database.sql).select().from(rules).where(eq(rules.id, id));
    expect(found).toMatchObject({ ...rule, spec, createdAt });
    const [raw] = await database.sql`select spec, created_at from rules where id = ${id}`;
    expect(raw).toEqual({ spec, created_at: createdAt });
  });

  it("the query builder keeps a JSON string a string", async () => {
    const runId = asRunId("0192f0c1-0000-7000-8000-000000000002");
    const payloads = ["12", "null", '{"a":1}', "text", 12, null, { a: "1" }];
    for (const payload of payloads) {
      const signal = { id: uuidv7(), runId, signalName: "go", payload, receivedAt: new Date() };
      await query(database.sql).insert(signals).values(signal);
    }
    const rows = await query(database.sql)
      .select()
      .from(signals)
      .where(eq(signals.runId, runId))
      .orderBy(signals.ordinal);
    expect(rows.map(({ payload }) => payload)).toEqual(payloads);
  });
});

describe("the query builder", () => {
  it("throws the error of Postgres, without the parameters of the statement", async () => {
    const failing = query(database.sql)
      .select({ n: sql`${"secret"}::text::int` })
      .from(rules);
    await database.sql`insert into rules (id, rule_id, version, name, rule_type, spec, published, ever_published)
      values (${uuidv7()}, 'any', 1, 'n', 't', '{}', false, false)`;
    const error = await failing.then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error).toMatchObject({ name: "PostgresError", code: "22P02" });
    expect(sqlStateOf(error)).toBe("22P02");
  });

  it("prepares its statements", async () => {
    await database.sql.begin(async (session) => {
      // The session may be that of an earlier file, and have its statements.
      await query(session).select({ id: rules.id, n: sql`70411` }).from(rules).where(eq(rules.key, "any"));
      const prepared =
        await session`select 1 from pg_prepared_statements where statement like 'select "id", 70411 from "rules"%'`;
      expect(prepared).toHaveLength(1);
    });
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

  it("are refused for a URL that would make commits asynchronous", () => {
    const options = { max: 1, applicationName: "x", log: silentLog };
    for (const query of ["synchronous_commit=off", "options=-c%20synchronous_commit%3Doff"])
      expect(() => openDatabase(`${database.url}?${query}`, options)).toThrow("synchronous_commit");
  });

  it("are opened again when they are lost", async () => {
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

  it("are all closed when they are replaced, also if statements waited for them", async () => {
    const replaced = openDatabase(database.url, { max: 1, applicationName: "saga-replaced", log: silentLog });
    // The first one waits for the description of its parameter, the others for the session.
    const waiting = [0.01, 0, 0].map((seconds) => replaced.sql`select pg_sleep(${seconds})`.execute());
    replaced.renew();
    await Promise.all(waiting);
    await replaced.close();
    const open = () => database.sql`select 1 from pg_stat_activity where application_name = 'saga-replaced'`;
    await until(async () => (await open()).length === 0);
  });

  it("that are lost at their very start fail what waits for them, and nothing else", async () => {
    const proxy = await CuttingProxy.before(database.url);
    const { sql, close } = openDatabase(proxy.url, { max: 2, applicationName: "saga-newborn", log: silentLog });
    const unhandled: unknown[] = [];
    const onUnhandled = (error: unknown) => void unhandled.push(error);
    process.on("unhandledRejection", onUnhandled);
    try {
      // The first request of a session that is not its login.
      const cut = proxy.cutAt("select", "before", "reset");
      const outcomes = await Promise.allSettled(["a", "b"].map((text) => sql`select ${[text]}::text[] as list`));
      await cut;
      expect(unhandled).toEqual([]);
      expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
      expect(outcomes).toContainEqual({
        status: "rejected",
        reason: expect.objectContaining({ code: "ECONNRESET" }),
      });
      for (const text of ["c", "d", "e"])
        expect(await sql`select ${[text]}::text[] as list`).toEqual([{ list: [text] }]);
    } finally {
      process.off("unhandledRejection", onUnhandled);
      await close();
      await proxy.close();
    }
  });

  it("can be reserved where they have to be opened first, and again after one of them is lost", async () => {
    const proxy = await CuttingProxy.before(database.url);
    const { sql, close } = openDatabase(proxy.url, { max: 1, applicationName: "saga-reserved", log: silentLog });
    try {
      const first = await sql.reserve();
      const second = sql.reserve();
      const behind = sql`select 2 as n`.execute();
      expect(await first`select 1 as n`).toEqual([{ n: 1 }]);
      first.release();
      const other = await second;
      const [own] = await other<{ pid: number }[]>`select pg_backend_pid() as pid`;
      await database.sql`select pg_terminate_backend(${own?.pid ?? 0}, 60000)`;
      await Promise.allSettled([behind]);
      const third = await until(() => sql.reserve());
      expect(await third`select 3 as n`).toEqual([{ n: 3 }]);
      third.release();
      expect(await until(() => sql`select 4 as n`)).toEqual([{ n: 4 }]);
    } finally {
      await close();
      await proxy.close();
    }
  });

  it("to a server that is not there fail the query, not the process", async () => {
    const nowhere = openDatabase("postgres://x@127.0.0.1:1/x", { max: 1, applicationName: "x", log: silentLog });
    await expect(nowhere.sql`select 1`).rejects.toThrow("ECONNREFUSED");
    await nowhere.close();
  });
});

describe("a session that is lost", () => {
  /** With a pool of one session, so that the next statement after it is lost meets what it has left. */
  const withOneSession = async (url: string, work: (sql: Sql) => Promise<void>) => {
    const { sql, close } = openDatabase(url, { max: 1, applicationName: "saga-lost", log: silentLog });
    await work(sql).finally(close);
  };
  /** Before the server is a proxy, which resets the connection at a request with the text that is given it. */
  const withResets = async (work: (sql: Sql, resetAt: (text: string) => void) => Promise<void>) => {
    const proxy = await CuttingProxy.before(database.url);
    const resetAt = (text: string) => void proxy.cutAt(text, "before", "reset");
    await withOneSession(proxy.url, (sql) => work(sql, resetAt)).finally(() => proxy.close());
  };
  const serves = async (sql: Sql) => {
    await until(() => sql`select 1`);
    for (const n of [2, 3, 4]) expect(await sql`select ${n}::int as n`).toEqual([{ n }]);
  };

  it("within a transaction fails its next statements, and the pool serves again", () =>
    withOneSession(database.url, async (sql) => {
      const transaction = sql.begin(async (session) => {
        await end(session);
        // Whether the driver has seen it by now or not.
        await Promise.all([session`select 1`, session`select 2`, nextTurn().then(() => session`select 3`)]);
      });
      await expect(transaction).rejects.toThrow();
      await serves(sql);
    }));

  it("by a reset within a transaction fails the statements on their way, and the pool serves again", () =>
    withResets(async (sql, resetAt) => {
      resetAt("select 1");
      const transaction = sql.begin((session) =>
        session`select 1`.catch(async () => {
          // What is written in this turn of the event loop is on its way when the connection is closed.
          await nextTurn();
          await session`select 2`;
        }),
      );
      await expect(transaction).rejects.toMatchObject({ code: "CONNECTION_CLOSED" });
      await serves(sql);
    }));

  it("within a transaction fails those of its statements that wait for an answer to another one", () =>
    withResets(async (sql, resetAt) => {
      resetAt("described first");
      let outcomes: PromiseSettledResult<unknown>[] = [];
      const transaction = sql.begin(async (session) => {
        outcomes = await Promise.allSettled([session`select ${1}::int as "described first"`, session`select 2`]);
      });
      await expect(transaction).rejects.toMatchObject({ code: "CONNECTION_CLOSED" });
      await until(() => outcomes.length > 0);
      expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
      await serves(sql);
    }));

  it("fails all that a transaction does afterwards, though the pool has a new session", () =>
    withOneSession(database.url, async (sql) => {
      const id = uuidv7();
      let late: PromiseSettledResult<unknown>[] = [];
      const transaction = sql.begin(async (session) => {
        await end(session);
        await until(() => sql`select 1`);
        late = await Promise.allSettled([
          session`insert into rules (id, rule_id, version, name, rule_type, spec, published, ever_published)
            values (${id}, 'late', 1, 'n', 't', '{}', false, false)`,
          session`select 1`,
        ]);
      });
      await expect(transaction).rejects.toMatchObject({ code: "CONNECTION_CLOSED" });
      await until(() => late.length > 0);
      expect(late.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
      expect(await sql`select 1 from rules where id = ${id}`).toEqual([]);
    }));

  it("amid an answer leaves nothing of it in the next one", () =>
    withOneSession(database.url, async (sql) => {
      // Longer than what the server collects before it sends.
      const cutOff = sql`select repeat('x', 10000), case n when 3 then pg_terminate_backend(pg_backend_pid()) end
        from generate_series(1, 3) n`;
      await expect(cutOff).rejects.toThrow();
      expect(await sql`select n from generate_series(1, 2) n`).toEqual([{ n: 1 }, { n: 2 }]);
      await serves(sql);
    }));

  const end = async (session: Sql | TransactionSql) => {
    const [own] = await session<{ pid: number }[]>`select pg_backend_pid() as pid`;
    await database.sql`select pg_terminate_backend(${own?.pid ?? 0}, 60000)`;
  };
});

it("a transaction has a session for itself, behind however many statements it begins", async () => {
  const { sql, close } = openDatabase(database.url, { max: 1, applicationName: "saga-many", log: silentLog });
  await sql`select 1`;
  const before = Array.from({ length: 100 }, () => sql`select 1`.execute());
  const transaction = sql.begin(async (session) => {
    const after = sql`select pg_current_xact_id_if_assigned() as id`;
    const [own] = await session`select pg_current_xact_id() as id`;
    return { own, after };
  });
  await Promise.all(before);
  const { own, after } = await transaction;
  expect(own?.id).toEqual(expect.any(String));
  expect(await after).toEqual([{ id: null }]);
  await close();
});
