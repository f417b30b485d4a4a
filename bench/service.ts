// What the benchmarks share: a database of their own, the real service as a process, and a load of bounded concurrency.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { Agent, request } from "node:http";
import { createInterface } from "node:readline";
import postgres, { type Sql } from "postgres";
import { createLogger } from "../src/log.js";
import { startEmbeddedPostgres } from "../src/store/embedded/postgres.js";

export interface BenchDatabase {
  readonly url: string;
  readonly sql: Sql;
  drop(): Promise<void>;
}

/** A fresh database on the server of DATABASE_URL, or on an embedded one. */
export async function freshDatabase(): Promise<BenchDatabase> {
  const log = createLogger({ logLevel: "warn" });
  const given = process.env.DATABASE_URL;
  const embedded = given ? undefined : await startEmbeddedPostgres({ dataDir: ".saga/bench", log });
  const server = new URL(given ?? embedded?.url ?? "");
  const name = `saga_bench_${process.pid}_${Date.now()}`;
  const admin = postgres(server.href, { max: 1, onnotice: () => {} });
  await admin.unsafe(`create database ${name}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  const sql = postgres(url.href, { max: 4, onnotice: () => {} });
  return {
    url: url.href,
    sql,
    async drop() {
      await sql.end({ timeout: 5 });
      await admin.unsafe(`drop database ${name} with (force)`);
      await admin.end();
      await embedded?.stop();
    },
  };
}

export interface BenchService {
  readonly base: string;
  readonly grpc: string;
  readonly pid: number;
  stop(): Promise<void>;
}

/** Starts `dist/src/main.js` as `npm start` does. `nodeArgs` are arguments of node itself (`--cpu-prof`). */
export async function startService(
  databaseUrl: string,
  env: Record<string, string> = {},
  nodeArgs: string[] = [],
): Promise<BenchService> {
  const main = new URL("../src/main.js", import.meta.url).pathname;
  const child = spawn(process.execPath, ["--max-semi-space-size=32", ...nodeArgs, main], {
    env: { ...process.env, DATABASE_URL: databaseUrl, HTTP_PORT: "0", GRPC_PORT: "0", SAGA_WORKERS: "1", ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  process.once("exit", () => child.kill("SIGKILL"));
  const { http, grpc } = await readyLine(child);
  return {
    base: `http://127.0.0.1:${http}`,
    grpc: `127.0.0.1:${grpc}`,
    pid: child.pid ?? 0,
    async stop() {
      child.kill("SIGTERM");
      await once(child, "exit");
    },
  };
}

async function readyLine(child: ChildProcess): Promise<{ http: number; grpc: number }> {
  if (!child.stdout) throw new Error("the service has no standard output");
  for await (const line of createInterface({ input: child.stdout })) {
    const entry = JSON.parse(line) as { msg?: string; http?: number; grpc?: number };
    if (entry.msg !== "ready" || entry.http === undefined || entry.grpc === undefined) continue;
    child.stdout.resume();
    return { http: entry.http, grpc: entry.grpc };
  }
  throw new Error("the service did not become ready");
}

const agent = new Agent({ keepAlive: true, maxSockets: 256 });

/** Sends one JSON request over a persistent connection. Throws on a status of 400 or more. */
export function post(url: string, body: unknown): Promise<unknown> {
  const text = JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(text) };
    const sent = request(url, { method: "POST", agent, headers }, (response) => {
      let answer = "";
      response.setEncoding("utf8");
      response.on("data", (chunk) => {
        answer += chunk;
      });
      response.on("end", () =>
        (response.statusCode ?? 500) < 400
          ? resolve(JSON.parse(answer))
          : reject(new Error(`${response.statusCode}: ${answer}`)),
      );
    });
    sent.on("error", reject);
    sent.end(text);
  });
}

/** Calls `work` `count` times, `atOnce` at a time. */
export async function load(count: number, atOnce: number, work: (index: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const lane = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
}

/** Resolves when `count` runs of the workflow have ended. Throws after a minute without progress. */
export async function ended(sql: Sql, workflowId: string, count: number): Promise<void> {
  let before = -1;
  for (let since = performance.now(); ; ) {
    const [row] = await sql<{ count: number }[]>`
      select count(*)::int as count from runs where workflow_id = ${workflowId} and terminal_at is not null`;
    const now = row?.count ?? 0;
    if (now >= count) return;
    if (now !== before) since = performance.now();
    before = now;
    if (performance.now() - since > 60_000) throw new Error(`only ${now} of ${count} runs ended`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

export function perSecond(count: number, since: number): number {
  return Math.round((count / (performance.now() - since)) * 1000);
}
