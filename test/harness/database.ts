// A database of a test file's own, on the server that the whole run shares. The first ones of a worker are copies of the run's
// template, so that migrations run once; later files get one of them as new. A session that was left open fails the test file.
import { randomBytes } from "node:crypto";
import postgres, { type Sql } from "postgres";
import { inject } from "vitest";
import { createLogger } from "../../src/log.js";
import { type Database, openDatabase } from "../../src/store/connection.js";
import { makeAsNew } from "./emptying.js";
import { until } from "./until.js";

export const silentLog = createLogger({ logLevel: "silent" });

/** The pools that a node works with. */
export interface NodePools {
  readonly sql: Sql;
  readonly commits: Sql;
  close(): Promise<void>;
}

export interface TestDatabase extends Database {
  readonly url: string;
  /** A session of its own, for what a session holds: locks, a transaction. Close it before `drop`. */
  session(): Database;
  /** All nodes of one name share their pools, until `drop`: to open a session takes longer than many a test. */
  poolsOf(node: string): NodePools;
  /** Closes the pool, checks that no other session is left, and gives the database back. */
  drop(): Promise<void>;
}

export interface TestDatabaseOptions {
  /** Most sessions of its pool. */
  readonly max?: number;
  readonly migrated?: boolean;
  /** It has never been used by another file, so that Postgres has never collected statistics of its tables. */
  readonly fresh?: boolean;
}

/** The name of the sessions of a test database's own pool. */
const OWN = "saga-test";

/** Migrated databases of this worker that no file uses. They are as new, and are dropped at the end of the run. */
const unused: string[] = [];

/** Call it in `beforeAll`, and `drop` in `afterAll`. */
export async function createTestDatabase({
  max = 10,
  migrated = true,
  fresh = !migrated,
}: TestDatabaseOptions = {}): Promise<TestDatabase> {
  const name = (!fresh && unused.pop()) || (await createDatabase(migrated));
  const url = urlOf(name);
  const database = openDatabase(url, { max, applicationName: OWN, log: silentLog });
  const nodes = new Map<string, NodePools>();
  const poolsOf = (node: string) => {
    const pools = nodes.get(node) ?? openNodePools(url, node);
    nodes.set(node, pools);
    return { ...pools, close: async () => {} };
  };
  const drop = async () => {
    for (const { close } of nodes.values()) await close();
    try {
      await giveBack(database.sql, name, !fresh);
    } finally {
      await database.close();
    }
  };
  const session = () => openDatabase(url, { max: 1, applicationName: `${OWN}-session`, log: silentLog });
  return { ...database, url, session, poolsOf, drop };
}

/** As a node has them: whatever a session of `sql` plans, every further session plans again. */
export function openNodePools(url: string, applicationName: string): NodePools {
  const { sql, close } = openDatabase(url, { max: 4, applicationName, log: silentLog });
  const commits = openDatabase(url, { max: 2, applicationName, log: silentLog, plannedOnce: true });
  const closeBoth = async () => {
    await Promise.all([close(), commits.close()]);
  };
  return { sql, commits: commits.sql, close: closeBoth };
}

async function createDatabase(migrated: boolean): Promise<string> {
  const name = `${inject("databasePrefix")}${process.pid}_${randomBytes(4).toString("hex")}`;
  const template = migrated ? inject("databaseTemplate") : "template1";
  await onDatabase(inject("databaseUrl"), (sql) => sql`create database ${sql(name)} template ${sql(template)}`);
  return name;
}

function urlOf(name: string): string {
  const url = new URL(inject("databaseUrl"));
  url.pathname = `/${name}`;
  return url.href;
}

const RUN_TABLES = [
  ...["runs", "run_starts", "run_events", "run_variables", "run_commands", "signals", "wakes", "inbox", "outbox"],
];

/** Deletes every run and what belongs to it. Deleting a few rows is a hundred times faster than TRUNCATE. */
export async function deleteRuns(sql: Sql): Promise<void> {
  await sql.unsafe(RUN_TABLES.map((table) => `delete from ${table}`).join("; "));
}

/** Fails if a session is left open. The database is kept for the next file, or left to the end of the run: a drop waits for a checkpoint. */
async function giveBack(sql: Sql, name: string, reuse: boolean): Promise<void> {
  await untilUnused(sql);
  if (reuse && (await makeAsNew(sql, inject("databaseSchema")))) unused.push(name);
}

async function onDatabase<T>(url: string, work: (sql: Sql) => Promise<T>): Promise<T> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  try {
    return await work(sql);
  } finally {
    await sql.end();
  }
}

async function untilUnused(sql: Sql): Promise<void> {
  const others = () => sql<{ application_name: string }[]>`
    select application_name from pg_stat_activity
    where datname = current_database() and backend_type = 'client backend' and application_name <> ${OWN}`;
  try {
    await until(async () => (await others()).length === 0, { within: 10_000 });
  } catch {
    const names = (await others()).map((row) => row.application_name);
    throw new Error(`sessions of the test database were left open: ${names.join(", ")}`);
  }
}
