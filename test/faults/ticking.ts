// Runs that never rest for long, on a node that the test chooses, so that a missing owner is seen at once. The test decides what
// happens to that node.

import type { Sql } from "postgres";
import { expect } from "vitest";
import { uuidv7 } from "../../src/ids.js";
import { ownerOf, SHARDS } from "../../src/shard/placement.js";
import { until } from "../harness/until.js";
import type { Client } from "./client.js";

/** About ten transitions a second for each run: a timer, an action, a few steps in memory. */
const TICKING = [
  { id: "count", type: "set_var", name: "n", value: "${vars.n + 1}", next: "pay" },
  {
    ...{ id: "pay", type: "action", action: "shop.charge", next: "rest" },
    retry: { max_attempts: -1, initial_backoff_ms: 50, max_backoff_ms: 500 },
  },
  { id: "rest", type: "wait_for_signal", signal_name: "stop", timeout_ms: 150, on_timeout: "count", next: "done" },
  { id: "done", type: "end", output: "${vars.n}" },
];

/** Starts `count` runs on shards of the node; resolves when all of them tick. */
export async function startTicking(sql: Sql, client: Client, nodeId: string, count: number): Promise<string[]> {
  await client.publish("ticking", TICKING);
  const alive = (await sql<{ node_id: string }[]>`select node_id from nodes`).map((row) => row.node_id);
  const owned = SHARDS.filter((shard) => ownerOf(shard, alive) === nodeId);
  const runIds = Array.from({ length: count }, (_, nth) => uuidv7(owned[nth % owned.length]));
  for (const run_id of runIds) await client.start("ticking", { run_id, variables: { n: 0 } });
  const ticking = async () => (await advancedSince(sql, runIds, new Date(0), 10)) === count;
  await until(ticking, { what: "runs that tick" });
  return runIds;
}

export async function databaseTime(sql: Sql): Promise<Date> {
  const [row] = await sql<{ now: Date }[]>`select clock_timestamp() as now`;
  return row?.now ?? new Date();
}

/** Milliseconds from `since` until the first event of each run after it: the median, and the slowest. */
export async function untilAllAdvance(sql: Sql, runIds: readonly string[], since: Date, within = 60_000) {
  const all = async () => (await advancedSince(sql, runIds, since)) === runIds.length;
  await until(all, { within, what: "an advance of every run" });
  const rows = await sql<{ first: Date }[]>`
    select min(recorded_at) as first from run_events
    where run_id = any(${[...runIds]}::text[]::uuid[]) and recorded_at > ${since} group by run_id`;
  const times = rows.map(({ first }) => first.getTime() - since.getTime()).sort((one, other) => one - other);
  return { medianMs: times[Math.floor(times.length / 2)] ?? 0, slowestMs: times.at(-1) ?? 0 };
}

async function advancedSince(sql: Sql, runIds: readonly string[], since: Date, lastSeq = 0): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from runs
    where id = any(${[...runIds]}::text[]::uuid[]) and last_event_at > ${since} and last_seq > ${lastSeq}`;
  return row?.count ?? 0;
}

/** Ends the runs by a signal, and checks their histories. A cancel would wait for the deadline of what a dead node dispatched. */
export async function endTicking(client: Client, runIds: readonly string[]): Promise<void> {
  for (const runId of runIds)
    await client.insist("POST", `/sagas/${runId}/signal/stop`, { idempotency_key: runId, payload: {} });
  for (const { run } of await client.allEnd(runIds)) expect(run).toMatchObject({ id: run.id, state: "succeeded" });
}
