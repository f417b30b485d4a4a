// Parked runs: the memory of a hundred thousand waiting runs, and the time to park them, to restart with half of them overdue, and
// to resume them all. Half wait for a signal, half for a time that passes while the service is down.
import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import type { Sql } from "postgres";
import {
  type BenchDatabase,
  type BenchService,
  ended,
  freshDatabase,
  load,
  perSecond,
  post,
  startService,
} from "./service.js";

const COUNT = Number(process.env.COUNT ?? 100_000);
const AT_ONCE = 64;
const HALF = Math.floor(COUNT / 2);

const waits = {
  parked_signal: { id: "wait", type: "wait_for_signal", signal_name: "go" },
  parked_timer: { id: "wait", type: "wait_until", until: "${inputs.until}" },
};
type Workflow = keyof typeof waits;

async function main(): Promise<void> {
  const database = await freshDatabase();
  let service = await startService(database.url, { LOG_LEVEL: "info" });
  for (const [id, step] of Object.entries(waits))
    await post(`${service.base}/api/v1/workflows`, { id, name: id, start: "wait", published: true, steps: [step] });
  await say("an idle node", service);

  const ids: string[] = [];
  const signals = await timed(() => park(database, service, "parked_signal", {}, ids));
  await say(`${HALF} runs parked on a signal in ${signals} s, ${Math.round(HALF / signals)}/s`, service);
  // Late enough that the other half is parked before it is due.
  const until = Date.now() + signals * 1_500 + 15_000;
  const timers = await timed(() =>
    park(database, service, "parked_timer", { until: new Date(until).toISOString() }, []),
  );
  await say(`${HALF} runs parked on a timer in ${timers} s, ${Math.round(HALF / timers)}/s`, service);

  console.log(`stopped in ${await timed(() => service.stop())} s`);
  if (Date.now() > until)
    throw new Error("the timers were due before the service stopped, so the results would be wrong");
  await delay(until - Date.now());
  const started = performance.now();
  service = await startService(database.url, { LOG_LEVEL: "info" });
  await say(`ready ${seconds(started)} s after a cold start with ${HALF} overdue timers`, service);
  const peak = watchMemory(service);
  await ended(database.sql, "parked_timer", HALF);
  await say(`all overdue timers ended ${seconds(started)} s after the start, ${perSecond(HALF, started)}/s`, service);
  const resuming = performance.now();
  await load(HALF, AT_ONCE, (nth) => insist(`${service.base}/api/v1/sagas/${ids[nth]}/signal/go`, {}));
  await ended(database.sql, "parked_signal", HALF);
  await say(`all signalled and ended in ${seconds(resuming)} s, ${perSecond(HALF, resuming)}/s`, service);
  console.log(`peak memory after the cold start: ${peak()} MiB; ${refused} requests were shed and repeated`);
  await service.stop();
  await database.drop();
}

/** Resolves when all of the runs wait. */
async function park(
  { sql }: BenchDatabase,
  { base }: BenchService,
  workflow: Workflow,
  inputs: object,
  ids: string[],
): Promise<void> {
  await load(HALF, AT_ONCE, async (nth) => {
    const answer = await insist(`${base}/api/v1/sagas/start`, { workflow_id: workflow, inputs });
    ids[nth] = (answer as { run_id: string }).run_id;
  });
  while ((await countParked(sql, workflow)) < HALF) await delay(20);
}

let refused = 0;

/** Repeats a shed request after the second that `Retry-After` asks for. */
async function insist(url: string, body: unknown): Promise<unknown> {
  for (;;) {
    try {
      return await post(url, body);
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith("503"))) throw error;
      refused++;
      await delay(1_000);
    }
  }
}

async function countParked(sql: Sql, workflow: Workflow): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from runs where workflow_id = ${workflow} and state = 'paused'`;
  return row?.count ?? 0;
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const since = performance.now();
  await work();
  return seconds(since);
}

const seconds = (since: number) => Math.round((performance.now() - since) / 100) / 10;

async function say(what: string, service: BenchService): Promise<void> {
  const text = await (await fetch(`${service.base}/metrics`)).text();
  const metric = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1] ?? 0);
  const heap = Math.round(metric("nodejs_heap_size_used_bytes") / 2 ** 20);
  const residents = metric("saga_runs_resident");
  console.log(`${what}: ${rssMiB(service.pid)} MiB resident set, ${heap} MiB heap in use, ${residents} runs in memory`);
}

function rssMiB(pid: number): number {
  const [, kib] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  return Math.round(Number(kib) / 1024);
}

/** The peak from now on. */
function watchMemory({ pid }: BenchService): () => number {
  let most = 0;
  const timer = setInterval(() => {
    most = Math.max(most, rssMiB(pid));
  }, 100);
  return () => {
    clearInterval(timer);
    return most;
  };
}

await main();
