// A database of a test file's own, on the server that the whole run shares. The first ones of a worker are copies of the run's
// template, so that migrations run once; later files get one of them as new. A session that was left open fails the test file.
import { randomBytes } from "node:crypto";
import postgres, { type Sql } from "postgres";
import { inject } from "vitest";
import { createLogger } from "../../src/log.js";
import { type Database, openDatabase } from "../../src/store/engine/connection.js";
import { expectOneTenant } from "./access.js";
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

/** The name of the node in most files. */
export const NODE = "saga-half";

/** A database with its open sessions. The next file goes on with them: a session takes Postgres longer to open than many a test takes. */
interface Open {
  readonly name: string;
  readonly size: number;
  readonly database: Database;
  /** The pools by the name of their node. */
  readonly nodes: Map<string, NodePools>;
}

/** Migrated databases of this worker that no file uses. They are as new, and are dropped at the end of the run. */
const unused: string[] = [];

/** Another one, whose sessions are open. */
let kept: Open | undefined;

/** Most sessions of the own pool of a database that is kept: those of all workers wait at the server that all tests share. */
const MOST_KEPT = 6;

/** Call it in `beforeAll`, and `drop` in `afterAll`. */
export async function createTestDatabase({
  max = 10,
  migrated = true,
  fresh = !migrated,
}: TestDatabaseOptions = {}): Promise<TestDatabase> {
  // With few sizes, more files can go on with a pool.
  const size = max === 1 || max > MOST_KEPT ? max : MOST_KEPT;
  const open = fresh ? openAt(await createDatabase(migrated), size) : await openUsed(size);
  const { name, database, nodes } = open;
  const url = urlOf(name);
  const poolsOf = (node: string) => {
    const pools = nodes.get(node) ?? openNodePools(url, node);
    nodes.set(node, pools);
    return { ...pools, close: async () => {} };
  };
  const drop = async () => {
    await closeNodes(nodes, (node) => !fresh && node === NODE);
    try {
      await giveBack(open, !fresh);
    } finally {
      if (kept !== open) await close(open);
    }
  };
  const session = () => openDatabase(url, { max: 1, applicationName: `${OWN}-session`, log: silentLog });
  return { ...database, url, session, poolsOf, drop };
}

function openAt(name: string, size: number, nodes = new Map<string, NodePools>()): Open {
  const database = openDatabase(urlOf(name), { max: size, applicationName: OWN, log: silentLog });
  return { name, size, database, nodes };
}

/** A database that another file of this worker has used, if there is one. */
async function openUsed(size: number): Promise<Open> {
  if (kept === undefined) return openAt(unused.pop() ?? (await createDatabase(true)), size);
  const open = kept;
  kept = undefined;
  if (open.size === size) return open;
  await open.database.close();
  return openAt(open.name, size, open.nodes);
}

async function close({ database, nodes }: Open): Promise<void> {
  await closeNodes(nodes, () => false);
  await database.close();
}

async function closeNodes(nodes: Map<string, NodePools>, but: (node: string) => boolean): Promise<void> {
  for (const [node, pools] of nodes) {
    if (but(node)) continue;
    nodes.delete(node);
    await pools.close();
  }
}

/** The pools of a node, as it opens them: whatever a session of `sql` plans, every further session plans again. */
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

/** No run is counted. */
export async function forgetCounts(sql: Sql): Promise<void> {
  await sql.unsafe(`delete from run_end_counts; delete from run_end_changes;
    update end_horizon set since = '-infinity', until = '-infinity'`);
}

/**
 * Fails if a session is left open. The database is kept for the next file, with its sessions if they are few and no other one's are, or
 * left to the end of the run: a drop waits for a checkpoint.
 */
async function giveBack(open: Open, reuse: boolean): Promise<void> {
  const { name, database } = open;
  await expectOneTenant(database.sql);
  const sessions = await untilUnused(database.sql, [...open.nodes.keys()]);
  if (!reuse || !(await makeAsNew(database.sql, inject("databaseSchema")))) return;
  if (sessions > MOST_KEPT || kept !== undefined) unused.push(name);
  else kept = open;
}

async function onDatabase<T>(url: string, work: (sql: Sql) => Promise<T>): Promise<T> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  try {
    return await work(sql);
  } finally {
    await sql.end();
  }
}

/** The number of sessions of the database's own pool, when there are no others but those of the nodes. */
async function untilUnused(sql: Sql, nodes: readonly string[]): Promise<number> {
  const sessions = () => sql<{ application_name: string }[]>`
    select application_name from pg_stat_activity
    where datname = current_database() and backend_type = 'client backend' and application_name <> all(${[...nodes]}::text[])`;
  const others = async () => (await sessions()).filter(({ application_name }) => application_name !== OWN);
  try {
    await until(async () => (await others()).length === 0, { within: 10_000 });
  } catch {
    const names = (await others()).map((row) => row.application_name);
    throw new Error(`sessions of the test database were left open: ${names.join(", ")}`);
  }
  return (await sessions()).length;
}
