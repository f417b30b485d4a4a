// The success rate of a workflow is that of a plain count, whichever of its minutes are counted, and it reads few rows when they are.

import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { EVERYTHING } from "../../src/access/index.js";
import { openDatabase } from "../../src/store/engine/connection.js";
import { workflowStats } from "../../src/store/lists/definitions.js";
import { countEnds } from "../../src/store/statistics/end-counts.js";
import { createTestDatabase, deleteRuns, forgetCounts, silentLog, type TestDatabase } from "../harness/database.js";

let database: TestDatabase;
beforeAll(async () => {
  // One session, whose statistics are known when it asks for them.
  database = await createTestDatabase({ max: 1 });
});
beforeEach(async () => {
  await deleteRuns(database.sql);
  await forgetCounts(database.sql);
});
afterAll(() => database.drop());

/** Runs from now back over 25 hours: of two workflows, and of every kind that does not count. The database notes nothing of them. */
async function insert(count: number): Promise<void> {
  await database.sql.begin(async (sql) => {
    await sql`set local session_replication_role = replica`;
    await sql`
      with new as (
        insert into runs (id, shard, revision, fence, last_seq, state, last_event_at, terminal_at, requires_manual_review, record, workflow_id,
          version, definition_id, started_at, parent_run_id)
        select gen_random_uuid(), 0, 1, 1, 1, (array['succeeded', 'succeeded', 'failed', 'cancelled'])[1 + nth % 4], now(),
          now() - random() * interval '25 hours', false, '{}', 'flow' || nth % 2, 1, gen_random_uuid(), now() - interval '26 hours',
          case when nth % 7 = 0 then gen_random_uuid() end
        from generate_series(1, ${count}::int) nth returning id
      ) insert into run_starts (run_id, inputs, identity, request_hash)
        select id, '{}', json_build_object('dryRun', random() < 0.2), '' from new`;
  });
}

const unfinished = async () => {
  const [run] = await database.sql<{ id: string }[]>`
    insert into runs (id, shard, revision, fence, last_seq, state, last_event_at, requires_manual_review, record, workflow_id, version, definition_id, started_at)
    values (gen_random_uuid(), 0, 1, 1, 1, 'running', now(), false, '{}', 'flow1', 1, gen_random_uuid(), now()) returning id`;
  return run?.id ?? "";
};
const end = (id: string, ago: string, sql = database.sql) =>
  sql`update runs set state = 'failed', terminal_at = now() - ${ago}::text::interval where id = ${id}`;

/** In one snapshot, because the day moves on. */
async function expectRight(): Promise<number> {
  const { success_rate_24h: rate } = await database.sql.begin("isolation level repeatable read", async (sql) => {
    const stats = await workflowStats(sql as unknown as typeof database.sql, EVERYTHING, "flow1");
    const [plain] = await sql<{ succeeded: number; failed: number }[]>`
      select count(*) filter (where state = 'succeeded')::int as succeeded, count(*) filter (where state = 'failed')::int as failed
      from runs left join run_starts on run_id = id
      where workflow_id = 'flow1' and parent_run_id is null and terminal_at >= now() - interval '24 hours'
        and (identity->>'dryRun')::bool is not true`;
    const { succeeded = 0, failed = 0 } = plain ?? {};
    expect(stats.success_rate_24h).toBeCloseTo(succeeded / (succeeded + failed), 12);
    return stats;
  });
  return rate ?? Number.NaN;
}
const horizon = async () =>
  (await database.sql`select nullif(until, '-infinity') as until from end_horizon`)[0]?.until as Date | null;

describe("the success rate", () => {
  it("is that of a plain count before and after minutes are counted, and after more runs have ended", async () => {
    await insert(2_000);
    const before = await expectRight();
    await countEnds(database.sql);
    expect(await expectRight()).toBe(before);
    await end(await unfinished(), "0 s");
    expect(await expectRight()).toBeLessThan(before);
    await countEnds(database.sql);
    await expectRight();
  });

  it("has a run that ended long before its commit, counted again or not", async () => {
    await insert(500);
    await countEnds(database.sql);
    const before = await expectRight();
    for (const ago of ["2 hours", "2 hours", "23 hours", "1 minute"]) await end(await unfinished(), ago);
    const late = await expectRight();
    expect(late).toBeLessThan(before);
    await countEnds(database.sql);
    const [left] =
      await database.sql`select count(*)::int as count from run_end_changes where ended_at < ${await horizon()}`;
    expect(left).toEqual({ count: 0 });
    expect(await expectRight()).toBe(late);
  });

  it("counts no minute before the transactions are over that may end a run in it", async () => {
    await insert(100);
    const other = openDatabase(database.url, { max: 1, applicationName: "saga-other", log: silentLog });
    const id = await unfinished();
    await other.sql.begin(async (sql) => {
      const [{ began }] = await sql<[{ began: Date }]>`select now() as began`;
      await end(id, "5 s", sql as unknown as typeof database.sql);
      await countEnds(database.sql);
      expect((await horizon())?.getTime()).toBeLessThanOrEqual(began.getTime() - 10_000);
    });
    await other.close();
    await expectRight();
  });

  it("reads few rows of the runs when their minutes are counted", async () => {
    const rowsRead = async () => {
      await database.sql`select pg_stat_force_next_flush()`;
      const [read] = await database.sql<{ rows: number }[]>`
        select sum(idx_tup_read)::int8::int as rows from pg_stat_user_indexes where relname in ('runs', 'run_starts')`;
      return read?.rows ?? 0;
    };
    await insert(4_000);
    await countEnds(database.sql);
    await database.sql`analyze runs`;
    // After a few executions, Postgres keeps a generic plan.
    for (let count = 0; count < 7; count++) await workflowStats(database.sql, EVERYTHING, "flow1");
    const before = await rowsRead();
    await workflowStats(database.sql, EVERYTHING, "flow1");
    // Of three minutes at most, where a minute has one or two runs.
    expect((await rowsRead()) - before).toBeLessThan(200);
  });

  it("is counted by one node at a time", async () => {
    await insert(10);
    const { sql, close } = database.session();
    await sql`select pg_advisory_lock(${0x656e6473})`;
    await countEnds(database.sql);
    expect(await horizon()).toBeNull();
    await close();
    await countEnds(database.sql);
    expect(await horizon()).toBeInstanceOf(Date);
  });
});
