// The group commit against a bare multi-row commit, in the same run on the same database: one 1 KB row update and three audit
// rows a run, groups of 200, two statements in flight. The ratio is the cost of the fences and of the other tables.

import postgres, { type Sql } from "postgres";
import type { RunId } from "../machines/index.js";
import { asShardId, newRunId } from "../src/ids.js";
import { createLogger } from "../src/log.js";
import type { RunCommit } from "../src/store/commit/rows.js";
import { commitRuns } from "../src/store/commit/statement.js";
import { migrateDatabase } from "../src/store/migrate.js";
import { asRevision } from "../src/store/revision.js";
import { freshDatabase } from "./service.js";

const GROUP = 200;
const GROUPS = 10;
const ROUNDS = Number(process.env.ROUNDS ?? 30);
const LANES = 2;
const RECORD = JSON.stringify({ v: 1, filler: "x".repeat(1_000) });

async function main(): Promise<void> {
  const database = await freshDatabase();
  const log = createLogger({ logLevel: "warn" });
  await migrateDatabase(database.url, log);
  const sql = postgres(database.url, { max: LANES, onnotice: () => {} });
  await sql.unsafe(`
    create table bare_runs (id uuid primary key, revision int not null, record text not null) with (fillfactor = 70);
    create table bare_events (run_id uuid, seq int, at timestamptz, type text, metadata text, primary key (run_id, seq));`);
  const groups = Array.from({ length: GROUPS }, () => Array.from({ length: GROUP }, () => newRunId()));
  for (const ids of groups) await createRuns(sql, ids);
  const ratios: number[] = [];
  for (let pair = 0; pair < 5; pair++) {
    const bare = await timed(sql, groups, pair, writeBare);
    const full = await timed(sql, groups, pair, writeFull);
    ratios.push(full / bare);
    console.log(
      `bare ${Math.round(bare)} runs/s, group commit ${Math.round(full)} runs/s, ratio ${(full / bare).toFixed(2)}`,
    );
  }
  ratios.sort((left, right) => left - right);
  console.log(`median ratio ${ratios[2]?.toFixed(2)} (the target is at least 0.50)`);
  await sql.end();
  await database.drop();
}

/** Runs per second, with `LANES` statements in flight and each run in one group at a time. */
async function timed(sql: Sql, groups: readonly RunId[][], pair: number, write: typeof writeBare): Promise<number> {
  const since = performance.now();
  const lanes = Array.from({ length: LANES }, async (_, lane) => {
    for (let round = 0; round < ROUNDS; round++)
      for (let index = lane; index < groups.length; index += LANES)
        await write(sql, groups[index] ?? [], pair * ROUNDS + round + 1);
  });
  await Promise.all(lanes);
  return (GROUP * GROUPS * ROUNDS * 1000) / (performance.now() - since);
}

async function createRuns(sql: Sql, ids: readonly RunId[]): Promise<void> {
  await sql`insert into bare_runs select unnest(${[...ids]}::uuid[]), 1, ${RECORD}`;
  const started = Date.now();
  await commitRuns(
    sql,
    ids.map((runId) => ({
      runId,
      shard: asShardId(0),
      create: {
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
        expectedFence: String(revision),
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

await main();
