// What a week does to a service that should be the same at its end: the memory of nodes that are never killed, how long a simple run takes when nothing is
// wrong, and what the tables take on the disk. All of it is printed; the bounds are generous, and that of the time grows with what the machine itself takes
// longer for, because it may have other work.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { Sql } from "postgres";
import { expect } from "vitest";
import type { Client } from "../client.js";
import { nodesOf, type Stage } from "./stage.js";

const WORKFLOW = "simple";
const MEGABYTE = 2 ** 20;
/** The last part of the week has at most this many times what the first one had. */
const FLAT = 2;
/** Median latencies below this are all the same: a millisecond more is no trend. */
const QUICK_MS = 25;

/** Of a run and of the yardstick alike: the client, a node, Postgres and a worker wait for each other. */
const EXCHANGES = 6;
const ECHO = `process.on("message", (n) => {
  const hash = require("node:crypto").createHash("sha256");
  for (let nth = 0; nth < 100; nth++) hash.update(Buffer.alloc(8192, n));
  process.send(hash.digest("hex"));
});`;

/** What the machine takes for something that no service has a part in: a few exchanges of two processes. */
class Yardstick {
  private readonly echo: ChildProcess = spawn(process.execPath, ["-e", ECHO], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });

  async measure(): Promise<number> {
    const began = performance.now();
    for (let nth = 0; nth < EXCHANGES; nth++) {
      const answer = once(this.echo, "message");
      this.echo.send(nth);
      await answer;
    }
    return performance.now() - began;
  }

  stop(): void {
    this.echo.kill();
  }
}

export interface Reading {
  /** Megabytes of each node of the old machine. */
  readonly memory: readonly number[];
  readonly medianMs: number;
  readonly p95Ms: number;
  readonly slowestMs: number;
  /** What the machine took for the yardstick, between the runs. */
  readonly machineMs: number;
}

export interface Sizes {
  readonly databaseMegabytes: number;
  readonly runs: number;
  readonly events: number;
  /** Attempts that timed out, in the audit rows that are left: a night cuts off those that are in progress. */
  readonly timeouts: number;
  readonly partitions: readonly string[];
}

export async function publishSimple(client: Client): Promise<void> {
  const retry = { max_attempts: 20, initial_backoff_ms: 50, max_backoff_ms: 500 };
  await client.publish(WORKFLOW, [{ id: "pay", type: "action", action: "shop.charge", retry }]);
}

/** Simple runs, one after the other, while the load goes on. Resolves with the reading and the runs. */
export async function read(stage: Stage, count: number): Promise<{ reading: Reading; runIds: readonly string[] }> {
  const took: number[] = [];
  const machine: number[] = [];
  const runIds: string[] = [];
  const yardstick = new Yardstick();
  try {
    for (let nth = 0; nth < count; nth++) {
      machine.push(await yardstick.measure());
      const began = performance.now();
      const { status, body } = await stage.old.client.insist("POST", "/sagas/start?wait_ms=30000", {
        ...{ workflow_id: WORKFLOW, idempotency_key: crypto.randomUUID() },
      });
      took.push(performance.now() - began);
      expect({ status, state: body?.run?.state }).toMatchObject({ state: "succeeded" });
      runIds.push(body.run_id);
    }
  } finally {
    yardstick.stop();
  }
  const memory = nodesOf(stage.old).map(memoryOf);
  const times = { medianMs: quantile(took, 0.5), p95Ms: quantile(took, 0.95), slowestMs: quantile(took, 1) };
  return { reading: { memory, ...times, machineMs: quantile(machine, 0.5) }, runIds };
}

function quantile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  return Math.round((sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? 0) * 10) / 10;
}

/** Without what it shares with others. */
function memoryOf(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const bytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1] ?? 0) * 1_024;
  return Math.round((bytes("VmRSS") - bytes("RssShmem")) / MEGABYTE);
}

export async function sizesOf(sql: Sql): Promise<Sizes> {
  const [row] = await sql<{ bytes: string; runs: number; events: number; timeouts: number }[]>`
    select pg_database_size(current_database())::text as bytes, (select count(*)::int from runs) as runs,
      (select count(*)::int from run_events) as events,
      (select count(*)::int from run_events where event_type = 'step.failed' and metadata->>'code' = 'timeout') as timeouts`;
  const partitions = await sql<{ name: string }[]>`
    select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'run_events'::regclass and c.relname ~ '[0-9]{8}$' order by 1`;
  const { bytes = "0", runs = 0, events = 0, timeouts = 0 } = row ?? {};
  const databaseMegabytes = Math.round(Number(bytes) / MEGABYTE);
  return { databaseMegabytes, runs, events, timeouts, partitions: partitions.map(({ name }) => name) };
}

/** The last quarter against the first one, of at least four readings. */
export function expectFlat(readings: readonly Reading[], sizes: readonly Sizes[]): Readonly<Record<string, unknown>> {
  const quarter = Math.max(1, Math.floor(readings.length / 4));
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const ends = (of: (reading: Reading) => number) =>
    [readings.slice(0, quarter), readings.slice(-quarter)].map((some) => Math.round(mean(some.map(of)) * 10) / 10);
  const memory = ends((reading) => mean(reading.memory));
  const latency = ends(({ medianMs }) => medianMs);
  const machine = ends(({ machineMs }) => machineMs);
  const [memoryFirst = 0, memoryLast = 0] = memory;
  const [latencyFirst = 0, latencyLast = 0] = latency;
  const [machineFirst = 0, machineLast = 0] = machine;
  const slower = Math.max(1, machineLast / machineFirst);
  expect(memoryLast, "megabytes of a node at the end").toBeLessThanOrEqual(FLAT * memoryFirst);
  expect(latencyLast, "milliseconds of a run at the end").toBeLessThanOrEqual(
    FLAT * slower * Math.max(latencyFirst, QUICK_MS),
  );
  // From the third night on, as much is deleted as comes in.
  const disk = sizes.slice(2).map(({ databaseMegabytes }) => databaseMegabytes);
  expect(disk.at(-1), "megabytes of the database at the end").toBeLessThanOrEqual(FLAT * (disk[0] ?? 0));
  return { memory, latency, machine, databaseMegabytes: sizes.map(({ databaseMegabytes }) => databaseMegabytes) };
}
