// One PostgreSQL server process on one data directory: it is started, waited for, and stopped. postgres.ts decides whether this service may
// use the directory, leftover.ts handles a server that is running there already.
import { type ChildProcess, spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "../../log.js";
import type { Account, Binaries } from "./binaries.js";

export interface Cluster {
  readonly pgdata: string;
  readonly binaries: Binaries;
  readonly account: Account | undefined;
  readonly log: Logger;
  /** Where the server has its socket, beside its port. Absent: it has none. */
  readonly socketFolder?: string;
}

/** Crash recovery after a power cut may replay a gigabyte of WAL. */
const READY_WITHIN_MS = 120_000;
/** Lines of output that are kept for the error if the process ends. */
const KEPT_LINES = 20;

/** The server's log never contains a statement or a row: errors go to the client that caused them, not to the log. */
const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: "127.0.0.1",
  shared_buffers: "128MB",
  max_connections: "100",
  synchronous_commit: "on",
  fsync: "on",
  full_page_writes: "on",
  // Statements are short and touch few rows: parallel plans and compilation would only cost time.
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

/** The server gets nothing of our environment, which contains secrets. */
const ENVIRONMENT = { LC_ALL: "C", TZ: "UTC" };

/**
 * The data directory as the server's argument. As root, the directory may be where the server's account has no access (a 0700 home, a
 * private temporary directory): it becomes the working directory before the account changes, and the server never leaves it.
 */
export function pathFor({ account }: Cluster, pgdata: string): string {
  return account !== undefined && process.platform === "linux" ? "/proc/self/cwd" : pgdata;
}

/** Starts a program in a session of its own (`detached`): Ctrl-C reaches us only, and we stop the server when nothing needs it any more. */
export function launch(cluster: Cluster, pgdata: string, program: string, flags: readonly string[]): ChildProcess {
  return spawn(program, [...flags], {
    ...cluster.account,
    cwd: pgdata,
    env: ENVIRONMENT,
    detached: true,
    stdio: ["ignore", "ignore", "pipe"],
  });
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Bytes of the path of a socket, on every system that has them. */
const SOCKET_PATH_BYTES = 103;

/**
 * The data directory, which only the server's account and root can enter. Undefined: no socket can be made there. Its path may be too long,
 * some file systems (mounts of a desktop's folders into a container) have none, and Node has none on Windows.
 */
export async function socketFolderIn(pgdata: string): Promise<string | undefined> {
  const longest = join(pgdata, ".s.PGSQL.65535");
  if (process.platform === "win32" || Buffer.byteLength(longest) > SOCKET_PATH_BYTES) return undefined;
  const trial = createServer();
  const isMade = await new Promise<boolean>((resolve) => {
    trial.once("error", () => resolve(false));
    trial.listen(join(pgdata, `.s.PGSQL.t${process.pid}`), () => resolve(true));
  });
  if (isMade) await new Promise((resolve) => trial.close(resolve));
  return isMade ? pgdata : undefined;
}

export interface Server {
  readonly port: number;
  /** Resolves, never rejects, with how the process ended and its last output. */
  readonly ended: Promise<string>;
  /** Resolves when the process has ended. Safe to repeat, and after its end. */
  stop(): Promise<void>;
}

/** Resolves when connections are accepted; otherwise ends the process and throws its last output. */
export async function startServer(cluster: Cluster, port: number): Promise<Server> {
  // The server runs in its data directory.
  const unix_socket_directories = cluster.socketFolder === undefined ? "" : ".";
  const settings = { ...SETTINGS, unix_socket_directories, port: String(port) };
  const flags = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const child = launch(cluster, cluster.pgdata, cluster.binaries.postgres, [
    "-D",
    pathFor(cluster, cluster.pgdata),
    ...flags,
  ]);
  let stopping = false;
  const output = keepOutput(child, (line) => logLine(cluster.log, line, stopping));
  // Our process may end without an orderly stop (an uncaught exception): the server still shuts down cleanly then.
  const atExit = () => void child.kill("SIGINT");
  process.once("exit", atExit);
  const ended = exitOf(child).then((end) => {
    process.off("exit", atExit);
    return `${end}: ${output.join(" | ")}`;
  });
  const stop = () => {
    stopping = true;
    return stopProcess((signal) => void child.kill(signal), ended);
  };
  const outcome = await Promise.race([ended, readiness(cluster.pgdata, child)]);
  if (outcome === "ready") return { port, ended, stop };
  await stop();
  throw new Error(`PostgreSQL did not start (${outcome})`);
}

/** The last line of postmaster.pid has the state of the server; connecting to it instead would fill its log. */
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

/** Fast shutdown: open transactions are rolled back. If it hangs, harder signals follow; the next start then recovers from the WAL. */
export async function stopProcess(signal: (name: NodeJS.Signals) => void, ended: Promise<unknown>): Promise<void> {
  const patience = [
    ["SIGINT", 20_000],
    ["SIGQUIT", 5_000],
    ["SIGKILL", 5_000],
  ] as const;
  for (const [name, ms] of patience) {
    signal(name);
    const waiting = new AbortController();
    const timeout = delay(ms, "timeout", { signal: waiting.signal }).catch(() => "ended");
    const outcome = await Promise.race([ended.then(() => "ended"), timeout]);
    waiting.abort();
    if (outcome === "ended") return;
  }
}

export function exitOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, signal) => resolve(signal === null ? `code ${code}` : `signal ${signal}`));
  });
}

/** The last lines of the process's output, filled while it runs. */
export function keepOutput(child: ChildProcess, onLine: (line: string) => void): readonly string[] {
  const lines: string[] = [];
  if (child.stderr === null) return lines;
  createInterface({ input: child.stderr }).on("line", (line) => {
    lines.push(line);
    if (lines.length > KEPT_LINES) lines.shift();
    onLine(line);
  });
  return lines;
}

/** A server that is stopped ends each open session with FATAL. */
function logLine(log: Logger, line: string, stopping: boolean): void {
  if (line.startsWith("PANIC:")) log.error(`embedded Postgres: ${line}`);
  else if (line.startsWith("FATAL:") && !stopping) log.warn(`embedded Postgres: ${line}`);
  else log.debug(`embedded Postgres: ${line}`);
}
