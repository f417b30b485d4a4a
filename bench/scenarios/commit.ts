// The group commit against a bare multi-row commit, in turns on the same database without a service: one 1 KB row update and three audit
// rows a run, groups of 200, two statements in flight. The ratio is the cost of the fences and of the other tables.
import postgres, { type Sql } from "postgres";
import type { RunId } from "../../machines/index.js";
import { asShardId, newRunId } from "../../src/ids.js";
import type { RunCommit } from "../../src/store/commit/rows.js";
import { commitRuns } from "../../src/store/commit/statement.js";
import { asRevision } from "../../src/store/revision.js";
import type { Stage } from "../stage.js";
import type { Scenario } from "./scenario.js";

const GROUP = 200;
const GROUPS = 10;
const LANES = 2;
const PAIRS = 5;
const RECORD = JSON.stringify({ v: 1, filler: "x".repeat(1_000) });

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

const BARE_TABLES = `
  create table bare_runs (id uuid primary key, revision int not null, record text not null) with (fillfactor = 70);
  create table bare_events (run_id uuid, seq int, at timestamptz, type text, metadata text, primary key (run_id, seq));`;

async function createRuns(sql: Sql, ids: readonly RunId[]): Promise<void> {
  await sql`insert into bare_runs select unnest(${[...ids]}::uuid[]), 1, ${RECORD}`;
  const started = Date.now();
  await commitRuns(
    sql,
    ids.map((runId) => ({
      runId,
      shard: asShardId(0),
      create: {
        fence: "0",
        record: RECORD,
        workflowId: "bench",
        version: 1,
        definitionId: runId,
        startedAt: started,
        inputs: "{}",
        identity: "{}",
        requestHash: "",
      },
      events: [],
    })),
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
      literal(ids.map(() => RECORD)),
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
    ids.map(
      (runId): RunCommit => ({
        runId,
        shard: asShardId(0),
        expected: asRevision(revision),
        // A new row has no fence.
        ...(revision > 1 && { expectedFence: String(revision) }),
        update: {
          fence: String(revision + 1),
          state: "running",
          step: "s",
          lastSeq: revision * 3,
          lastEventAt: at,
          review: false,
          record: RECORD,
        },
        events: [1, 2, 3].map((nth) => ({
          seq: revision * 3 + nth,
          at,
          type: "step.succeeded",
          stepId: "s",
          attempt: 0,
          from: "running",
          to: "running",
          actor: "coordinator",
          metadata: '{"duration_ms":1}',
        })),
      }),
    ),
  );
  if (won.size !== ids.length)
    throw new Error(`${ids.length - won.size} runs lost their compare-and-set at revision ${revision}`);
}
