// Shares of a commit with defaults: a test states only the members that matter to it.

import type { Sql } from "postgres";
import { afterAll, beforeAll, expect } from "vitest";
import type { RunId } from "../../machines/index.js";
import { shardOf, uuidv7 } from "../../src/ids.js";
import type { EventRow, NewRunRow, RunCommit, RunRow } from "../../src/store/commit/rows.js";
import { commitRuns } from "../../src/store/commit/statement.js";
import { asRevision } from "../../src/store/revision.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { newRunId } from "../harness/ids.js";

/** The token beside every revision, unless a test chooses another one. */
const FENCE = "7";
export const AT = Date.UTC(2026, 10, 21);
const DEFINITION = "0190a000-0000-7000-8000-0000000000aa";

export function event(seq: number, more: Partial<EventRow> = {}): EventRow {
  return { seq, at: AT + seq, type: "log", attempt: 0, from: "running", to: "running", actor: "coordinator", ...more };
}

export function creation(more: Partial<RunCommit> = {}, row: Partial<NewRunRow> = {}): RunCommit {
  const runId = more.runId ?? newRunId();
  const create: NewRunRow = {
    ...{ fence: FENCE, record: '{"v":1}', workflowId: "orders", version: 1, definitionId: DEFINITION, startedAt: AT },
    ...{ inputs: '{"n":1}', identity: "{}", requestHash: "hash" },
    ...row,
  };
  return { runId, shard: shardOf(runId), create, events: [event(1, { type: "saga.started" })], wake: AT, ...more };
}

export function row(more: Partial<RunRow> = {}): RunRow {
  return { fence: FENCE, state: "running", lastSeq: 2, lastEventAt: AT + 2, review: false, record: '{"v":1}', ...more };
}

/** Takes the run from `expected` to the next revision. */
export function update(runId: RunId, expected: number, more: Partial<RunCommit> = {}): RunCommit {
  return {
    runId,
    shard: shardOf(runId),
    expected: asRevision(expected),
    expectedFence: FENCE,
    update: row(),
    events: [],
    ...more,
  };
}

/** Leaves the run as it is, if it is at `expected`. */
export function confirmation(runId: RunId, expected: number, more: Partial<RunCommit> = {}): RunCommit {
  return { runId, shard: shardOf(runId), expected: asRevision(expected), expectedFence: FENCE, events: [], ...more };
}

/** A share with rows for every table. */
export function withEverything(runId: RunId): Partial<RunCommit> {
  const id = uuidv7();
  return {
    commands: [{ id, answer: '{"type":"advanced"}', keep: false, at: AT }],
    events: [event(2)],
    variables: new Map([["x", "1"]]),
    wake: AT + 5_000,
    signals: [{ id: uuidv7(), name: "go", payload: "{}", at: AT, consumed: false }],
    outbox: [{ id: uuidv7(), kind: "action", dueAt: AT }],
    outgoingEvents: [{ id: uuidv7(), runId, topic: "saga.run.started", payload: "{}" }],
    inbox: [{ id: uuidv7(), to: runId, shard: shardOf(runId), command: '{"type":"advance"}', dueAt: AT }],
    tasksOpened: [{ id: uuidv7(), stepId: "s", assignee: "ann", at: AT }],
    tickets: [
      {
        ...{ entry: 1, stepId: "s", tenantId: DEFINITION, scope: "action:shop.pay", key: runId },
        ...{ limit: 1, onLimit: "queue", admitted: false },
      },
    ],
    undoOwed: [{ stepId: "s", entry: 1, action: "shop.refund@1", inputs: "{}", forwardKey: "k" }],
  };
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
  const commit = (...group: RunCommit[]) => commitRuns(database.sql, group);
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
    async created(more: Partial<RunCommit> = {}): Promise<RunId> {
      const share = creation(more);
      expect(await commit(share)).toEqual(new Set([share.runId]));
      return share.runId;
    },
  };
}
