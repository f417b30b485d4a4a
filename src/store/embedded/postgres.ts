// Embedded Postgres, for when no DATABASE_URL is set: one server in the service's data directory, found again by the next start, stopped
// with the service. It is a real server, not a second dialect; it serves one machine. The service reaches it through its socket, other programs through
// a port of 127.0.0.1.
//
// Invariants
// - One service at a time uses a data directory (owner-lock.ts). A second one ends with an error that says so.
// - A server that outlived its service is stopped and a new one is started (leftover.ts): that one is our child, and its log is ours.
//   Its owner lock is held meanwhile, and it is left alone while its service may be about to take the lock.
// - The data directory is complete or absent (it is renamed into place); its password is random and never leaves `dataDir`.
// Decisions
// - 2026-11-21: the server's programs are started directly. The npm wrapper would share our process group, and it recognises readiness by
//   a line of the log. initdb takes 0.6 s, a start 0.1 s.
// - 2026-12-01: the service uses the socket, because a write to a port of this machine carries out the reader's part of TCP, too: it took a tenth of
//   a node's time under load.
// - 2026-11-21: as root, the server is started in its data directory as working directory, so that a data directory below a 0700 home works.
import { mkdir, realpath } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "../../log.js";
import { backoff } from "../../sdk/backoff.js";
import { findBinaries, serverAccount } from "./binaries.js";
import { initialiseCluster } from "./initdb.js";
import { exists, freePort, keepPort, keptPassword, keptPort } from "./kept-files.js";
import { clearLeftover } from "./leftover.js";
import { DataDirInUse, OwnerLock } from "./owner-lock.js";
import { type Cluster, readPostmasterFile, type Server, socketFolderIn, startServer } from "./server.js";

export interface EmbeddedPostgres {
  /** By its port: for any program on this machine. */
  readonly url: string;
  /** By its socket, in the form of libpq: a round trip costs both processes less. The other URL where there is no socket. */
  readonly socketUrl: string;
  /** Complete on return, safe to repeat. Call it when nothing uses the database any more. */
  stop(): Promise<void>;
}

export interface EmbeddedOptions {
  readonly dataDir: string;
  readonly log: Logger;
  /** Absent: the port of the last start if it is free, else any free port. */
  readonly port?: number;
}

const START_ATTEMPTS = 5;
const RESTART_MS = { base: 500, cap: 10_000 };
/** A server that ran for this long did not die of its start. */
const STEADY_AFTER_MS = 60_000;

/** The folder of `SAGA_DATA_DIR` cannot be made or entered. */
export class UnusableDataDir extends Error {
  override readonly name = "UnusableDataDir";
}

/** Throws an error for the operator: the directory cannot be made, another service uses the directory, there is no unprivileged account, or the server's last output. */
export async function startEmbeddedPostgres({ dataDir, log, port }: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const home = await homeAt(dataDir);
  const pgdata = join(home, "postgres");
  const account = await serverAccount(pgdata);
  const cluster: Cluster = { pgdata, account, log, binaries: await findBinaries(home, account) };
  const password = await keptPassword(home);
  if (!(await exists(join(pgdata, "PG_VERSION")))) await initialiseCluster(cluster, password);
  const socketFolder = await socketFolderIn(pgdata);
  const reached: Cluster = { ...cluster, ...(socketFolder !== undefined && { socketFolder }) };
  const service = new EmbeddedService(reached, home, password, port);
  await service.start();
  // A misspelt DATABASE_URL would not be noticed.
  log.info({ dataDir: home }, "DATABASE_URL is not set: the embedded Postgres is used");
  const { url, socketUrl } = service;
  return { url, socketUrl, stop: () => service.stop() };
}

async function homeAt(dataDir: string): Promise<string> {
  try {
    await mkdir(dataDir, { recursive: true });
    return await realpath(dataDir);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new UnusableDataDir(
      `SAGA_DATA_DIR ${dataDir} cannot be used (${code}): name a folder that the service may write to`,
      { cause: error },
    );
  }
}

/**
 * For a command beside the service: the server of the service that is running, or else one that is started for the command, and stopped with it. A
 * service that starts meanwhile finds the directory in use.
 */
export async function joinEmbeddedPostgres(options: EmbeddedOptions): Promise<Pick<EmbeddedPostgres, "url" | "stop">> {
  try {
    return await startEmbeddedPostgres(options);
  } catch (error) {
    if (!(error instanceof DataDirInUse)) throw error;
    const home = await realpath(options.dataDir);
    const running = await readPostmasterFile(join(home, "postgres"));
    if (!running) throw error;
    return { url: urlAt(await keptPassword(home), running.port), stop: async () => {} };
  }
}

const urlAt = (password: string, port: number) => `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;

class EmbeddedService {
  private server: Server | undefined;
  private readonly owner: OwnerLock;
  private watching: Promise<void> | undefined;
  private stopping: Promise<void> | undefined;
  private readonly stopped = new AbortController();
  url = "";

  constructor(
    private readonly cluster: Cluster,
    private readonly home: string,
    private readonly password: string,
    private readonly wantedPort: number | undefined,
  ) {
    this.owner = new OwnerLock(cluster.log, (ms) => this.pause(ms));
  }

  get socketUrl(): string {
    const { socketFolder } = this.cluster;
    // The parameter replaces the host, and the port of the URL is that in the socket's name, too.
    return socketFolder === undefined ? this.url : `${this.url}?host=${encodeURIComponent(socketFolder)}`;
  }

  /** Starts that collide (two services at once, sessions of a dead server that are still ending) are resolved by another attempt. */
  async start(): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      const { home, cluster } = this;
      await clearLeftover({ home, pgdata: cluster.pgdata, log: cluster.log, urlAt: (port) => this.urlAt(port) });
      try {
        await this.launch(this.wantedPort ?? (await freePort(await keptPort(home))));
        if (!(await this.owner.take(this.socketUrl))) throw new DataDirInUse(home);
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
    this.url = this.urlAt(port);
    await keepPort(this.home, port);
  }

  /** Restarts a server that died (out of memory, killed by hand), with growing pauses. The pools reconnect by themselves. */
  private async watch(): Promise<void> {
    let deaths = 0;
    const { log } = this.cluster;
    const stopping = new Promise<undefined>((resolve) => {
      this.stopped.signal.addEventListener("abort", () => resolve(undefined), { once: true });
    });
    while (!this.stopped.signal.aborted) {
      const since = Date.now();
      const lastOutput = await Promise.race([this.server?.ended, stopping]);
      if (lastOutput === undefined) return;
      if (Date.now() - since > STEADY_AFTER_MS) deaths = 0;
      log.error({ lastOutput }, "embedded Postgres ended, restarting it");
      if (!(await this.pause(backoff(deaths++, RESTART_MS)))) return;
      // Always on the same port: every pool holds the URL.
      await this.launch(this.server?.port ?? 0).catch((error) => log.error(error, "embedded Postgres did not start"));
    }
  }

  /** False: the service stops. */
  private async pause(ms: number): Promise<boolean> {
    await delay(ms, undefined, { signal: this.stopped.signal }).catch(() => undefined);
    return !this.stopped.signal.aborted;
  }

  stop(): Promise<void> {
    this.stopping ??= this.end();
    return this.stopping;
  }

  private async end(): Promise<void> {
    this.stopped.abort();
    // It may be restarting the server: that one has to be stopped, too.
    await this.watching;
    await this.release();
  }

  private async release(): Promise<void> {
    await this.owner.release();
    await this.server?.stop();
  }

  private urlAt(port: number): string {
    return urlAt(this.password, port);
  }
}
