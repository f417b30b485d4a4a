// A server that an earlier service left running on the data directory: it is stopped if that service is gone, and left alone if a
// living service uses it.
import { execFile } from "node:child_process";
import { readdir, readlink, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "../../log.js";
import { DataDirInUse, ifAbandoned } from "./owner-lock.js";
import { isAlive, readPostmasterFile, stopProcess } from "./server.js";

/** A server that starts, or recovers, refuses connections for a while. */
const ASK_FOR_MS = 15_000;
const END_WITHIN_MS = 60_000;

export interface LeftoverOptions {
  readonly home: string;
  readonly pgdata: string;
  readonly log: Logger;
  urlAt(port: number): string;
}

/** Throws DataDirInUse if a living service uses the server, and an error with its process id if it can be neither used nor stopped. */
export async function clearLeftover(options: LeftoverOptions): Promise<void> {
  const { home, pgdata, log } = options;
  const file = await readPostmasterFile(pgdata);
  if (file === undefined || !isAlive(file.pid)) return removeSockets(pgdata);
  const isRunning = () => isPostmaster(file.pid, pgdata);
  if (!(await isRunning())) {
    // A server that has ended in the meantime may have been replaced by another service, whose file this is now.
    if ((await readPostmasterFile(pgdata))?.pid !== file.pid) return;
    // After a reboot, or in a new container, the process id belongs to another program. Postgres would take that for its server.
    log.info({ server: file.pid }, "stale process id of an embedded Postgres removed");
    await rm(join(pgdata, "postmaster.pid"), { force: true });
    return removeSockets(pgdata);
  }
  await stopIfAbandoned(file.pid, options, async () => {
    log.info({ server: file.pid }, "stopping the embedded Postgres of a service that is gone");
    await stopProcess((signal) => signalIfAlive(file.pid, signal), endOf(isRunning));
  });
  if (await isRunning()) throw new Error(`Process ${file.pid}, an old embedded Postgres of ${home}, cannot be stopped`);
}

/**
 * The socket of a server that was killed, and its lock: the process id in it may be that of another program, too. If a server has started in this
 * very moment, its service cannot reach it, and starts another one.
 */
async function removeSockets(pgdata: string): Promise<void> {
  const names = await readdir(pgdata).catch(() => []);
  for (const name of names) if (name.startsWith(".s.PGSQL.")) await rm(join(pgdata, name), { force: true });
}

/** For a process that has ended a service without letting it stop: its server is stopped, too. No other service may use the directory. */
export async function stopServerOf(pgdata: string): Promise<void> {
  const file = await readPostmasterFile(pgdata);
  if (file === undefined || !isAlive(file.pid)) return;
  const isRunning = () => isPostmaster(file.pid, pgdata);
  if (await isRunning()) await stopProcess((signal) => signalIfAlive(file.pid, signal), endOf(isRunning));
}

/** Returns when the server has been stopped, or has ended by itself. */
async function stopIfAbandoned(
  pid: number,
  { home, pgdata, log, urlAt }: LeftoverOptions,
  stop: () => Promise<void>,
): Promise<void> {
  const deadline = Date.now() + ASK_FOR_MS;
  let reason: unknown;
  while (Date.now() < deadline) {
    const file = await readPostmasterFile(pgdata);
    if (file?.pid !== pid || !(await isPostmaster(pid, pgdata))) return;
    try {
      if (await ifAbandoned(urlAt(file.port), log, stop)) return;
      throw new DataDirInUse(home);
    } catch (error) {
      if (error instanceof DataDirInUse) throw error;
      reason = error;
      await delay(200);
    }
  }
  const code = (reason as { code?: string }).code ?? "no answer";
  throw new Error(`Process ${pid} is a PostgreSQL server on ${pgdata} that cannot be used (${code}): stop it first`);
}

/** A server's working directory is its data directory. On other systems than Linux its command line is used instead. */
async function isPostmaster(pid: number, pgdata: string): Promise<boolean> {
  if (process.platform === "linux") return (await readlink(`/proc/${pid}/cwd`).catch(() => "")) === pgdata;
  return new Promise((resolve) => {
    execFile("ps", ["-o", "command=", "-p", String(pid)], (_error, output) => resolve(output.includes(pgdata)));
  });
}

function signalIfAlive(pid: number, signal: NodeJS.Signals): void {
  if (isAlive(pid)) process.kill(pid, signal);
}

/** Asks by directory, not by process id: a zombie that is not reaped keeps its id. */
async function endOf(isRunning: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + END_WITHIN_MS;
  while ((await isRunning()) && Date.now() < deadline) await delay(25);
}
