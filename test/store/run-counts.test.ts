// The counts of runs are those of a plain count, whatever of them is kept: after ends on time and late, and deletions.
// @module-tag both

import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { asRunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { openDatabase } from "../../src/store/engine/connection.js";
import type { RunFilter } from "../../src/store/lists/matching-runs.js";
import { countEnds } from "../../src/store/statistics/end-counts.js";
import { type CountBounds, countRuns } from "../../src/store/statistics/run-counts.js";
import { createTestDatabase, deleteRuns, forgetCounts, silentLog, type TestDatabase } from "../harness/database.js";
import { long } from "../harness/long.js";
import { pruneRuns } from "./retained.js";

let database: TestDatabase;
beforeAll(async () => {
  // One session, whose statistics are known when it asks for them.
  database = await createTestDatabase({ max: 1 });
  await database.sql`
    insert into definitions (definition_id, workflow_id, version, name, published, ever_published, document)
    select gen_random_uuid(), workflow, version, workflow, true, true, '{}'
    from unnest(array['flow1', 'flow2']) workflow, generate_series(1, 3) version`;
});
beforeEach(async () => {
  await deleteRuns(database.sql);
  await forgetCounts(database.sql);
});
afterAll(() => database.drop());

const TENANT = "0a000000-0000-4000-8000-000000000000";
const PARENT = asRunId("0b000000-0000-4000-8000-000000000000");

/** Unfinished runs of every kind, and ended ones if `ago` says when: up to that many hours ago, and longer ago than a count waits for. */
async function insert(count: number, ago?: number): Promise<void> {
  await database.sql`
    insert into runs (id, shard, revision, fence, last_seq, state, paused_reason, last_event_at, terminal_at, requires_manual_review, record,
      workflow_id, version, definition_id, tenant_id, parent_run_id, business_key, started_at)
    select gen_random_uuid(), 0, 1, 1, 1, state, case when state = 'paused' then (array['signal', 'incident'])[ceil(random() * 2)] end, now(),
      now() - interval '5 minutes' - ${ago ?? null}::float8 * random() * interval '1 hour', false, '{}', 'flow' || ceil(random() * 2), ceil(random() * 3),
      gen_random_uuid(), case when random() < 0.5 then ${TENANT}::text::uuid end, case when random() < 0.5 then ${PARENT}::text::uuid end,
      'key-' || nth, now() - interval '9 days'
    from (select nth, case when ${ago !== undefined} then (array['succeeded', 'failed', 'cancelled'])[ceil(random() * 3)]
        else (array['pending', 'running', 'paused', 'compensating'])[ceil(random() * 4)] end as state
      from generate_series(1, ${count}::int) nth) shaped`;
}

/** Ends runs as a commit does, of any release. */
async function end(count: number, ago: string, sql = database.sql): Promise<void> {
  await sql`
    update runs set state = (array['succeeded', 'failed', 'cancelled'])[ceil(random() * 3)], paused_reason = null,
      terminal_at = now() - ${ago}::text::interval
    where id in (select id from runs where terminal_at is null order by random() limit ${count})`;
}

const FILTERS: readonly RunFilter[] = [
  {},
  { workflowId: "flow1" },
  { workflowId: "flow2", version: 1 },
  { version: 2 },
  { states: ["failed", "paused"] },
  { states: ["succeeded"], workflowId: "flow1" },
  { tenantId: TENANT },
  { tenantId: PARENT },
  { rootOnly: true, version: 3 },
  { pausedReasons: ["signal", "incident"] },
  { incident: true, workflowId: "flow1" },
  { incident: false },
  { parentRunId: PARENT, states: ["succeeded", "running"] },
  { q: "key-1", version: 1 },
];

async function plainly({ workflowId, version, states, tenantId, rootOnly, ...other }: RunFilter) {
  const { pausedReasons, incident, parentRunId, q } = other;
  const { sql } = database;
  return sql`
    select workflow_id, version, state, paused_reason, count(*)::int as count from runs
    where ${workflowId ? sql`workflow_id = ${workflowId}` : sql`true`} and ${version ? sql`version = ${version}` : sql`true`}
      and ${states ? sql`state in ${sql(states)}` : sql`true`} and ${tenantId ? sql`tenant_id = ${tenantId}` : sql`true`}
      and ${rootOnly ? sql`parent_run_id is null` : sql`true`}
      and ${pausedReasons ? sql`paused_reason in ${sql(pausedReasons)}` : sql`true`}
      and ${incident === undefined ? sql`true` : sql`(paused_reason is not distinct from 'incident') = ${incident}`}
      and ${parentRunId ? sql`parent_run_id = ${parentRunId}` : sql`true`} and ${q ? sql`business_key like ${`${q}%`}` : sql`true`}
    group by 1, 2, 3, 4 order by 1, 2, 3, 4`;
}

async function expectRight(): Promise<void> {
  for (const filter of FILTERS) {
    const expected = (await plainly(filter)).map(({ paused_reason, ...item }) => ({
      ...item,
      ...(paused_reason !== null && { paused_reason }),
    }));
    expect([filter, (await countRuns(database.sql, EVERYTHING, filter)).items]).toEqual([filter, expected]);
  }
}
const kept = async () =>
  (await database.sql`select coalesce(sum(count), 0)::int as kept from run_end_counts where minute = '-infinity'`)[0]
    ?.kept;
/** A day goes by, and the ends are counted. */
async function age(): Promise<void> {
  await database.sql`update end_horizon set since = '-infinity'`;
  await database.sql`update run_end_counts set minute = minute - interval '26 hours' where minute > '-infinity'`;
  await countEnds(database.sql);
}
const bounded = (bounds: Partial<CountBounds>) => ({ bounds: { matching: 5, beside: 5, items: 100, ...bounds } });

describe("the counts of runs", () => {
  it("are right after random ends on time and late, deletions and counts in any order", async () => {
    for (let round = 0; round < long(6, 30); round++) {
      const some = Math.ceil(Math.random() * 40);
      const acts = [
        () => insert(some),
        () => insert(some, 300),
        () => end(some, "0 s"),
        () => end(some, `${Math.ceil(Math.random() * 10)} days`),
        () => countEnds(database.sql),
        () => pruneRuns(database.sql, { runDays: Math.ceil(Math.random() * 9) }),
      ];
      for (const act of acts.sort(() => Math.random() - 0.5)) await act();
      await expectRight();
    }
  });

  it("have runs that ended before anything was counted, with or without their minutes", async () => {
    await insert(300, 60);
    await expectRight();
    await countEnds(database.sql);
    expect(await kept()).toBe(300);
    const [row] = await database.sql<{ young: number; minutes: number }[]>`
      select sum(count) filter (where minute > '-infinity')::int as young, count(distinct minute)::int as minutes from run_end_counts`;
    expect(row?.young).toBeLessThan(300);
    expect(row?.minutes).toBeGreaterThan(20);
    await expectRight();
  });

  it("are the same when minutes have become old, and are forgotten", async () => {
    await insert(200, 24);
    await countEnds(database.sql);
    await age();
    expect(await database.sql`select distinct minute = '-infinity' as old from run_end_counts`).toEqual([
      { old: true },
    ]);
    await expectRight();
    await pruneRuns(database.sql, { runDays: 0 });
    await countEnds(database.sql);
    await expectRight();
  });

  it("count no run before the transactions are over that may end one at its time", async () => {
    await insert(20);
    const other = openDatabase(database.url, { max: 1, applicationName: "saga-other", log: silentLog });
    await other.sql.begin(async (sql) => {
      await end(5, "5 s", sql as unknown as typeof database.sql);
      await countEnds(database.sql);
    });
    await expectRight();
    await other.close();
    await countEnds(database.sql);
    await expectRight();
  });

  it("have a run that ends behind the horizon, although it is not late by the clock of this server", async () => {
    await insert(20);
    await database.sql`update end_horizon set until = now() + interval '1 minute'`;
    await end(5, "0 s");
    await expectRight();
    await countEnds(database.sql);
    await expectRight();
  });

  it("wait with a deletion until a count is over, and a count waits for a deletion", async () => {
    await insert(60, 300);
    const other = openDatabase(database.url, { max: 1, applicationName: "saga-other", log: silentLog });
    for (let round = 0; round < 4; round++) {
      await Promise.all([
        countEnds(other.sql),
        database.sql`delete from runs where id in (select id from runs order by random() limit 10)`,
      ]);
      await expectRight();
    }
    await other.close();
    expect(await kept()).toBeGreaterThan(0);
  });

  it("keep no row for a kind whose last run is gone", async () => {
    await insert(20, 300);
    await countEnds(database.sql);
    await deleteRuns(database.sql);
    expect((await countRuns(database.sql, EVERYTHING, {})).items).toEqual([]);
    await countEnds(database.sql);
    expect(await kept()).toBe(0);
    await age();
    expect(await database.sql`select from run_end_counts`).toHaveLength(0);
  });

  it("are left alone while they are young", async () => {
    await countEnds(database.sql);
    await insert(10, 0.01);
    await countEnds(database.sql, { seconds: 3_600 });
    const [horizon] =
      await database.sql`select until < now() - interval '5 seconds' as old from end_horizon where id = 1`;
    expect([await expectRight(), await kept(), horizon?.old]).toEqual([undefined, 0, true]);
  });

  it("are counted by one node at a time", async () => {
    await insert(10, 300);
    const { sql, close } = database.session();
    await sql`select pg_advisory_lock(${0x656e6473})`;
    await countEnds(database.sql);
    expect(await kept()).toBe(0);
    await close();
    await countEnds(database.sql);
    expect(await kept()).toBe(10);
  });

  it("read no ended run that is counted", async () => {
    await insert(4_000, 300);
    await insert(40);
    await countEnds(database.sql);
    // Index entries of the rows that earlier tests have deleted would be read, too.
    await database.sql`vacuum (analyze) runs`;
    for (const filter of [{}, { workflowId: "flow1" }, { workflowId: "flow1", version: 1, states: ["succeeded"] }]) {
      // After a few executions, Postgres keeps a generic plan.
      for (let nth = 0; nth < 7; nth++) await countRuns(database.sql, EVERYTHING, filter);
      const before = await rowsRead();
      await countRuns(database.sql, EVERYTHING, filter);
      expect((await rowsRead()) - before).toBeLessThan(200);
    }
  });
});

describe("a count that would read too many runs", () => {
  it("is a lower bound and says so, unless it is to be exact", async () => {
    await insert(20);
    await insert(20, 300);
    for (const filter of [{}, { q: "key-" }]) {
      const { items } = await countRuns(database.sql, EVERYTHING, filter, bounded({}));
      expect(items.length).toBeGreaterThan(0);
      expect(items.every((item) => item.count_is_lower_bound)).toBe(true);
      const exact = await countRuns(database.sql, EVERYTHING, filter, { ...bounded({}), exact: true });
      expect(exact).toEqual(await countRuns(database.sql, EVERYTHING, filter));
    }
  });

  it("is exact for the ended runs that are kept", async () => {
    await insert(20);
    await insert(50, 300);
    await countEnds(database.sql);
    const { items } = await countRuns(database.sql, EVERYTHING, {}, bounded({}));
    const ended = items.filter(({ state }) => ["succeeded", "failed", "cancelled"].includes(state));
    expect(ended.reduce((sum, { count }) => sum + count, 0)).toBe(50);
    expect(ended.some((item) => item.count_is_lower_bound)).toBe(false);
    expect(items.filter((item) => item.count_is_lower_bound).length).toBe(items.length - ended.length);
  });

  it("has a bounded number of kinds", async () => {
    await insert(60, 300);
    const { items, truncated } = await countRuns(
      database.sql,
      EVERYTHING,
      {},
      { bounds: { matching: 9, beside: 99, items: 3 } },
    );
    expect([items.length, truncated]).toEqual([3, true]);
  });
});

async function rowsRead(): Promise<number> {
  await database.sql`select pg_stat_force_next_flush()`;
  const [read] = await database.sql<{ rows: number }[]>`
    select sum(idx_tup_read)::int8::int as rows from pg_stat_user_indexes where relname = 'runs'`;
  return read?.rows ?? 0;
}
