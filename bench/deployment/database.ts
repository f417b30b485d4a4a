// The Postgres server of the bench, and a fresh database for each repetition.
import { setTimeout as delay } from "node:timers/promises";
import postgres, { type Sql } from "postgres";
import { createLogger } from "../../src/log.js";
import { startEmbeddedPostgres } from "../../src/store/embedded/postgres.js";

/** Sessions of the bench itself have this name, and are not measured. */
export const OWN_SESSIONS = "saga-bench";

export interface Server {
  readonly url: string;
  /** For services. Absent: they take the other one. */
  readonly socketUrl?: string;
  stop(): Promise<void>;
}

export interface Database {
  readonly url: string;
  /** With which the service uses it. */
  readonly serviceUrl: string;
  readonly sql: Sql;
  /** Closes the bench's sessions; a fresh database is dropped. */
  close(): Promise<void>;
}

/** The given server, or an embedded one. */
export async function openServer(given: string | undefined): Promise<Server> {
  if (given !== undefined) return { url: given, stop: async () => {} };
  return startEmbeddedPostgres({ dataDir: ".saga/bench", log: createLogger({ logLevel: "warn" }) });
}

export function openDatabase(url: string, serviceUrl = url): Database {
  const sql = postgres(url, { max: 3, onnotice: () => {}, connection: { application_name: OWN_SESSIONS } });
  return { url, serviceUrl, sql, close: () => sql.end({ timeout: 5 }) };
}

export async function freshDatabase(server: Server): Promise<Database> {
  const name = `saga_bench_${process.pid}_${Date.now()}`;
  await onServer(server, (sql) => sql`create database ${sql(name)}`);
  const database = openDatabase(named(server.url, name), named(server.socketUrl ?? server.url, name));
  const close = async () => {
    await database.close();
    await onServer(server, (sql) => sql`drop database ${sql(name)} with (force)`);
  };
  return { ...database, close };
}

/** The URL of another database of the server. */
export function named(server: string, database: string): string {
  const url = new URL(server);
  url.pathname = `/${database}`;
  return url.href;
}

async function onServer(server: Server, statement: (sql: Sql) => Promise<unknown>): Promise<void> {
  const sql = postgres(server.url, { max: 1, onnotice: () => {} });
  await statement(sql).finally(() => sql.end());
}

/** The backends that work for others than the bench. */
export async function backendsOf(sql: Sql): Promise<number[]> {
  const rows = await sql<{ pid: number }[]>`
    select pid from pg_stat_activity where datname = current_database() and application_name <> ${OWN_SESSIONS}`;
  return rows.map(({ pid }) => pid);
}

/** Resolves when the service's backends have ended: with their end they report what they wrote. */
export async function untilLeft(sql: Sql): Promise<void> {
  for (let tries = 0; tries < 200 && (await backendsOf(sql)).length > 0; tries++) await delay(50);
}

export async function versionOf(url: string): Promise<string> {
  const { sql, close } = openDatabase(url);
  const [row] = await sql<{ version: string }[]>`select current_setting('server_version') as version`;
  await close();
  return row?.version ?? "unknown";
}
