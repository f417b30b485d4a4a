// A primary of Postgres and its synchronous standby, with failovers: the primary dies with its machine, the standby is promoted, and the dead one comes
// back as its standby, from a copy. As with a manager of failovers, one server alone takes writes at any time.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { serverAccount } from "../../../src/store/embedded/binaries.js";
import { type Database, openDatabase } from "../../../src/store/engine/connection.js";
import { silentLog } from "../../harness/database.js";
import { freePorts } from "../../harness/ports.js";
import { until } from "../../harness/until.js";
import type { HostClock } from "./clocks.js";
import { postgresPrograms, Server } from "./postgres.js";

/** The service's own role: the sessions that Postgres keeps for its administrators are not for it. */
const ROLE = "saga";
const STREAMS_WITHIN_MS = 120_000;

export class Pair {
  failovers = 0;

  private constructor(
    private servers: readonly [Server, Server],
    /** At whichever server takes writes, as its administrator. */
    readonly database: Database,
    /** What the service has as its DATABASE_URL. */
    readonly url: string,
  ) {}

  static async open(folder: string, clock: HostClock): Promise<Pair> {
    const [account, programs] = [await serverAccount(folder), postgresPrograms()];
    if (account === undefined || programs === undefined) throw new Error("there is no Postgres to start");
    const [one = 0, other = 0] = await freePorts(2);
    const at = (name: string, port: number) => new Server({ programs, account, folder, name, port, clock: clock.env });
    const servers = [at("one", one), at("other", other)] as const;
    const hosts = servers.map(({ port }) => `127.0.0.1:${port}`).join();
    const database = openDatabase(`postgres://postgres@${hosts}/${ROLE}`, {
      ...{ max: 3, applicationName: "saga-week", log: silentLog },
    });
    const pair = new Pair([...servers], database, `postgres://${ROLE}@${hosts}/${ROLE}`);
    await pair.begin();
    return pair;
  }

  get primary(): Server {
    return this.servers[0];
  }

  get standby(): Server {
    return this.servers[1];
  }

  private async begin(): Promise<void> {
    await this.primary.init();
    // First: without a standby, no commit ends.
    await this.standby.follow(this.primary.port);
    await this.primary.withSession(async ({ sql }) => {
      await sql`create role ${sql(ROLE)} login`;
      await sql`create database ${sql(ROLE)} owner ${sql(ROLE)}`;
    });
    await this.streams();
  }

  /** The standby has all that is committed from now on before any client hears of it. */
  async streams(): Promise<void> {
    const synchronous = async () => {
      const rows = await this.database.sql`
        select 1 from pg_stat_replication where state = 'streaming' and sync_state = 'sync'`;
      return rows.length === 1;
    };
    await until(synchronous, { within: STREAMS_WITHIN_MS, pause: 100, what: "a synchronous standby" });
  }

  /** Milliseconds until the standby took writes, and until it had a standby itself. */
  async failOver(): Promise<{ readonly promotedMs: number; readonly pairedMs: number }> {
    await this.streams();
    const began = performance.now();
    const took = () => Math.round(performance.now() - began);
    const [dead, next] = this.servers;
    await dead.kill();
    await next.withSession(async ({ sql }) => {
      await sql`select pg_promote(true, 60)`;
      const [row] = await sql<{ standby: boolean }[]>`select pg_is_in_recovery() as standby`;
      if (row?.standby !== false) throw new Error("the standby was not promoted");
    });
    const promotedMs = took();
    this.servers = [next, dead];
    this.failovers++;
    await dead.follow(next.port);
    await this.streams();
    return { promotedMs, pairedMs: took() };
  }

  /** Complete on return. Safe if it is not whole. */
  async end(): Promise<void> {
    await this.database.close();
    for (const server of this.servers) await server.kill();
  }
}

/** What the machine lacks for a pair and for clocks that a test steps, each by name. Empty: nothing. */
export function missingHere(): readonly string[] {
  if (process.platform !== "linux") return ["Linux"];
  if (process.getuid?.() !== 0) return ["the rights of root"];
  const programs = ["cc", "mount", "umount", "setpriv", "redis-server"].filter((name) => !isOnPath(name));
  return [...programs, ...(postgresPrograms() === undefined ? ["postgresql with pg_basebackup"] : [])];
}

const isOnPath = (name: string) =>
  (process.env.PATH ?? "").split(":").some((folder) => folder !== "" && existsSync(join(folder, name)));
