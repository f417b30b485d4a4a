// The filters of the list of runs: each finds what a plain comparison finds, and its first page reads no more rows when there are more runs.

import type postgres from "postgres";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { asRunId, RUN_STATES, type RunState } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import type { RunFilter } from "../../src/store/lists/matching-runs.js";
import { listRuns } from "../../src/store/lists/runs.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";

let database: TestDatabase;
beforeAll(async () => {
  // One session: a statement that was prepared stays prepared.
  database = await createTestDatabase({ max: 1, fresh: true });
  await database.sql`
    insert into definitions (definition_id, workflow_id, version, name, published, ever_published, document)
    select gen_random_uuid(), workflow, version, workflow, true, true, '{}'
    from unnest(array['rare', 'common']) workflow, generate_series(1, 2) version`;
  // The oldest: the list begins at its other end.
  await insert("rare", 0, 60);
  await insert("common", 60, 500);
});
afterAll(() => database.drop());

const RARE_ID = "0a000000-0000-4000-8000-000000000000";
const COMMON_ID = "0c000000-0000-4000-8000-000000000000";
/** An index would not take it whole. */
const LONG_CODE = "declined-".repeat(1_000);
/** Runs of one second each, from `from` on. The rare ones differ from the common ones in everything that is a filter. */
async function insert(kind: "rare" | "common", from: number, count: number): Promise<void> {
  const rare = kind === "rare";
  await database.sql.unsafe(
    `with new as (
       insert into runs (id, shard, revision, fence, last_seq, state, current_step, last_event_at, terminal_at, requires_manual_review,
         awaited_signal, paused_reason, record, workflow_id, version, definition_id, tenant_id, trigger_id, business_key, parent_run_id, started_at)
       select (left('${rare ? "0a" : "0c"}', 2) || substr(md5(nth::text), 3))::uuid, 0, 1, 1, 1, state, ${rare ? "'rare'" : "'common'"}, now(),
         case when state in ('succeeded', 'failed', 'cancelled') then now() end, ${rare},
         case when state = 'paused' then 'go' end,
         case when state = 'paused' then (array['signal', 'incident', 'quarantine', 'operator'])[1 + nth / 6 % 4] end,
         '${rare ? `{"wait":{"error":{"code":"${LONG_CODE}"}},"ending":{"error":{"code":"${LONG_CODE}"}}}` : "{}"}', '${kind}', ${rare ? 1 : 2}, gen_random_uuid(), $1::text::uuid, $1::text::uuid,
         '${kind}-' || nth, ${rare ? "null" : "$1::text::uuid"}, timestamptz '2026-01-01' + nth * interval '1 s'
       from (select nth, ${rare ? "(array['pending','running','paused','compensating','failed','cancelled'])[1 + nth % 6]" : "'succeeded'"} as state
         from generate_series(${from}, ${from + count - 1}) nth) shaped
       returning id
     ), targets as (
       insert into bulk_targets (bulk_id, nth, run_id, state)
       select $1::text::uuid, ${from} + row_number() over (), id, case when id::text ~ '[0-7]$' then 'done' else 'refused' end from new)
     insert into run_labels (run_id, name, value) select id, 'kind', '${kind}' from new`,
    [rare ? RARE_ID : COMMON_ID],
  );
}

const RARE: Readonly<Record<string, RunFilter>> = {
  workflow_id: { workflowId: "rare" },
  version: { version: 1 },
  "workflow_id and version": { workflowId: "common", version: 1 },
  ...Object.fromEntries(
    RUN_STATES.filter((state) => state !== "succeeded").map((state) => [`state ${state}`, { states: [state] }]),
  ),
  "several states": { states: ["paused", "failed", "cancelled"] },
  tenant_id: { tenantId: RARE_ID },
  trigger_id: { triggerId: RARE_ID },
  parent_run_id: { parentRunId: asRunId(RARE_ID) },
  root_only: { rootOnly: true },
  business_key: { businessKey: "rare-7" },
  requires_manual_review: { requiresManualReview: true },
  awaited_signal: { awaitedSignal: "go" },
  "another awaited_signal": { awaitedSignal: "stop" },
  current_step: { currentStep: "rare" },
  "paused_reason, of a wait": { pausedReasons: ["signal"] },
  "paused_reason, of an exception": { pausedReasons: ["operator"] },
  "several of paused_reason": { pausedReasons: ["signal", "incident", "quarantine", "concurrency"] },
  incident: { incident: true },
  error_code: { errorCode: LONG_CODE },
  "another error_code": { errorCode: "none" },
  bulk_id: { bulkId: RARE_ID },
  started_before: { startedBefore: "2026-01-01T00:00:20.000Z" },
  label: { labels: { kind: "rare" } },
  "q, of a key": { q: "rare" },
  "q, of an id": { q: "0a" },
};

describe("a filter", () => {
  const states: readonly (readonly RunState[])[] = [
    ...RUN_STATES.map((state) => [state]),
    ["failed", "running"],
    RUN_STATES,
  ];
  const filters: readonly RunFilter[] = [
    ...Object.values(RARE),
    ...states.flatMap((some) => [
      { states: some },
      { states: some, currentStep: "rare" },
      { states: some, workflowId: "rare" },
    ]),
    { version: 1, states: ["failed", "paused"] },
    { version: 2, labels: { kind: "common" }, q: "common-1" },
    { states: ["paused"], awaitedSignal: "go", tenantId: RARE_ID },
    { requiresManualReview: false, q: "0C" },
    { incident: false, workflowId: "rare" },
    { incident: true, pausedReasons: ["signal", "incident"] },
    { incident: true, pausedReasons: ["signal"] },
    { pausedReasons: ["signal", "incident"], currentStep: "rare", tenantId: RARE_ID },
    { pausedReasons: ["operator"], awaitedSignal: "stop" },
    { incident: true, errorCode: LONG_CODE },
    { incident: false, errorCode: LONG_CODE },
    { pausedReasons: ["signal", "incident"], errorCode: LONG_CODE, workflowId: "rare" },
    { pausedReasons: ["signal"], errorCode: LONG_CODE },
    { errorCode: LONG_CODE, states: ["paused", "cancelled"] },
    { errorCode: LONG_CODE, states: ["failed"], currentStep: "rare" },
    { errorCode: LONG_CODE, states: ["running"] },
    { bulkId: COMMON_ID },
    { bulkId: RARE_ID, states: ["paused"], labels: { kind: "rare" } },
    { bulkId: COMMON_ID, q: "common-11" },
    { q: "common-11", businessKey: "common-118" },
    { labels: { kind: "rare", other: "x" } },
    { labels: { kind: "rare" }, q: "0" },
    { labels: { kind: "rare" }, q: "rare-1" },
  ];
  /** The filter, said as plainly as can be. */
  function plainly(rows: readonly postgres.Row[], filter: RunFilter): readonly string[] {
    const {
      states: some,
      labels = {},
      q,
      rootOnly,
      startedBefore,
      pausedReasons,
      incident,
      errorCode,
      bulkId,
    } = filter;
    const equal: readonly (readonly [unknown, string])[] = [
      [filter.workflowId, "workflow_id"],
      [filter.version, "version"],
      [filter.tenantId, "tenant_id"],
      [filter.triggerId, "trigger_id"],
      [filter.parentRunId, "parent_run_id"],
      [filter.businessKey, "business_key"],
      [filter.requiresManualReview, "requires_manual_review"],
      [filter.awaitedSignal, "awaited_signal"],
      [filter.currentStep, "current_step"],
    ];
    const matches = (row: postgres.Row) =>
      equal.every(([given, column]) => given === undefined || given === row[column]) &&
      (some?.includes(row.state) ?? true) &&
      (pausedReasons?.includes(row.paused_reason) ?? true) &&
      (incident === undefined || incident === (row.paused_reason === "incident")) &&
      (errorCode === undefined ||
        ((["failed", "cancelled"].includes(row.state) || row.paused_reason === "incident") &&
          errorCode === LONG_CODE)) &&
      (bulkId === undefined || (bulkId.slice(0, 2) === row.id.slice(0, 2) && /[0-7]$/.test(row.id))) &&
      (!rootOnly || row.parent_run_id === null) &&
      Object.entries(labels).every(([name, value]) => name === "kind" && value === row.label) &&
      (startedBefore === undefined || row.started_at < new Date(startedBefore)) &&
      (q === undefined || row.id.startsWith(q.toLowerCase()) || row.business_key?.startsWith(q));
    return rows.filter(matches).map(({ id }) => id);
  }
  async function listed(filter: RunFilter): Promise<readonly unknown[]> {
    const first = await listRuns(database.sql, EVERYTHING, filter, { limit: 20, offset: 0 }, true);
    const rest = await listRuns(
      database.sql,
      EVERYTHING,
      filter,
      { limit: 20, offset: 0, cursor: first.next_cursor },
      true,
    );
    const ids = first.next_cursor === undefined ? first.items : [...first.items, ...rest.items];
    const skipped = await listRuns(database.sql, EVERYTHING, filter, { limit: 3, offset: 7 }, true);
    return [ids.map(({ id }) => id), skipped.items.map(({ id }) => id), first.total];
  }
  const check = async (filters: readonly RunFilter[]) => {
    const rows = await database.sql`
      select id, workflow_id, version, tenant_id, trigger_id, parent_run_id, business_key, requires_manual_review, awaited_signal,
        current_step, state, paused_reason, started_at, l.value as label
      from runs r left join run_labels l on l.run_id = r.id order by started_at desc, id desc`;
    for (const filter of filters) {
      const ids = plainly(rows, filter);
      expect([filter, ...(await listed(filter))]).toEqual([filter, ids.slice(0, 40), ids.slice(7, 10), ids.length]);
    }
  };

  it("finds what a plain comparison finds", () => check(filters));
});

describe("the first page of a list by", { tags: "long" }, () => {
  async function rowsRead(): Promise<number> {
    await database.sql`select pg_stat_force_next_flush()`;
    const [read] = await database.sql<{ rows: number }[]>`
      select (select sum(seq_tup_read) from pg_stat_user_tables where relname ~ '^run')::int8::int
        + (select sum(idx_tup_read) from pg_stat_user_indexes where relname ~ '^run')::int8::int as rows`;
    return read?.rows ?? 0;
  }
  async function readOf(filter: RunFilter): Promise<number> {
    // After a few executions, Postgres keeps a generic plan.
    for (let count = 0; count < 7; count++)
      await listRuns(database.sql, EVERYTHING, filter, { limit: 5, offset: 0 }, true);
    const before = await rowsRead();
    await listRuns(database.sql, EVERYTHING, filter, { limit: 5, offset: 0 }, true);
    return (await rowsRead()) - before;
  }

  const early = new Map<string, number>();
  beforeAll(async () => {
    for (const [name, filter] of Object.entries(RARE)) early.set(name, await readOf(filter));
    await insert("common", 560, 10_000);
    await database.sql`analyze`;
  });

  it.each(Object.entries(RARE))(
    "%s reads as few rows as before, when there are twenty times as many runs",
    async (name, filter) => {
      expect(await readOf(filter)).toBeLessThan((early.get(name) ?? 0) + 100);
    },
  );

  it("a label that most runs have reads a part of them", async () => {
    const filter = { labels: { kind: "common" } };
    const { items, total } = await listRuns(database.sql, EVERYTHING, filter, { limit: 5, offset: 0 }, true);
    expect([items.length, total]).toEqual([5, 10_000]);
    // Twice, once to choose the way and once for the total.
    expect(await readOf(filter)).toBeLessThan(2 * 10_500);
  });
});
