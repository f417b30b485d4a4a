// A database of a test file's own, on the server that the whole run shares: a copy of the run's template, so that migrations run
// once. It is dropped afterwards, and a session that was left open fails the test file.
import { randomBytes } from "node:crypto";
import postgres, { type Sql } from "postgres";
import { inject } from "vitest";
import { createLogger } from "../../src/log.js";
import { type Database, openDatabase } from "../../src/store/connection.js";
import { until } from "./until.js";

export const silentLog = createLogger({ logLevel: "silent" });

export interface TestDatabase extends Database {
  readonly url: string;
  /** Closes the pool, checks that no other session is left, and drops the database. */
  drop(): Promise<void>;
}

export interface TestDatabaseOptions {
  /** Most sessions of its pool. */
  readonly max?: number;
  readonly migrated?: boolean;
}

/** Call it in `beforeAll`, and `drop` in `afterAll`. */
export async function createTestDatabase({
  max = 10,
  migrated = true,
}: TestDatabaseOptions = {}): Promise<TestDatabase> {
  const name = `saga_test_${process.pid}_${randomBytes(4).toString("hex")}`;
  const template = migrated ? inject("databaseTemplate") : "template1";
  await onServer((sql) => sql`create database ${sql(name)} template ${sql(template)}`);
  const url = new URL(inject("databaseUrl"));
  url.pathname = `/${name}`;
  const database = openDatabase(url.href, { max, applicationName: "saga-test", log: silentLog });
  const drop = async () => {
    await database.close();
    await onServer((sql) => dropUnused(sql, name));
  };
  return { ...database, url: url.href, drop };
}

const RUN_TABLES = [
  ...["runs", "run_starts", "run_events", "run_variables", "run_commands", "signals", "wakes", "inbox", "outbox"],
];

/** Deletes every run and what belongs to it. Deleting a few rows is a hundred times faster than TRUNCATE. */
export async function deleteRuns(sql: Sql): Promise<void> {
  await sql.unsafe(RUN_TABLES.map((table) => `delete from ${table}`).join("; "));
}

async function onServer<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
  const sql = postgres(inject("databaseUrl"), { max: 1, onnotice: () => {} });
  try {
    return await work(sql);
  } finally {
    await sql.end();
  }
}

async function dropUnused(sql: Sql, name: string): Promise<void> {
  const sessions = () => sql<{ application_name: string }[]>`
    select application_name from pg_stat_activity where datname = ${name} and backend_type = 'client backend'`;
  try {
    await until(async () => (await sessions()).length === 0, { within: 10_000 });
  } catch {
    const names = (await sessions()).map((row) => row.application_name);
    throw new Error(`sessions of the test database were left open: ${names.join(", ")}`);
  } finally {
    await sql`drop database ${sql(name)} with (force)`;
  }
}
