// One PostgreSQL server process on one data directory: makes the directory, starts the process, tells when it is ready, and
// stops it. Who may use the directory, and what was left there by others, is decided in embedded.ts.
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { chown, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "../log.js";
import type { Account, Binaries } from "./embedded-binaries.js";

export interface Cluster {
  readonly pgdata: string;
  readonly binaries: Binaries;
  readonly account: Account | undefined;
  readonly log: Logger;
}

/** Crash recovery after a power cut may replay a gigabyte of WAL. */
const READY_WITHIN_MS = 120_000;
const LAST_WORDS = 20;

/** The server's own words never hold a statement or a row: errors go to the client that caused them, not to the log. */
const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
  shared_buffers: "128MB",
  max_connections: "100",
  synchronous_commit: "on",
  fsync: "on",
  full_page_writes: "on",
  // Short statements on few rows: planning for parallelism or compiling only costs.
  jit: "off",
  max_parallel_workers_per_gather: "0",
  timezone: "UTC",
  logging_collector: "off",
  log_line_prefix: "",
  log_min_messages: "log",
  log_min_error_statement: "panic",
  log_error_verbosity: "terse",
  log_checkpoints: "off",
};

/** Nothing of our environment reaches the server: it holds secrets. */
const ENVIRONMENT = { LC_ALL: "C", TZ: "UTC" };

/**
 * The data directory as the server is told it. As root, the directory may lie where the server's account cannot go (a 0700
 * home, a private temporary directory): we enter it before the account changes, and the server never leaves it.
 */
function pathFor({ account }: Cluster, pgdata: string): string {
  return account !== undefined && process.platform === "linux" ? "/proc/self/cwd" : pgdata;
}

/** A session of its own (`detached`): Ctrl-C in the terminal reaches us, and we stop the server when nothing needs it any more. */
function launch(cluster: Cluster, pgdata: string, program: string, flags: readonly string[]): ChildProcess {
  return spawn(program, [...flags], {
    ...cluster.account,
    cwd: pgdata,
    env: ENVIRONMENT,
    detached: true,
    stdio: ["ignore", "ignore", "pipe"],
  });
}

/** Makes the data directory, or nothing at all: it is made aside and renamed when it is complete and on disk. */
export async function initialiseCluster(cluster: Cluster, password: string): Promise<void> {
  const parent = dirname(cluster.pgdata);
  await clearAbandoned(parent);
  const staging = join(parent, `initdb-${process.pid}-${randomUUID()}`);
  const pgdata = join(staging, "data");
  try {
    await mkdir(pgdata, { recursive: true, mode: 0o700 });
    await writeFile(join(staging, "password"), `${password}\n`, { mode: 0o600 });
    await give(cluster.account, [staging, pgdata, join(staging, "password")]);
    await runInitdb(cluster, pgdata);
    await rename(pgdata, cluster.pgdata).catch((error: NodeJS.ErrnoException) => {
      // Another service may have been faster; the password is the same.
      if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    });
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

async function give(account: Account | undefined, paths: readonly string[]): Promise<void> {
  if (account === undefined) return;
  for (const path of paths) await chown(path, account.uid, account.gid);
}

async function runInitdb(cluster: Cluster, pgdata: string): Promise<void> {
  const path = pathFor(cluster, pgdata);
  const child = launch(cluster, pgdata, cluster.binaries.initdb, [
    `--pgdata=${path}`,
    "--username=postgres",
    "--auth=scram-sha-256",
    `--pwfile=${path}/../password`,
    "--encoding=UTF8",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--locale=C",
  ]);
  const words = collectWords(child, () => {});
  const end = await exitOf(child);
  if (end !== "code 0") throw new Error(`PostgreSQL could not make its data directory (${end}): ${words.join(" | ")}`);
}

/** What starts that were killed half-way left behind. */
async function clearAbandoned(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    const pid = Number(/^initdb-(\d+)-/.exec(name)?.[1]);
    if (pid > 0 && !isAlive(pid)) await rm(join(parent, name), { recursive: true, force: true });
  }
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

export interface Server {
  readonly port: number;
  /** Resolves, never rejects, when the process has ended, with its last words. */
  readonly ended: Promise<string>;
  /** Resolves when the process has ended. Safe twice, and after its end. */
  stop(): Promise<void>;
}

/** Resolves when connections are accepted; otherwise ends the process and throws its last words. */
export async function startServer(cluster: Cluster, port: number): Promise<Server> {
  const flags = Object.entries({ ...SETTINGS, port: String(port) }).flatMap(([name, value]) => [
    "-c",
    `${name}=${value}`,
  ]);
  const child = launch(cluster, cluster.pgdata, cluster.binaries.postgres, [
    "-D",
    pathFor(cluster, cluster.pgdata),
    ...flags,
  ]);
  const words = collectWords(child, (line) => logLine(cluster.log, line));
  // Ours may end without an orderly stop (an uncaught exception): the server then still shuts down cleanly.
  const atExit = () => void child.kill("SIGINT");
  process.once("exit", atExit);
  const ended = exitOf(child).then((end) => {
    process.off("exit", atExit);
    return `${end}: ${words.join(" | ")}`;
  });
  const stop = () => stopProcess((signal) => void child.kill(signal), ended);
  const outcome = await Promise.race([ended, readiness(cluster.pgdata, child)]);
  if (outcome === "ready") return { port, ended, stop };
  await stop();
  throw new Error(`PostgreSQL did not start (${outcome})`);
}

/** The last line of postmaster.pid says how far the server has come; asking it by connecting would fill its log. */
async function readiness(pgdata: string, child: ChildProcess): Promise<string> {
  const deadline = Date.now() + READY_WITHIN_MS;
  while (Date.now() < deadline && child.exitCode === null && child.signalCode === null) {
    const file = await readPostmasterFile(pgdata);
    if (file !== undefined && file.pid === child.pid && file.status === "ready") return "ready";
    await delay(25);
  }
  return `not ready within ${READY_WITHIN_MS / 1000} s`;
}

export interface PostmasterFile {
  readonly pid: number;
  readonly port: number;
  readonly status: string;
}

export async function readPostmasterFile(pgdata: string): Promise<PostmasterFile | undefined> {
  const text = await readFile(join(pgdata, "postmaster.pid"), "utf8").catch(() => "");
  const [pid, , , port, , , , status] = text.split("\n").map((line) => line.trim());
  return Number(pid) > 0 ? { pid: Number(pid), port: Number(port), status: status ?? "" } : undefined;
}

/** Fast shutdown: open transactions are rolled back. If that hangs, ever harder; the next start then recovers from the WAL. */
export async function stopProcess(signal: (name: NodeJS.Signals) => void, ended: Promise<unknown>): Promise<void> {
  const patience = [
    ["SIGINT", 20_000],
    ["SIGQUIT", 5_000],
    ["SIGKILL", 5_000],
  ] as const;
  for (const [name, ms] of patience) {
    signal(name);
    const waiting = new AbortController();
    const late = delay(ms, "late", { signal: waiting.signal }).catch(() => "over");
    const outcome = await Promise.race([ended.then(() => "over"), late]);
    waiting.abort();
    if (outcome === "over") return;
  }
}

function exitOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, signal) => resolve(signal === null ? `code ${code}` : `signal ${signal}`));
  });
}

function collectWords(child: ChildProcess, listen: (line: string) => void): readonly string[] {
  const words: string[] = [];
  if (child.stderr === null) return words;
  createInterface({ input: child.stderr }).on("line", (line) => {
    words.push(line);
    if (words.length > LAST_WORDS) words.shift();
    listen(line);
  });
  return words;
}

function logLine(log: Logger, line: string): void {
  if (line.startsWith("PANIC:")) log.error(`embedded postgres: ${line}`);
  else if (line.startsWith("FATAL:")) log.warn(`embedded postgres: ${line}`);
  else log.debug(`embedded postgres: ${line}`);
}
