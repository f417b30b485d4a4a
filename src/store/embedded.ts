// Embedded Postgres, for when no DATABASE_URL is set: one server in the service's data directory, found again by the next
// start, stopped with the service. It is a real server on 127.0.0.1, not a second dialect; it serves one machine.
//
// Invariants
// - One service at a time uses a data directory. The service holds an advisory lock in the server as long as it lives, so
//   the kernel frees it when the service dies, however it dies. A second service is told so in a sentence.
// - A server that outlived its service is stopped and started anew: it then is our child, and its log is ours.
// - The data directory is complete or absent (it is renamed into place); its password is random and never leaves `dataDir`.
// Decisions
// - 2026-11-21: the server's programs are started directly; the npm wrapper would share our process group, and it tells
//   readiness by a line of the log. initdb 0.6 s, start 0.1 s.
// - 2026-11-21: as root the server is entered through its working directory, so that a data directory below a 0700 home works.
import { execFile } from "node:child_process";
import { mkdir, readlink, realpath, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import postgres, { type Sql } from "postgres";
import type { Logger } from "../log.js";
import { noticesTo } from "./connection.js";
import { findBinaries, serverAccount } from "./embedded-binaries.js";
import { exists, freePort, keepPort, keptPassword, keptPort } from "./embedded-files.js";
import {
  type Cluster,
  initialiseCluster,
  isAlive,
  readPostmasterFile,
  type Server,
  startServer,
  stopProcess,
} from "./embedded-server.js";

export interface EmbeddedPostgres {
  readonly url: string;
  /** Complete on return, safe twice. Call it when nothing uses the database any more. */
  stop(): Promise<void>;
}

export interface EmbeddedOptions {
  readonly dataDir: string;
  readonly log: Logger;
  /** Absent: the port that was used before, if it is free, else any free one. */
  readonly port?: number;
}

/** The lock that says which service uses the server: "sagaown" in ASCII. Must never change: releases have to agree on it. */
const OWNER_LOCK = "32476718965946222";
const START_ATTEMPTS = 5;
const SHORTEST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;
/** A server that lived this long did not die of its start. */
const STEADY_AFTER_MS = 60_000;

/** Throws a sentence for the operator: another service uses the directory, no unprivileged account, the server's last words. */
export async function startEmbeddedPostgres({ dataDir, log, port }: EmbeddedOptions): Promise<EmbeddedPostgres> {
  await mkdir(dataDir, { recursive: true });
  const home = await realpath(dataDir);
  const pgdata = join(home, "postgres");
  const account = await serverAccount(pgdata);
  const cluster: Cluster = { pgdata, account, log, binaries: await findBinaries(home, account) };
  const password = await keptPassword(home);
  if (!(await exists(join(pgdata, "PG_VERSION")))) await initialiseCluster(cluster, password);
  const service = new EmbeddedService(cluster, home, password, port);
  await service.start();
  return { url: service.url, stop: () => service.stop() };
}

class EmbeddedService {
  private server: Server | undefined;
  private owner: Sql | undefined;
  private owned = false;
  private watching: Promise<void> | undefined;
  private stopping: Promise<void> | undefined;
  private readonly stopped = new AbortController();
  url = "";

  constructor(
    private readonly cluster: Cluster,
    private readonly home: string,
    private readonly password: string,
    private readonly wantedPort: number | undefined,
  ) {}

  /** Starts that collide (two services at once, sessions of a dead server that still end) are sorted out by looking again. */
  async start(): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      await this.clearLeftover();
      try {
        await this.launch(this.wantedPort ?? (await freePort(await keptPort(this.home))));
        await this.own();
        break;
      } catch (error) {
        await this.release();
        if (error instanceof DataDirInUse || attempt === START_ATTEMPTS) throw error;
        await delay(400);
      }
    }
    this.watching = this.watch();
  }

  private async launch(port: number): Promise<void> {
    this.server = await startServer(this.cluster, port);
    this.url = urlFor(port, this.password);
    await keepPort(this.home, port);
  }

  private async own(): Promise<void> {
    this.owner = this.session(this.url, () => void this.ownAgain());
    if (!(await takeLock(this.owner))) throw inUse(this.home);
    this.owned = true;
  }

  /**
   * The server ends all sessions when one of them crashes: the lock goes with ours, and has to be taken again, soon. A rival
   * that came in between has the server; both services then work on one database, which every commit is made for.
   */
  private async ownAgain(): Promise<void> {
    if (!this.owned) return;
    this.owned = false;
    while (!this.owned && (await this.pause(50))) {
      const session = this.session(this.url, () => void this.ownAgain());
      this.owned = await takeLock(session, 1).catch(() => false);
      const before = this.owned ? this.owner : session;
      if (this.owned) this.owner = session;
      await before?.end({ timeout: 0 });
    }
  }

  private session(url: string, onclose: () => void): Sql {
    const connection = { application_name: "saga-owner", statement_timeout: 0 };
    const onnotice = noticesTo(this.cluster.log);
    return postgres(url, {
      max: 1,
      idle_timeout: 0,
      max_lifetime: null,
      connect_timeout: 5,
      connection,
      onclose,
      onnotice,
    });
  }

  /** Restarts a server that died on its own (out of memory, killed by hand), ever more slowly. The pools connect again by themselves. */
  private async watch(): Promise<void> {
    let pause = SHORTEST_PAUSE_MS;
    const stopping = new Promise<undefined>((resolve) => {
      this.stopped.signal.addEventListener("abort", () => resolve(undefined), { once: true });
    });
    while (!this.stopped.signal.aborted) {
      const since = Date.now();
      const lastWords = await Promise.race([this.server?.ended, stopping]);
      if (lastWords === undefined) return;
      if (Date.now() - since > STEADY_AFTER_MS) pause = SHORTEST_PAUSE_MS;
      this.cluster.log.error({ lastWords }, "the embedded Postgres ended: starting it again");
      if (!(await this.pause(pause))) return;
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
      // The same port always: everyone holds our URL.
      await this.launch(this.server?.port ?? 0).catch((error) => this.cluster.log.error(error, "it did not start"));
    }
  }

  /** False: the service stops. */
  private async pause(ms: number): Promise<boolean> {
    await delay(ms, undefined, { signal: this.stopped.signal }).catch(() => undefined);
    return !this.stopped.signal.aborted;
  }

  /** A server that a dead service left running is stopped; one that another living service uses is left alone. */
  private async clearLeftover(): Promise<void> {
    const { pgdata, log } = this.cluster;
    const file = await readPostmasterFile(pgdata);
    if (file === undefined || !isAlive(file.pid)) return;
    const isThere = () => isPostmaster(file.pid, pgdata);
    if (!(await isThere())) {
      // A reboot, or a container's new life, gave the number to somebody else. Postgres would take it for its own.
      log.info({ server: file.pid }, "cleared the process id of an embedded Postgres that is gone");
      await rm(join(pgdata, "postmaster.pid"), { force: true });
      return;
    }
    if (!(await this.isAbandoned(file.pid))) return;
    log.info({ server: file.pid }, "taking over the embedded Postgres of a service that is gone");
    await stopProcess((signal) => signalIfAlive(file.pid, signal), goneOf(isThere));
    if (await isThere())
      throw new Error(`Process ${file.pid}, an old embedded Postgres of ${this.home}, cannot be stopped`);
  }

  /** False: it ended while we looked. Throws if a living service holds it, or if it cannot be asked. */
  private async isAbandoned(pid: number): Promise<boolean> {
    const deadline = Date.now() + 15_000;
    let reason: unknown;
    while (Date.now() < deadline) {
      const file = await readPostmasterFile(this.cluster.pgdata);
      if (file?.pid !== pid || !(await isPostmaster(pid, this.cluster.pgdata))) return false;
      const session = this.session(urlFor(file.port, this.password), () => {});
      try {
        if (await takeLock(session)) return true;
        throw inUse(this.home);
      } catch (error) {
        if (error instanceof DataDirInUse) throw error;
        reason = error;
        await delay(200);
      } finally {
        await session.end({ timeout: 1 });
      }
    }
    const code = (reason as { code?: string }).code ?? "no answer";
    throw new Error(
      `Process ${pid} is a PostgreSQL server on ${this.cluster.pgdata} that cannot be used (${code}): stop it first`,
    );
  }

  stop(): Promise<void> {
    this.stopping ??= this.end();
    return this.stopping;
  }

  private async end(): Promise<void> {
    this.stopped.abort();
    // It may be in the middle of a restart: that server has to be stopped, too.
    await this.watching;
    await this.release();
  }

  private async release(): Promise<void> {
    this.owned = false;
    await this.owner?.end({ timeout: 1 });
    this.owner = undefined;
    await this.server?.stop();
  }
}

export class DataDirInUse extends Error {
  override readonly name = "DataDirInUse";
}

function inUse(home: string): DataDirInUse {
  return new DataDirInUse(
    `Another service uses the embedded Postgres in ${home}: stop it, give this one another SAGA_DATA_DIR, or let both use one DATABASE_URL`,
  );
}

function urlFor(port: number, password: string): string {
  return `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
}

/** The session of a service killed a moment ago may not have ended yet: looks a few times before it believes in a rival. */
async function takeLock(session: Sql, looks = 10): Promise<boolean> {
  for (let look = 1; ; look++) {
    const [row] = await session<{ taken: boolean }[]>`select pg_try_advisory_lock(${OWNER_LOCK}::bigint) as taken`;
    if (row?.taken === true || look === looks) return row?.taken === true;
    await delay(150);
  }
}

/** A server always works inside its data directory; elsewhere than on Linux its command line has to do. */
async function isPostmaster(pid: number, pgdata: string): Promise<boolean> {
  if (process.platform === "linux") return (await readlink(`/proc/${pid}/cwd`).catch(() => "")) === pgdata;
  return new Promise((resolve) => {
    execFile("ps", ["-o", "command=", "-p", String(pid)], (_error, output) => resolve(output.includes(pgdata)));
  });
}

function signalIfAlive(pid: number, signal: NodeJS.Signals): void {
  if (isAlive(pid)) process.kill(pid, signal);
}

/** Asked by its directory, not by its number: a zombie that nobody reaps keeps the number. */
async function goneOf(isThere: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 60_000;
  while ((await isThere()) && Date.now() < deadline) await delay(25);
}
