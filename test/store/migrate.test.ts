// Migrations and audit partitions: many services at once, rows that came too early, and retention.
import type { Sql } from "postgres";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createLogger } from "../../src/log.js";
import { migrateDatabase } from "../../src/store/migrate/migrate.js";
import { createEventPartitions, dropEventPartitions } from "../../src/store/upkeep/partitions.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { schemaOf } from "../harness/emptying.js";
import { until } from "../harness/until.js";

const WEEK_MS = 7 * 24 * 3_600_000;
let database: TestDatabase;
beforeEach(async () => {
  database = await createTestDatabase({ max: 6, migrated: false });
});
afterEach(() => database.drop());

const weeks = async (sql: Sql) =>
  (
    await sql`select inhrelid::regclass::text as name from pg_inherits where inhparent = 'run_events'::regclass order by 1`
  )
    .map((row) => String(row.name))
    .filter((name) => /_\d{8}$/.test(name));

const addEvent = (sql: Sql, at: Date, seq = 1) => sql`
  insert into run_events (run_id, seq, recorded_at, event_type, attempt, from_state, to_state, actor)
  values (gen_random_uuid(), ${seq}, ${at}, 'log', 0, 'running', 'running', 'api')`;

const placeOf = async (sql: Sql, seq: number) =>
  String((await sql`select tableoid::regclass::text as place from run_events where seq = ${seq}`)[0]?.place);

describe("migrations", () => {
  it("are applied once by many services at once", async () => {
    await Promise.all(Array.from({ length: 6 }, () => migrateDatabase(database.url, silentLog)));
    const [row] =
      await database.sql`select count(*)::int as n, count(distinct hash)::int as different from drizzle.__drizzle_migrations`;
    expect(row?.n).toBe(row?.different);
    expect(row?.n).toBeGreaterThan(0);
    expect(await weeks(database.sql)).toHaveLength(5);
  });

  it("begin again if Postgres ends their session", async () => {
    const lines: string[] = [];
    const log = createLogger({ logLevel: "warn" }, { write: (line) => void lines.push(line) });
    const turn = await database.sql.reserve();
    await turn`select pg_advisory_lock(${0x73616761})`;
    const migrated = migrateDatabase(database.url, log);
    const ended = () => database.sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and application_name = 'saga-migrate' and wait_event_type = 'Lock'`;
    await until(async () => (await ended()).length > 0, { what: "a session that waits for its turn" });
    await turn`select pg_advisory_unlock(${0x73616761})`;
    turn.release();
    await migrated;
    expect(lines.some((line) => line.includes("Postgres went away during the migrations"))).toBe(true);
    expect(await weeks(database.sql)).not.toEqual([]);
  });

  it("wait for the advisory lock", async () => {
    const holder = database.session();
    await holder.sql`select pg_advisory_lock(1935763297)`;
    let done = false;
    const second = migrateDatabase(database.url, silentLog).then(() => {
      done = true;
    });
    const waiting = async () =>
      (
        await database.sql`select 1 from pg_locks where locktype = 'advisory' and not granted
        and database = (select oid from pg_database where datname = current_database())`
      ).length;
    await expect.poll(waiting).toBe(1);
    expect(done).toBe(false);
    await holder.close();
    await second;
    expect(await weeks(database.sql)).toHaveLength(5);
  });
});

describe("a database of an unpublished build", () => {
  const SENTENCE =
    /^The database was made by an unpublished build of this service, .*: start with an empty one\. Nothing in it was changed$/;

  it("is refused with one sentence, and nothing in it is changed", async () => {
    await database.sql.unsafe(`create schema drizzle;
      create table drizzle.__drizzle_migrations (id serial primary key, hash text not null, created_at bigint);
      insert into drizzle.__drizzle_migrations (hash, created_at) values ('unpublished', 1795237394586);
      create table runs (id uuid primary key)`);
    const schema = await schemaOf(database.sql);
    for (let nth = 0; nth < 2; nth++)
      await expect(migrateDatabase(database.url, silentLog)).rejects.toThrow(
        expect.objectContaining({ name: "UnusableDatabase", message: expect.stringMatching(SENTENCE) }),
      );
    expect(await schemaOf(database.sql)).toBe(schema);
    expect(await database.sql`select hash from drizzle.__drizzle_migrations`).toEqual([{ hash: "unpublished" }]);
  });

  it("is none that a later release has migrated", async () => {
    await migrateDatabase(database.url, silentLog);
    const later = Date.now() + 10 * WEEK_MS;
    await database.sql`insert into drizzle.__drizzle_migrations (hash, created_at) values ('later', ${later})`;
    await migrateDatabase(database.url, silentLog);
  });
});

describe("audit partitions", () => {
  beforeEach(() => migrateDatabase(database.url, silentLog));

  it("a row of this week is in this week's partition, a row far ahead in the default one", async () => {
    await addEvent(database.sql, new Date(), 1);
    await addEvent(database.sql, new Date(Date.now() + 20 * WEEK_MS), 2);
    expect(await placeOf(database.sql, 1)).toBe((await weeks(database.sql))[0]);
    expect(await placeOf(database.sql, 2)).toBe("run_events_default");
  });

  it("a week with rows in the default partition is skipped, with a warning", async () => {
    const last = (await weeks(database.sql)).at(-1)!;
    await database.sql`drop table ${database.sql(last)}`;
    await addEvent(database.sql, new Date(Date.now() + 4 * WEEK_MS), 7);
    const lines: string[] = [];
    await createEventPartitions(
      database.sql,
      createLogger({ logLevel: "warn" }, { write: (line) => void lines.push(line) }),
    );
    expect(lines.join()).toContain(last);
    expect(await weeks(database.sql)).toHaveLength(4);
    expect(await placeOf(database.sql, 7)).toBe("run_events_default");
  });

  it("each week is created once by many services at once, without a warning", async () => {
    for (const name of await weeks(database.sql)) await database.sql`drop table ${database.sql(name)}`;
    const lines: string[] = [];
    const log = createLogger({ logLevel: "warn" }, { write: (line) => void lines.push(line) });
    await Promise.all(Array.from({ length: 3 }, () => createEventPartitions(database.sql, log)));
    expect(await weeks(database.sql)).toHaveLength(5);
    expect(lines).toEqual([]);
  });

  it("retention drops past weeks, and old rows of the default partition; the rest stays", async () => {
    const [first, second] = await weeks(database.sql);
    const longAgo = new Date(Date.now() - 30 * WEEK_MS);
    await addEvent(database.sql, longAgo, 1);
    await addEvent(database.sql, new Date(Date.now() + WEEK_MS), 2);
    await addEvent(database.sql, new Date(Date.now() + 20 * WEEK_MS), 3);
    const drop = (before: Date) => dropEventPartitions(database.sql, { before, emptyBefore: before });
    expect(await drop(new Date())).toEqual([]);
    expect(await drop(new Date(Date.now() + WEEK_MS))).toEqual([first]);
    const rows = await database.sql`select seq from run_events order by seq`;
    expect(rows.map((row) => row.seq)).toEqual([2, 3]);
    expect((await weeks(database.sql))[0]).toBe(second);
  });
});
