// The group commit against a bare multi-row commit, in turns on the same database without a service: one 1 KB row update and three audit
// rows a run, groups of 200, two statements in flight. The ratio is the cost of the fences and of the other tables.
import postgres, { type Sql } from "postgres";
import type { Row, RunId } from "../../machines/index.js";
import { newRunId } from "../../src/ids.js";
import { encodeRun } from "../../src/store/engine/commit/encoding.js";
import { PlainStatements } from "../../src/store/engine/commit/plain.js";
import { commitRuns } from "../../src/store/engine/commit/statement.js";
import type { Stage } from "../stage.js";
import type { Scenario } from "./scenario.js";

const GROUP = 200;
const GROUPS = 10;
const LANES = 2;
const PAIRS = 5;
const RECORD = { v: 1, filler: "x".repeat(1_000) };
const RECORD_TEXT = JSON.stringify(RECORD);

type Write = (sql: Sql, ids: readonly RunId[], revision: number) => Promise<void>;

const commit: Scenario = {
  ...{ name: "commit", title: "The group commit beside a bare commit", unit: "run commits", count: 300_000 },
  ...{ concurrency: LANES, kind: "work", ownOnly: "it writes to the tables itself" },
  async play(stage) {
    await stage.place.stopService();
    const sql = postgres(stage.place.databaseUrl, { max: LANES, onnotice: () => {} });
    await compare(stage, sql).finally(() => sql.end());
    stage.note("the processor time and the writes are those of both kinds of commit");
  },
};

export const COMMIT = [commit];

/** The throughput is that of the group commit. */
async function compare(stage: Stage, sql: Sql): Promise<void> {
  const groups = Array.from({ length: GROUPS }, () => Array.from({ length: GROUP }, () => newRunId()));
  await sql.unsafe(BARE_TABLES);
  for (const ids of groups) await createRuns(sql, ids);
  const rounds = Math.max(1, Math.round(stage.size.count / (GROUP * GROUPS * PAIRS)));
  const each = GROUP * GROUPS * rounds;
  const ratios: number[] = [];
  await stage.measured(async () => {
    let seconds = 0;
    for (let pair = 0; pair < PAIRS; pair++) {
      const full = await timed(stage, "group commit", { sql, groups, rounds, pair }, writeFull);
      const bare = await timed(stage, "bare commit", { sql, groups, rounds, pair }, writeBare);
      ratios.push(bare / full);
      seconds += full;
    }
    return { count: each * PAIRS, seconds };
  });
  ratios.sort((left, right) => left - right);
  stage.figure("group commits beside bare ones, median of the pairs", ratios[Math.floor(PAIRS / 2)] ?? 0, "×");
}

interface Pair {
  readonly sql: Sql;
  readonly groups: readonly RunId[][];
  readonly rounds: number;
  readonly pair: number;
}

/** The seconds of all rounds, with `LANES` statements in flight and each run in one group at a time. */
async function timed(stage: Stage, of: string, { sql, groups, rounds, pair }: Pair, write: Write): Promise<number> {
  const since = performance.now();
  const one = async (ids: readonly RunId[], revision: number) => {
    const begun = performance.now();
    await write(sql, ids, revision);
    stage.record(of, performance.now() - begun);
  };
  const lane = async (_: unknown, nth: number) => {
    for (let round = 0; round < rounds; round++)
      for (let index = nth; index < groups.length; index += LANES)
        await one(groups[index] ?? [], pair * rounds + round + 1);
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  return (performance.now() - since) / 1_000;
}

/** Of all sessions of this scenario. */
const STATEMENTS = new PlainStatements();

const BARE_TABLES = `
  create table bare_runs (id uuid primary key, revision int not null, record text not null) with (fillfactor = 70);
  create table bare_events (run_id uuid, seq int, at timestamptz, type text, metadata text, primary key (run_id, seq));`;

async function createRuns(sql: Sql, ids: readonly RunId[]): Promise<void> {
  const started = Date.now();
  await commitRuns(
    sql,
    ids.map((id) => {
      const identity = { id, shard: 0, workflow_id: "bench", version: 1, definition_id: id, started_at: started };
      const about = {
        state: "pending",
        last_seq: 1,
        last_event_at: started,
        review: false,
        fence: "1",
        inputs: {},
        identity: {},
      };
      const row = { ...identity, ...about, record: RECORD, request_hash: "" } as unknown as Row<"new_run">;
      return encodeRun({ runId: id, rows: { new_run: [row] } });
    }),
    STATEMENTS,
  );
}

async function writeBare(sql: Sql, ids: readonly RunId[], revision: number): Promise<void> {
  const events = ids.flatMap((id) => [1, 2, 3].map((nth) => [id, revision * 3 + nth] as const));
  await sql.unsafe(
    `with updated as (update bare_runs r set revision = r.revision + 1, record = i.record
       from unnest($1::text::uuid[], $2::text::text[]) as i(id, record) where r.id = i.id)
     insert into bare_events select * from unnest($3::text::uuid[], $4::text::int[], $5::text::timestamptz[], $6::text::text[], $7::text::text[])`,
    [
      literal(ids),
      literal(ids.map(() => RECORD_TEXT)),
      literal(events.map(([id]) => id)),
      literal(events.map(([, seq]) => String(seq))),
      literal(events.map(() => new Date().toISOString())),
      literal(events.map(() => "step.succeeded")),
      literal(events.map(() => '{"duration_ms":1}')),
    ],
    { prepare: true },
  );
}

function literal(cells: readonly string[]): string {
  return `{${cells.map((cell) => `"${cell.replaceAll(/["\\]/g, "\\$&")}"`).join(",")}}`;
}

async function writeFull(sql: Sql, ids: readonly RunId[], revision: number): Promise<void> {
  const at = Date.now();
  const won = await commitRuns(
    sql,
    ids.map((id) =>
      encodeRun({
        runId: id,
        rows: { run_update: [updateOf(id, revision, at)], audit_event: eventsOf(id, revision, at) },
      }),
    ),
    STATEMENTS,
  );
  if (won.size !== ids.length)
    throw new Error(`${ids.length - won.size} runs lost their compare-and-set at revision ${revision}`);
}

function updateOf(id: RunId, revision: number, at: number): Row<"run_update"> {
  return {
    ...{ id, expected: revision, fence: String(revision + 1), state: "running", step: "s", last_seq: revision * 3 },
    ...{
      expected_fence: String(revision),
      within: undefined,
      last_event_at: at,
      review: false,
      record: RECORD,
    },
    ...{ terminal_at: undefined, awaited_signal: undefined, paused_reason: undefined },
    ...{ set_call: false, call: undefined, set_frames: false, frames: undefined, set_items: false, items: undefined },
    ...{ output: undefined, version: undefined, definition_id: undefined },
  };
}

function eventsOf(id: RunId, revision: number, at: number): Row<"audit_event">[] {
  return [1, 2, 3].map((nth) => ({
    ...{ run_id: id, seq: revision * 3 + nth, recorded_at: at, event_type: "step.succeeded", step_id: "s", attempt: 0 },
    ...{ from_state: "running", to_state: "running", actor: "coordinator", metadata: { duration_ms: 1 } },
    command_id: undefined,
  }));
}
