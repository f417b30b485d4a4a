// Shares of a commit with defaults: a test states only the members that matter to it.

import type { Sql } from "postgres";
import { afterAll, beforeAll, expect } from "vitest";
import type { JsonObject, Relation, Row, Rows, RunCommit, RunId } from "../../machines/index.js";
import { shardOf, uuidv7 } from "../../src/ids.js";
import { encodeRun } from "../../src/store/engine/commit/encoding.js";
import { PlainStatements } from "../../src/store/engine/commit/plain.js";
import { commitRuns } from "../../src/store/engine/commit/statement.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { newRunId } from "../harness/ids.js";

/** The token beside every revision, unless a test chooses another one. */
const FENCE = "7";
export const AT = Date.UTC(2026, 10, 21);
const DEFINITION = "0190a000-0000-7000-8000-0000000000aa";

/** Rows as a test states them: the run's id, and columns that are null, are added. */
export type Share = { readonly [Of in Relation]?: readonly Partial<Row<Of>>[] };
type Started = Share & { readonly runId?: RunId };

export function event(seq: number, more: Partial<Row<"audit_event">> = {}): Partial<Row<"audit_event">> {
  const states = { from_state: "running", to_state: "running" };
  return { seq, recorded_at: AT + seq, event_type: "log", attempt: 0, ...states, actor: "coordinator", ...more };
}

/** The wake row of a run, due then. */
export const wake = (runId: RunId, due_at: number) => ({ wake: [{ run_id: runId, shard: shardOf(runId), due_at }] });
export const NO_WAKE: Share = { wake_gone: [{}] };

export const variables = (values: JsonObject): Share => ({
  variable: Object.entries(values).map(([name, value]) => ({ name, value })),
});

function ownedBy(runId: RunId, share: Share): Rows {
  const owned = Object.entries(share).map(([relation, rows]) => {
    const own = relation === "inbox_row" || relation === "outgoing_event" ? { from_run: runId } : { run_id: runId };
    return [relation, rows.map((row) => ({ shard: shardOf(runId), owner: runId, ...own, ...row }))];
  });
  return Object.fromEntries(owned);
}

export function newRunRow(runId: RunId, row: Partial<Row<"new_run">> = {}): Row<"new_run"> {
  return {
    ...{ id: runId, shard: shardOf(runId), fence: FENCE, record: { v: 1 }, workflow_id: "orders", version: 1 },
    ...{ definition_id: DEFINITION, started_at: AT, state: "pending", last_seq: 1, last_event_at: AT, review: false },
    ...{ inputs: { n: 1 }, identity: {}, request_hash: "hash" },
    ...row,
  } as Row<"new_run">;
}

export function creation({ runId = newRunId(), ...share }: Started = {}, row: Partial<Row<"new_run">> = {}): RunCommit {
  const start = { audit_event: [event(1, { event_type: "saga.started" })], ...wake(runId, AT), ...share };
  return { runId, rows: { new_run: [newRunRow(runId, row)], ...ownedBy(runId, start) } };
}

/** Takes the run from `expected` to the next revision. */
export function update(
  runId: RunId,
  expected: number,
  share: Share = {},
  row: Partial<Row<"run_update">> = {},
): RunCommit {
  const update = {
    ...{
      id: runId,
      expected,
      expected_fence: FENCE,
      fence: FENCE,
      state: "running",
      last_seq: 2,
      last_event_at: AT + 2,
    },
    ...{ review: false, record: { v: 1 }, set_call: false, set_frames: false, set_items: false },
    ...row,
  } as Row<"run_update">;
  return { runId, rows: { run_update: [update], ...ownedBy(runId, share) } };
}

/** Leaves the run as it is, if it is at `expected`. */
export function confirmation(
  runId: RunId,
  expected: number,
  share: Share = {},
  fence = FENCE,
  within?: string,
): RunCommit {
  const confirm = [{ id: runId, expected, expected_fence: fence, within }];
  return { runId, rows: { confirm, ...ownedBy(runId, share) } };
}

export const command = (id = uuidv7(), keep = false): Row<"command"> =>
  ({ command_id: id, answer: { type: "advanced" }, keep, at: AT }) as Row<"command">;
export const signal = (id: string = uuidv7(), more: Partial<Row<"signal">> = {}): Partial<Row<"signal">> => ({
  ...{ id, name: "go", payload: {}, at: AT, consumed: false },
  ...more,
});

/** A share with rows for every table. */
export function withEverything(runId: RunId) {
  return {
    command: [command()],
    audit_event: [event(2)],
    ...variables({ x: 1 }),
    ...wake(runId, AT + 5_000),
    signal: [signal()],
    outbox_row: [{ id: uuidv7(), kind: "action", due_at: AT }],
    outgoing_event: [{ id: uuidv7(), run_id: runId, topic: "saga.run.started", payload: {} }],
    inbox_row: [{ id: uuidv7(), run_id: runId, command: { type: "advance" }, due_at: AT }],
    opened_task: [{ id: uuidv7(), step_id: "s", assignee: "ann", at: AT }],
    ticket: [
      {
        ...{ entry: 1, step_id: "s", tenant_id: DEFINITION, scope: "action:shop.pay", key: runId },
        ...{ slot_limit: 1, on_limit: "queue", admitted: false },
      },
    ],
    turn: [
      {
        ...{ entry: 1, step_id: "s", tenant_id: DEFINITION, scope: "action:shop.pay", key: runId },
        ...{ rate_limit: 1, per_ms: "1000", burst: 1, admitted: false },
      },
    ],
    undo_entry: [{ step_id: "s", entry: 1, action: "shop.refund@1", inputs: {}, forward_key: "k", state: "owed" }],
  } satisfies Share;
}

const TABLES = {
  run_commands: "run_id",
  run_events: "run_id",
  run_variables: "run_id",
  wakes: "run_id",
  signals: "run_id",
  outbox: "run_id",
  outgoing_events: "run_id",
  inbox: "run_id",
  undo: "owner_run_id",
  concurrency_tickets: "run_id",
  rate_tickets: "run_id",
  user_tasks: "run_id",
  run_starts: "run_id",
  start_keys: "run_id",
  runs: "id",
} as const;

/** All rows of a run, in every table: equal before and after if nothing was written. */
export async function rowsOf(sql: Sql, runId: string): Promise<Record<keyof typeof TABLES, Record<string, unknown>[]>> {
  const found = Object.entries(TABLES).map(async ([table, column]) => {
    const rows = await sql<Record<string, unknown>[]>`
      select t.* from ${sql(table)} t where ${sql(column)} = ${runId} order by t::text`;
    return [table, [...rows]] as const;
  });
  return Object.fromEntries(await Promise.all(found)) as Record<keyof typeof TABLES, Record<string, unknown>[]>;
}

/** A database of the test file's own, with commits into it and reads of a run's rows. */
export function openCommitStore() {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database.drop());
  const statements = new PlainStatements();
  const commit = (...group: RunCommit[]) =>
    commitRuns(
      database.sql,
      group.map((commit) => encodeRun(commit)),
      statements,
    );
  return {
    get sql() {
      return database.sql;
    },
    get url() {
      return database.url;
    },
    session: () => database.session(),
    commit,
    rows: (runId: string) => rowsOf(database.sql, runId),
    /** A run at revision 1. */
    async created(more: Started = {}): Promise<RunId> {
      const share = creation(more);
      expect(await commit(share)).toEqual(new Set([share.runId]));
      return share.runId;
    },
  };
}
