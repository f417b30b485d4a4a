// Postgres plans a statement once a session, often while the tables are empty, and keeps the plan. It must still be right when they are full.
// @module-tag both

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RunCommit, RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { uuidv7 } from "../../src/ids.js";
import { SHARDS } from "../../src/shard/placement.js";
import { leaseDueEvents, leaseEvents, markAnnounced } from "../../src/store/engine/announcements.js";
import { countChildren } from "../../src/store/engine/child-counts.js";
import { encodeRun } from "../../src/store/engine/commit/encoding.js";
import { PlainStatements } from "../../src/store/engine/commit/plain.js";
import { commitRuns } from "../../src/store/engine/commit/statement.js";
import { type Database, openDatabase } from "../../src/store/engine/connection.js";
import { postponeWebhooks, removeAccepted } from "../../src/store/engine/outbox.js";
import { removeOutgoing } from "../../src/store/engine/outgoing-events.js";
import { outbox, wakes } from "../../src/store/engine/poll.js";
import { readBacklog } from "../../src/store/lists/backlog.js";
import { listRuns, readRuns } from "../../src/store/lists/runs.js";
import { countEnds } from "../../src/store/statistics/end-counts.js";
import { workflowPerformance } from "../../src/store/statistics/performance.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { newRunId } from "../harness/ids.js";
import { LONG, long } from "../harness/long.js";
import { until } from "../harness/until.js";
import { AT, command, confirmation, creation, newRunRow, update, withEverything } from "./commit-rows.js";

const GROUP = 10;
/** Rounds of work that fill the tables. */
const MANY = long(40, 80);
/** Sizes of the tables, a round of work apart, at which the statements are planned. */
const SIZES = long(2, 40);
/** A lookup in an index that has grown by a level reads two pages instead of one; splits of pages and a vacuum read some more. */
const MORE_PAGES = 4;
/** Autovacuum reads so many of an index that the work itself may not use. A walk by each of the 80 runs is many more. */
const FEW_PAGES = 40;
/** Dead rows that are not removed yet, because another session may see them, are read once more. A walk reads hundreds of times as many. */
const MORE_ROWS = 3;

const idsOf = (rows: readonly { readonly id: string }[]) => rows.map(({ id }) => ({ id }));

/** How many plain statements there may be in each round: without any, all groups are written by the general one. */
const PLANNED = [
  ["are planned before the first row", "select", undefined],
  ["are planned after an analysis of nearly empty tables", "analyze", undefined],
  ["are planned after an analysis of nearly empty tables, the general ones", "analyze", 0],
] as const;

describe.each(LONG ? PLANNED.slice(1) : PLANNED.slice(0, 1))("statements that %s", (_, statistics, most) => {
  let database: TestDatabase;
  let commits: Database;
  // Of its own: what other tests of the process have committed must not count.
  const statements = new PlainStatements(most);

  beforeAll(async () => {
    // One session of each kind: a statement that was prepared stays prepared.
    database = await createTestDatabase({ max: 1, fresh: true });
    commits = openDatabase(database.url, { max: 1, applicationName: "saga-other", log: silentLog, plannedOnce: true });
  });
  afterAll(async () => {
    await commits.close();
    await database.drop();
  });

  const commit = async (group: readonly RunCommit[]) => {
    expect(
      (
        await commitRuns(
          commits.sql,
          group.map((commit) => encodeRun(commit)),
          statements,
        )
      ).size,
    ).toBe(group.length);
  };
  /** Starts under keys, transitions with rows in every table, those that take rows away, takers of signals and events, confirmations, forks, promises, ends of tasks. */
  async function work(): Promise<void> {
    const ids = Array.from({ length: GROUP }, () => {
      const held_key = [{ scope: "/orders", key: uuidv7(), burst_at: AT }];
      return creation({ held_key }, { scope: "/orders", key: uuidv7() });
    }).map((one) => [one.runId, one] as const);
    await commit(ids.map(([, one]) => one));
    const shares = ids.map(([id]) => [id, withEverything(id)] as const);
    await commit(shares.map(([id, share]) => update(id, 1, share)));
    const ordinals = await owed(ids.map(([id]) => id));
    await commit(
      shares.map(([id, { outbox_row, inbox_row }]) => {
        const [settled] = ordinals.get(id) ?? [];
        return update(id, 2, {
          ...{ outbox_gone: idsOf(outbox_row), inbox_gone: idsOf(inbox_row), event_wait_gone: [{}], wake_gone: [{}] },
          ...{ ticket_returned: [{ entry: 1 }], turn_returned: [{ entry: 1 }] },
          ...(settled !== undefined && { undo_settled: [{ ordinal: settled, state: "done" }] }),
          undo_handed: [{ heir: id, entry: 2 }],
        });
      }),
    );
    await commit(
      shares.map(([id, { signal }]) => {
        const claims = signal.map((one) => ({ id: one.id, at: one.at }));
        return update(id, 3, {
          signal_claim: claims,
          ticket_gone: [{ entry: 1 }],
          turn_taken: [{ entry: 1 }],
          undo_passed: [{ since: 0, every: true }],
        });
      }),
    );
    await commit(ids.map(([id]) => confirmation(id, 4, { command: [command()] })));
    await commit(
      ids.map(([id]) => {
        const fork = { fork_id: newRunId(), step: "s", entry: 1, since: 1, inherits: true, at: AT };
        const new_run = [newRunRow(fork.fork_id, { made_by: id })];
        return confirmation(id, 4, { fork: [fork], new_run });
      }),
    );
    const [waiting, others] = [shares.slice(0, GROUP / 2), shares.slice(GROUP / 2)];
    const paused = { state: "paused", paused_reason: "signal", awaited_signal: "go" };
    await commit(waiting.map(([id]) => update(id, 4, {}, paused)));
    await commit(
      others.map(([id, { opened_task }], nth) => {
        const promise = waiting.slice(nth, nth + 1).map(([waiter]) => ({ waiter, name: "go", fence: "8" }));
        const closed_task = opened_task.map((task) => ({ id: task.id, at: task.at }));
        return update(id, 4, { promise, event_claim: [{ event_id: uuidv7() }], closed_task });
      }),
    );
    await poll(ids.map(([id]) => id));
  }
  /** The undo entries of the runs, each run's in order. */
  async function owed(ids: readonly RunId[]): Promise<ReadonlyMap<RunId, readonly string[]>> {
    const entries = await database.sql<{ run: RunId; ordinals: string[] }[]>`
      select owner_run_id as run, array_agg(ordinal::text order by ordinal) as ordinals
      from undo where owner_run_id = any(${ids}) group by 1`;
    return new Map(entries.map(({ run, ordinals }) => [run, ordinals]));
  }
  async function poll(ids: readonly RunId[]): Promise<void> {
    const { sql } = database;
    await wakes.renew(sql, ids);
    await outbox.renew(sql, ids);
    await removeAccepted(sql, ids);
    await postponeWebhooks(
      sql,
      ids.map((id) => ({ id, ms: 1_000 })),
    );
    await removeOutgoing(sql, ids);
    await markAnnounced(sql, await leaseEvents(sql, ids));
    await leaseDueEvents(sql, GROUP);
  }
  /** Tasks that nobody does: they are open, and older than the others. */
  const leaveTasks = () => database.sql`
    insert into user_tasks (id, run_id, step_id, assignee, opened_at)
    select gen_random_uuid(), gen_random_uuid(), 's', 'ann', 'epoch' from generate_series(1, 5000)`;
  async function flushStatistics(): Promise<void> {
    for (const { sql } of [commits, database]) await sql`select pg_stat_force_next_flush()`;
  }
  async function rowsRead(): Promise<number> {
    await flushStatistics();
    const [read] = await database.sql<{ rows: number }[]>`
      select (select sum(seq_tup_read) from pg_stat_user_tables)::int8::int
        + (select sum(idx_tup_read) from pg_stat_user_indexes)::int8::int as rows`;
    return read?.rows ?? 0;
  }
  /**
   * Pages of indexes, by table: plans of different ages can use different indexes of it. A walk through a whole index counts as the rows
   * that it finds: only its pages show it.
   */
  async function pagesRead(): Promise<ReadonlyMap<string, number>> {
    await flushStatistics();
    const read = await database.sql<{ name: string; pages: number }[]>`
      select relname as name, sum(idx_blks_read + idx_blks_hit)::int as pages from pg_statio_user_indexes group by 1`;
    return new Map(read.map(({ name, pages }) => [name, pages]));
  }

  it("read as many rows, and walk through no index, when the tables are full", async () => {
    // After a few executions, Postgres keeps a generic plan.
    for (let count = 0; count < 8; count++) {
      await work();
      if (count === 1) await database.sql.unsafe(statistics);
    }
    const read = async () => {
      const [rows, pages] = [await rowsRead(), await pagesRead()];
      for (let count = 0; count < 8; count++) await work();
      const more = [...(await pagesRead())].map(([table, now]) => [table, now - (pages.get(table) ?? 0)] as const);
      return { rows: (await rowsRead()) - rows, pages: new Map(more) };
    };
    const early = await read();
    for (let count = 0; count < MANY; count++) await work();
    await leaveTasks();
    const late = await read();
    console.info(`rows read for 80 runs: ${early.rows} in small tables, ${late.rows} in larger ones`);
    expect(late.rows).toBeLessThan(early.rows * MORE_ROWS);
    const most = (table: string) => Math.max((early.pages.get(table) ?? 0) * MORE_PAGES, FEW_PAGES);
    const walked = [...late.pages].filter(([table, pages]) => pages > most(table));
    expect(walked).toEqual([]);
  });

  it("leave no choice to the planner, whatever size the tables have", async () => {
    const fresh = openDatabase(database.url, {
      max: 1,
      applicationName: "saga-other",
      log: silentLog,
      plannedOnce: true,
    });
    try {
      for (let count = 0; count < SIZES; count++) {
        await work();
        if (count % 2 === 1) await database.sql`analyze`;
        const known = [...(await preparedIn(commits.sql)), ...(await preparedIn(database.sql))];
        expect(known.length).toBeGreaterThan(10);
        for (const statement of known) expect(await walks(fresh.sql, statement)).toEqual([]);
      }
    } finally {
      await fresh.close();
    }
  });

  it("are not planned again for each commit", async () => {
    for (let count = 0; count < 8; count++) await work();
    const statements = await commits.sql<{ plans: number; custom: number }[]>`
      select generic_plans::int as plans, custom_plans::int as custom from pg_prepared_statements where statement ~ '(from won|as all_won)$'`;
    expect(statements.length).toBeGreaterThan(3);
    for (const { plans, custom } of statements) expect({ used: plans > 7, custom }).toEqual({ used: true, custom: 0 });
  });

  it("look up one run or several are not planned for each lookup", async () => {
    const ids = Array.from({ length: 8 }, () => creation());
    await commit(ids);
    for (let count = 0; count < 20; count++) {
      const some = ids.slice(0, 1 + (count % 8)).map(({ runId }) => runId);
      expect([...(await readRuns(database.sql, EVERYTHING, some)).keys()].sort()).toEqual(some.sort());
    }
    const [lookup] = await database.sql<{ custom: number }[]>`
      select custom_plans::int as custom from pg_prepared_statements where statement like '%"own_variables"%'`;
    // Postgres plans the first five executions one by one, whatever it finds.
    expect(lookup?.custom).toBeLessThanOrEqual(5);
  });
});

interface PlanNode {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Index Name"?: string;
  readonly "Index Cond"?: string;
  readonly Plans?: readonly PlanNode[];
}

interface Prepared {
  readonly text: string;
  readonly types: readonly string[];
}

/** The statements of a session that change rows. */
async function preparedIn(sql: Database["sql"]): Promise<readonly Prepared[]> {
  const prepared = await sql<Prepared[]>`
    select statement as text, parameter_types::text[] as types from pg_prepared_statements order by prepare_time`;
  return prepared.filter(({ text }) => /\b(update|delete from|insert into) /.test(text));
}

/** The scans of a plan for this statement that read a whole index or table. */
async function walks(sql: Database["sql"], { text, types }: Prepared): Promise<readonly string[]> {
  const [declared, given] =
    types.length === 0 ? ["", ""] : [`(${types.join(", ")})`, `(${types.map(() => "null").join(", ")})`];
  await sql.unsafe(`prepare looked_at${declared} as ${text}`);
  const [explained] = await sql.unsafe<{ "QUERY PLAN": { Plan: PlanNode }[] }[]>(
    `explain (format json) execute looked_at${given}`,
  );
  await sql.unsafe("deallocate looked_at");
  return walksIn(explained?.["QUERY PLAN"][0]?.Plan).map((walk) => `${walk}: ${text}`);
}

function walksIn(node: PlanNode | undefined): readonly string[] {
  if (!node) return ["there is no plan"];
  const {
    "Node Type": type,
    "Relation Name": table,
    "Index Name": index,
    "Index Cond": condition,
    Plans: parts = [],
  } = node;
  const isWalk = /^(Seq|Index|Index Only|Bitmap Index) Scan$/.test(type) && condition === undefined;
  return [...(isWalk ? [`${type} of ${table} by ${index}`] : []), ...parts.flatMap(walksIn)];
}

describe("a view of the console", { tags: "short" }, () => {
  const PARENT = creation().runId;
  const CHILDREN = 50;
  const RUNS = 20_000;
  /** Two versions, three ends. */
  const KINDS = 6;
  const BOUNDS = { ends: 600, looked: 200, sample: 20, auditRows: 100 };
  let database: TestDatabase;

  const VIEWS: Readonly<Record<string, readonly [most: number, read: () => Promise<unknown>]>> = {
    "a run's children, counted": [2 * CHILDREN, () => countChildren(database.sql, EVERYTHING, PARENT)],
    "a run's failed children": [10 * CHILDREN, () => failedChildren()],
    // Each kind of each minute that is counted; each end since; each run that is looked through; and the starts of those that might be dry.
    "a workflow's performance": [2_500 + KINDS * 1_440, () => performance()],
    "the performance of one version": [2_500 + KINDS * 1_440, () => performance(1)],
    "the backlog": [2 * SHARDS.length + 200, () => readBacklog(database.sql, SHARDS, 100)],
  };
  const performance = (version?: number) =>
    workflowPerformance(database.sql, EVERYTHING, { workflowId: "busy", version, hours: 24 }, BOUNDS);
  const failedChildren = () =>
    listRuns(
      database.sql,
      EVERYTHING,
      { parentRunId: PARENT, parentStepId: "each", states: ["failed"] },
      { limit: 5, offset: 0 },
      false,
    );

  async function insertRuns(from: number, count: number, parent?: RunId): Promise<void> {
    await database.sql`
      with new as (
        insert into runs (id, shard, revision, fence, last_seq, state, last_event_at, terminal_at, requires_manual_review, record,
          workflow_id, version, definition_id, parent_run_id, parent_step_id, parent_branch_id, started_at)
        select gen_random_uuid(), 0, 1, 1, 1, (array['succeeded', 'failed', 'cancelled'])[1 + nth % 3], now(), at, false, '{}',
          'busy', 1 + nth % 2, gen_random_uuid(), ${parent ?? null}::uuid, 'each', nth::text, at
        from generate_series(${from}::int, ${from + count - 1}::int) nth, lateral (select now() - nth * interval '4 s' as at) ended
        returning id, started_at
      ), starts as (
        insert into run_starts (run_id, inputs, identity, request_hash) select id, '{}', '{}', '' from new
      ), woken as (
        insert into wakes (run_id, shard, due_at) select id, 0, now() - interval '1 s' from new
      )
      insert into run_events (run_id, seq, recorded_at, event_type, step_id, attempt, from_state, to_state, actor, metadata)
      select id, seq, started_at, 'step.succeeded', 'work', 1, 'running', 'running', 'coordinator', '{"duration_ms": 1}'
      from new, generate_series(1, 2) seq`;
  }

  async function rowsRead(): Promise<number> {
    await database.sql`select pg_stat_force_next_flush()`;
    const [read] = await database.sql<{ rows: number }[]>`
      select (select sum(seq_tup_read) from pg_stat_user_tables)::int8::int
        + (select sum(idx_tup_read) from pg_stat_user_indexes)::int8::int as rows`;
    return read?.rows ?? 0;
  }

  beforeAll(async () => {
    database = await createTestDatabase({ max: 1, fresh: true });
    await insertRuns(0, CHILDREN, PARENT);
    // After a few executions, Postgres keeps a generic plan: of tables that are nearly empty.
    for (const [, read] of Object.values(VIEWS)) for (let count = 0; count < 8; count++) await read();
    await insertRuns(1, RUNS);
    await countEnds(database.sql);
    await database.sql`analyze`;
  });
  afterAll(() => database.drop());

  it.each(Object.entries(VIEWS))("%s reads a bounded number of rows, however many runs there are", async (_, view) => {
    const [most, read] = view;
    for (let count = 0; count < 8; count++) await read();
    const isBounded = async () => {
      // An index leads to deleted rows, too, until a vacuum that no older session of autovacuum holds up.
      await database.sql`vacuum run_end_changes`;
      const before = await rowsRead();
      await read();
      return (await rowsRead()) - before < most;
    };
    await until(isBounded, { what: `a read of fewer than ${most} rows` });
  });
});
