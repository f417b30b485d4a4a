// The sessions of clients' reads with access on: what they may do, what a read shows, and what becomes of a read that is cut off.
import type { Sql } from "postgres";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EVERYTHING, type Reach } from "../../src/access/index.js";
import { openDatabase } from "../../src/store/engine/connection.js";
import { UnusableDatabase } from "../../src/store/engine/session.js";
import { ReadPool } from "../../src/store/lists/read-pool.js";
import { ReaderSession } from "../../src/store/lists/reader-session.js";
import {
  PLATFORM_READER_ROLE,
  prepareReader,
  READER_ROLE,
  refuseUnfitReader,
} from "../../src/store/migrate/reader-role.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { newRunId } from "../harness/ids.js";
import { type OpenReaders, openReaders } from "../harness/readers.js";

const [A, B] = ["0190a000-0000-7000-8000-00000000000a", "0190a000-0000-7000-8000-00000000000b"] as const;
let database: TestDatabase;
let readers: OpenReaders;
let readPool: ReadPool;
beforeAll(async () => {
  database = await createTestDatabase();
  for (const tenant_id of [A, B, null]) {
    const run = {
      id: newRunId(),
      shard: 0,
      revision: 1,
      fence: 1,
      last_seq: 1,
      state: "running",
      requires_manual_review: false,
    };
    const about = { workflow_id: "orders", version: 1, definition_id: newRunId(), record: "{}", tenant_id };
    await database.sql`insert into runs ${database.sql({ ...run, ...about, started_at: new Date(), last_event_at: new Date() })}`;
    await database.sql`insert into run_events (run_id, seq, recorded_at, event_type, attempt, from_state, to_state, actor)
      values (${run.id}, 1, now(), 'log', 0, 'running', 'running', 'api')`;
  }
  readers = await openReaders(database, 1);
  readPool = new ReadPool({ sessions: readers.sessions });
});
afterAll(async () => {
  await readers?.close();
  await database?.drop();
});

const here = new AbortController().signal;
const reaching = (...tenants: string[]): Reach => ({ tenants });
const as = <T>(reach: Reach, read: (sql: Sql) => Promise<T>) => readPool.look({ closed: here, reach }, read);
/** Without any condition. */
const seen = async (sql: Sql) =>
  (await sql<{ tenant_id: string | null }[]>`select tenant_id from runs order by tenant_id`).map(
    (row) => row.tenant_id,
  );
const rows = async (sql: Sql) => (await sql`select from run_events`).length;
const bare = () => (readers.databases[0] as OpenReaders["databases"][number]).sql;

describe("a read under row-level security", () => {
  it("shows the rows of its tenants, and what belongs to their runs, whatever its statement asks for", async () => {
    expect(await as(reaching(A), seen)).toEqual([A]);
    expect(await as(reaching(B), seen)).toEqual([B]);
    expect(await as(reaching(B, A), seen)).toEqual([A, B]);
    expect(await as(reaching(), seen)).toEqual([]);
    expect(await as(EVERYTHING, seen)).toEqual([A, B, null]);
    expect([await as(reaching(A), rows), await as(EVERYTHING, rows)]).toEqual([1, 3]);
  });

  it("is one of its tenants in all of its statements, also within a transaction of its own and behind it", async () => {
    const read = async (sql: Sql) => {
      const inner = await sql.begin("read only", async (transaction) => {
        await transaction.unsafe("set local statement_timeout = 5000");
        return seen(transaction as unknown as Sql);
      });
      const [row] = await sql<[{ timeout: string }]>`select current_setting('statement_timeout') as timeout`;
      return [inner, row.timeout, await seen(sql)];
    };
    expect(await as(reaching(A), read)).toEqual([[A], "30s", [A]]);
  });

  it("goes on where a transaction of its own failed", async () => {
    const read = async (sql: Sql) => {
      await expect(sql.begin((transaction) => transaction`select 1 / 0`)).rejects.toThrow("division by zero");
      return seen(sql);
    };
    expect(await as(reaching(A), read)).toEqual([A]);
  });

  it("leaves its tenants to no other read, be it that it failed", async () => {
    await expect(as(reaching(A), (sql) => sql`select 1 / 0`)).rejects.toThrow("division by zero");
    expect(await as(reaching(B), seen)).toEqual([B]);
    await expect(seen(bare())).rejects.toMatchObject({ code: "08003" });
  });

  it("fails, and does not find nothing, if its session is lost between two statements", async () => {
    const read = async (sql: Sql) => {
      const [own] = await sql<[{ pid: number }]>`select pg_backend_pid() as pid`;
      await database.sql`select pg_terminate_backend(${own.pid}, 5000)`;
      // The driver opens another session, which has heard of no read.
      await sql`select 1`.catch(() => {});
      return seen(sql);
    };
    await expect(as(reaching(A), read)).rejects.toMatchObject({
      code: expect.stringMatching(/^(08003|57P01|CONNECTION_.*)$/),
    });
    expect(await as(reaching(A), seen)).toEqual([A]);
  });

  it.each<readonly [string, Record<string, string>]>([
    ["no tenants were ever set", { role: READER_ROLE }],
    ["no tenants were ever set for the platform", { role: PLATFORM_READER_ROLE }],
    ["the role of tenants' reads names all of them", { role: READER_ROLE, "saga.tenants": "*" }],
  ])("shows no rows where %s", async (_what, settings) => {
    const other = openDatabase(database.url, {
      ...{ max: 1, applicationName: "saga-test-unset", log: silentLog },
      settings,
    });
    try {
      expect(await seen(other.sql)).toEqual([]);
    } finally {
      await other.close();
    }
  });

  it("lets nothing but UUIDs into the text of its beginning", async () => {
    await expect(as(reaching("*"), seen)).rejects.toThrow(TypeError);
    await expect(as(reaching("x'; select '"), seen)).rejects.toThrow(TypeError);
  });
});

describe("the roles of the reads", () => {
  it("are two: one for tenants, one for the platform, whatever the session began as", async () => {
    const name = async (sql: Sql) => (await sql<[{ name: string }]>`select current_user as name`)[0].name;
    const login = openDatabase(database.url, { max: 1, applicationName: "saga-test-begun", log: silentLog });
    const begun = new ReadPool({ sessions: [new ReaderSession(login.sql, async () => {})] });
    try {
      for (const pool of [readPool, begun]) {
        const by = (reach: Reach) => pool.look({ closed: here, reach }, name);
        expect(await by(reaching(A))).toBe(READER_ROLE);
        expect(await by(EVERYTHING)).toBe(PLATFORM_READER_ROLE);
        expect(await by(reaching(B))).toBe(READER_ROLE);
      }
    } finally {
      await login.close();
    }
  });

  it("make a read of tenants a range of an index, and no row is compared", async () => {
    const plan = (sql: Sql) =>
      sql.begin(async (transaction) => {
        await transaction.unsafe("set local enable_seqscan = off");
        const lines = await transaction<Record<string, string>[]>`explain select count(*) from runs`;
        return lines.map((line) => line["QUERY PLAN"]).join("\n");
      });
    const [one, two] = [await as(reaching(A), plan), await as(reaching(A, B), plan)];
    for (const found of [one, two]) {
      expect(found).toMatch(/Index Cond: \(tenant_id = ANY /);
      expect(found).not.toContain("Filter");
    }
  });

  it("look up no run for the platform: the policy that shows everything is asked first", async () => {
    const plan = (sql: Sql) => sql<Record<string, string>[]>`explain select from signals`;
    const lines = (await as(EVERYTHING, plan)).map((line) => line["QUERY PLAN"] ?? "");
    const filter = lines.find((line) => line.includes("SubPlan")) ?? "";
    expect(filter.indexOf("SubPlan")).toBeGreaterThan(filter.indexOf(" OR "));
    expect(filter).toContain(" OR ");
  });

  it("write nothing, and read neither keys nor what is for no client", async () => {
    for (const table of ["api_keys", "service_keys", "run_commands", "start_keys", "suspects", "events"]) {
      const read = as(EVERYTHING, (sql) => sql`select from ${sql(table)}`);
      await expect(read, table).rejects.toMatchObject({ code: "42501" });
    }
    for (const text of [
      "delete from runs",
      "insert into run_labels values (gen_random_uuid(), 'a', 'b')",
      "update triggers set enabled = false",
    ])
      await expect(
        as(EVERYTHING, (sql) => sql.unsafe(text)),
        text,
      ).rejects.toMatchObject({ code: expect.stringMatching(/^(25006|42501)$/) });
  });

  it("are what a reset goes back to, with no more to see", async () => {
    const name = async (sql: Sql) => {
      await sql.unsafe("reset role");
      const [row] = await sql<[{ name: string }]>`select current_user as name`;
      return [row.name, await seen(sql)];
    };
    expect(await as(EVERYTHING, name)).toEqual([READER_ROLE, []]);
    expect(await as(reaching(A), name)).toEqual([READER_ROLE, [A]]);
  });

  it("fit; an owner of tables, who is not under row-level security, does not", async () => {
    await refuseUnfitReader(bare());
    await expect(refuseUnfitReader(database.sql)).rejects.toThrow(UnusableDatabase);
    for (const role of [READER_ROLE, PLATFORM_READER_ROLE]) {
      const owner = `saga_owner_${process.pid}`;
      await database.sql.unsafe(
        `create role ${owner} nologin; grant ${owner} to ${role}; alter table nodes owner to ${owner}`,
      );
      try {
        await expect(refuseUnfitReader(bare())).rejects.toThrow(`${role} owns the table nodes`);
      } finally {
        await database.sql.unsafe(
          `alter table nodes owner to current_user; drop owned by ${owner}; drop role ${owner}`,
        );
      }
    }
  });

  it("may not be given a right to write, or to another table", async () => {
    const attempts = [
      ["update (enabled) on triggers", "may write the table triggers"],
      ["select on service_keys", "may read the table service_keys"],
    ] as const;
    for (const role of [READER_ROLE, PLATFORM_READER_ROLE]) {
      for (const [right, sentence] of attempts) {
        await database.sql.unsafe(`grant ${right} to ${role}`);
        await expect(refuseUnfitReader(bare())).rejects.toThrow(`${role} ${sentence}`);
        await database.sql.unsafe(`revoke ${right} from ${role}`);
      }
      await database.sql.unsafe(`revoke select on runs from ${role}`);
      await expect(refuseUnfitReader(bare())).rejects.toThrow(`${role} may not read the table runs`);
      await prepareReader(database.sql, { ownLogin: true });
      await refuseUnfitReader(bare());
    }
  });

  it("are given back what a restored database lacks: the policies of the platform's reads", async () => {
    await database.sql.unsafe("drop policy readers_of_all on runs");
    expect(await as(EVERYTHING, seen)).toEqual([]);
    await prepareReader(database.sql, { ownLogin: true });
    expect(await as(EVERYTHING, seen)).toEqual([A, B, null]);
  });

  it("are asked of an administrator where the login may not make them or be them: the sentence has the statements", async () => {
    const login = `saga_login_${process.pid}`;
    const url = new URL(database.url);
    [url.username, url.password] = [login, "hunter-of-roles"];
    await database.sql.unsafe(`create role ${login} login password 'hunter-of-roles'`);
    const other = openDatabase(url.href, { max: 1, applicationName: "saga-test-login", log: silentLog });
    try {
      const asked = [READER_ROLE, PLATFORM_READER_ROLE].map((role) => `  grant ${role} to ${login};`).join("\n");
      await expect(prepareReader(other.sql, { ownLogin: true })).rejects.toThrow(asked);
      await expect(prepareReader(other.sql, { ownLogin: true })).rejects.toThrow(UnusableDatabase);
      await prepareReader(other.sql, { ownLogin: false });
    } finally {
      await other.close();
      await database.sql.unsafe(`drop role ${login}`);
    }
  });
});
