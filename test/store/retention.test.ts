// Retention under years of rows: what it deletes it finds by an index, in bounded statements, and it keeps up with a day's runs.
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { uuidv7 } from "../../src/ids.js";
import { openDatabase } from "../../src/store/engine/connection.js";
import { hashedKey } from "../../src/store/engine/start-keys.js";
import { Pruner } from "../../src/store/upkeep/pruner.js";
import { createTestDatabase, deleteRuns, silentLog, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
beforeEach(async () => {
  await deleteRuns(database.sql);
  await database.sql.unsafe("delete from start_keys; delete from events; delete from event_takes; delete from undo");
});
afterAll(() => database.drop());

const PAST = "interval '40 days'";
const RECENT = "interval '1 hour'";

/** The most rows that a statement deletes, and the most runs or events whose rows it deletes. */
const ROWS = 5_000;
const OWNERS = 500;

interface Runs {
  readonly count: number;
  /** How long ago they ended. Absent: they have not. */
  readonly ended?: string;
  readonly root?: string;
}

/** Runs with a start, a key, two variables, two recorded answers, a signal and an undo entry each. */
async function insert({ count, ended, root }: Runs): Promise<readonly string[]> {
  const { sql } = database;
  const ids = Array.from({ length: count }, () => uuidv7());
  const at = ended === undefined ? "null" : `now() - ${ended}`;
  await sql.unsafe(
    `with new as (
       insert into runs (id, shard, revision, fence, last_seq, state, last_event_at, terminal_at, requires_manual_review, record,
         workflow_id, version, definition_id, started_at, root_run_id, parent_run_id)
       select id, 0, 1, 1, 1, 'running', now(), ${at}, false, '{}', 'flow', 1, id, now() - ${PAST}, $2::text::uuid, $2::text::uuid
       from unnest($1::text::uuid[]) id returning id
     ), starts as (
       insert into run_starts (run_id, inputs, identity, request_hash)
       select id, '{}', json_build_object('idempotencyKey', id), '' from new
     ), keys as (insert into start_keys (scope, key, run_id) select '/flow', ${hashedKey("id::text")}, id from new
     ), variables as (
       insert into run_variables (run_id, name, value) select id, name, '1' from new, unnest(array['a', 'b']) name
     ), commands as (
       insert into run_commands (run_id, command_id, answer, keep, at)
       select id, gen_random_uuid(), '{}', keep, now() - ${PAST} + random() * interval '1 day' from new, unnest(array[true, false]) keep
     ), received as (
       insert into signals (id, run_id, signal_name, received_at) select gen_random_uuid(), id, 'go', now() from new
     )
     insert into undo (owner_run_id, step_id, entry, forward_idempotency_key, state) select id, 's', 1, '', 'done' from new`,
    [`{${ids.join(",")}}`, root ?? null],
  );
  return ids;
}

const sessionsEnded = () =>
  until(async () => {
    const rows = await database.sql`
      select 1 from pg_stat_activity where application_name = 'pruner' and datname = current_database()`;
    return rows.length === 0;
  });

/** A round in sessions of its own, whose end makes their statistics visible. */
async function prune({ runDays = 30 } = {}): Promise<void> {
  const { sql, close } = openDatabase(database.url, { max: 3, applicationName: "pruner", log: silentLog });
  expect(await new Pruner(sql, silentLog, { eventDays: 30, runDays }).prune()).toBe(true);
  await close();
  await sessionsEnded();
}

async function left(table: string, column = "run_id"): Promise<readonly string[]> {
  const rows = await database.sql<{ id: string }[]>`
    select distinct ${database.sql(column)} as id from ${database.sql(table)} order by 1`;
  return rows.map(({ id }) => id);
}

const OF_RUNS = ["run_starts", "start_keys", "run_variables", "run_commands", "signals"];
/** Tables of which an owner may have any number of rows, and the columns of the owners. */
const ANY_NUMBER = [
  ["events", "id"],
  ["event_takes", "event_id"],
  ["trigger_fires", "trigger_id"],
  ["kept_scopes", "run_id"],
  ["kept_values", "holder"],
] as const;

/** Rows that all sessions have read so far, of tables and of indexes. */
async function rowsRead(): Promise<number> {
  await database.sql`select pg_stat_force_next_flush()`;
  const [row] = await database.sql<{ rows: number }[]>`
    select ((select sum(seq_tup_read) from pg_stat_user_tables) + (select sum(idx_tup_read) from pg_stat_user_indexes))::float8 as rows`;
  return row?.rows ?? 0;
}

/** The rows of the longest deletion of each table, from now on. A trigger counts them, so the plans are those of the statements alone. */
async function longestDeletions(): Promise<() => Promise<Record<string, number>>> {
  const { sql } = database;
  await sql.unsafe(`
    create table deletions (of text, rows int4);
    create function note_deletion() returns trigger language plpgsql as $$ begin
      insert into deletions select tg_table_name, count(*) from gone having count(*) > 0;
      return null;
    end $$`);
  onTestFinished(async () => void (await sql.unsafe("drop function note_deletion cascade; drop table deletions")));
  const tables = await sql<{ name: string }[]>`
    select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' and not relispartition
      and relname <> 'deletions'`;
  for (const { name } of tables)
    await sql.unsafe(`create trigger note_deletion after delete on "${name}" referencing old table as gone
      for each statement execute function note_deletion()`);
  return async () => {
    const rows = await sql<{ of: string; most: number }[]>`select of, max(rows) as most from deletions group by of`;
    return Object.fromEntries(rows.map(({ of, most }) => [of, most]));
  };
}

describe("retention", () => {
  it("reads the rows that it deletes, and not those that stay, and keeps up with a day's million runs", {
    tags: "long",
  }, async () => {
    const count = 5_000;
    await insert({ count: 20_000 });
    await insert({ count: 2_000, ended: RECENT });
    const read = async (work: () => Promise<void>) => {
      const before = await rowsRead();
      await work();
      return (await rowsRead()) - before;
    };
    // The answers that are kept for a day only, of runs that stay.
    await prune();
    await database.sql`vacuum run_commands`;
    const idle = await read(() => prune());
    await insert({ count, ended: PAST });
    const began = performance.now();
    const busy = await read(() => prune());
    const seconds = (performance.now() - began) / 1_000;
    console.info(
      `retention: ${Math.round(count / seconds)} runs/s, ${Math.round((count * 9) / seconds)} rows/s; a day's million runs in ` +
        `${Math.round((1e6 / count) * (seconds / 60))} min; rows read: ${idle} with nothing to delete, ${busy} for ${count * 9}`,
    );
    expect(await left("runs", "id")).toHaveLength(22_000);
    for (const table of OF_RUNS) expect(await left(table), table).toHaveLength(22_000);
    expect(idle).toBeLessThan(5_000);
    expect(busy).toBeLessThan(count * 9 * 3);
    expect(count / seconds).toBeGreaterThan(1e6 / 86_400);
  });

  it("passes children whose root has not ended, and deletes what ended after them", async () => {
    const [root = ""] = await insert({ count: 1 });
    const held = await insert({ count: 700, ended: "interval '50 days'", root });
    const [later = ""] = await insert({ count: 1, ended: PAST });
    const [other = ""] = await insert({ count: 1, ended: RECENT });
    await prune();
    const kept = [root, other, ...held].sort();
    expect(await left("runs", "id")).toEqual(kept);
    for (const table of OF_RUNS) expect(await left(table), table).not.toContain(later);
    await database.sql`update runs set terminal_at = now() - interval '40 days' where id = ${root}`;
    await prune();
    expect(await left("runs", "id")).toEqual([other]);
  });

  it("deletes in bounded statements, however many rows a run or an event has", async () => {
    const { sql } = database;
    const [living = "", ended = ""] = [...(await insert({ count: 1 })), ...(await insert({ count: 1, ended: RECENT }))];
    const runs = await insert({ count: OWNERS + 200, ended: PAST });
    const events = runs.map(() => uuidv7());
    await sql`
      insert into events (id, topic, headers, payload, size, published_at)
      select id, 't', '{}', '{}', 2, now() - interval '40 days' from unnest(${events}::text[]::uuid[]) id`;
    // Neither a single owner nor several together may make a statement longer.
    for (const owner of runs.slice(0, 2))
      await sql`insert into run_variables select ${owner}, 'v' || n, '1' from generate_series(1, 6000) n`;
    for (const owner of events.slice(0, 2))
      await sql`insert into event_takes select gen_random_uuid(), ${owner} from generate_series(1, 6000)`;
    await sql`
      insert into run_commands select ${living}, gen_random_uuid(), '{}', false, now() - interval '40 days' from generate_series(1, 12000)`;
    await sql`
      insert into trigger_fires (id, trigger_id, workflow_id, scheduled_at, fired_at)
      select gen_random_uuid(), ${living}, 'flow', now(), now() - interval '40 days' from generate_series(1, 12000)`;
    await sql`insert into kept_scopes (run_id, entry, holder) select ${ended}, n, ${ended} from generate_series(1, 12000) n`;
    await sql`insert into kept_values select ${ended}, gen_random_uuid(), '1' from generate_series(1, 12000)`;
    const longest = await longestDeletions();
    await prune();
    expect(await longest()).toEqual({
      ...{ runs: OWNERS, start_keys: OWNERS, run_starts: OWNERS, signals: OWNERS, undo: OWNERS, events: OWNERS },
      ...{ run_variables: ROWS, event_takes: ROWS, run_commands: ROWS },
      ...{ trigger_fires: ROWS, kept_scopes: ROWS, kept_values: ROWS },
    });
    expect(await left("runs", "id")).toEqual([living, ended].sort());
    for (const table of OF_RUNS) expect(await left(table), table).toEqual([living, ended].sort());
    for (const [table, column] of ANY_NUMBER) expect(await left(table, column), table).toEqual([]);
  });

  it("keeps an old event that is owed to RabbitMQ", async () => {
    const [owed, other] = [uuidv7(), uuidv7()];
    for (const id of [owed, other])
      await database.sql`
        insert into events (id, topic, headers, payload, size, published_at) values (${id}, 't', '{}', '{}', 2, now() - interval '40 days')`;
    await database.sql`insert into outgoing_events (id, run_id, shard) values (${owed}, ${owed}, 0)`;
    await prune();
    expect(await left("events", "id")).toEqual([owed]);
    await database.sql`delete from outgoing_events`;
    await prune();
    expect(await left("events", "id")).toEqual([]);
  });

  it("deletes API keys 90 days after they were revoked or have expired, and keeps those that are in use", async () => {
    const { sql } = database;
    const ended = (name: string, revoked: string | null, expires: string | null) => sql`
      insert into api_keys (id, secret_hash, name, roles, created_by, created_at, revoked_at, expires_at)
      values (${name}, '', ${name}, '[]', 'cli', now() - interval '1 year', now() - ${revoked}::text::interval, now() - ${expires}::text::interval)`;
    await ended("lives", null, null);
    await ended("ends", null, "-1 day");
    await ended("revoked lately", "89 days", null);
    await ended("expired lately", null, "89 days");
    await ended("revoked", "91 days", null);
    await ended("expired", null, "91 days");
    await ended("revoked before it expires", "91 days", "-1 day");
    await prune();
    expect(await left("api_keys", "id")).toEqual(["ends", "expired lately", "lives", "revoked lately"]);
  });

  it("deletes recorded answers after a day, and those of a client's key with their run", async () => {
    const [run = ""] = await insert({ count: 1 });
    await database.sql`
      insert into run_commands select ${run}, gen_random_uuid(), '{}', false, now() - interval '30 hours' + n * interval '1 ms' from generate_series(1, 12000) n`;
    await database.sql`insert into run_commands values (${run}, gen_random_uuid(), '{}', false, now() - interval '20 hours')`;
    await prune();
    const rows = await database.sql<
      { keep: boolean }[]
    >`select keep from run_commands where run_id = ${run} order by keep`;
    expect(rows.map(({ keep }) => keep)).toEqual([false, true]);
  });
});
