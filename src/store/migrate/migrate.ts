// Brings a database up to this release: applies the migration files, one service at a time, and creates the partitions of the audit
// log. Services of the previous release keep working meanwhile and afterwards (law 13); the rules for the files are in CONTRIBUTING.md.

import { join } from "node:path";
import type { Sql, TransactionSql } from "postgres";
import { delay } from "../../ambient.js";
import { packageRoot } from "../../config/package.js";
import type { Logger } from "../../log.js";
import { noticesTo } from "../engine/connection.js";
import { isStoreAway, sqlStateOf } from "../engine/failure.js";
import { openSessions, UnusableDatabase } from "../engine/session.js";
import { createEventPartitions } from "../upkeep/partitions.js";
import { type Migration, readMigrations } from "./migration-files.js";
import { isInTheWay, type Obstacle, ObstacleWatch, PATIENCE, type Patience, patiently } from "./migration-locks.js";
import { prepareReader, type ReaderRights } from "./reader-role.js";
import { awaitDatabase } from "./readiness.js";

/**
 * The advisory lock of whoever migrates: "saga" in ASCII. It must never change: releases that run side by side have to agree on it. It is
 * waited for briefly and again, because an index that is built concurrently would wait for the statement that waits.
 */
const MIGRATION_LOCK = 0x73616761;

export interface MigrateOptions {
  /** Default: the folder of this release. */
  readonly folder?: string;
  readonly patience?: Patience;
  /** The roles of clients' reads are prepared, too. Absent: there are none. */
  readonly reader?: ReaderRights | undefined;
}

/**
 * Safe to call from many services at once: they take turns, and all but the first find nothing to do. If Postgres goes away, it waits and begins
 * again. Throws the other errors of Postgres; a migration that fails is rolled back, those before it stay. Throws UnusableDatabase, and changes nothing, if the database has other migrations.
 */
export async function migrateDatabase(url: string, log: Logger, options: MigrateOptions = {}): Promise<void> {
  for (;;) {
    try {
      return await migrateOnce(url, log, options);
    } catch (error) {
      if (!isLost(error)) throw error;
      log.warn({ reason: error.message }, "Postgres went away during the migrations, the start waits for it");
      await delay(PAUSE_MS);
      await awaitDatabase(url, log);
    }
  }
}

const PAUSE_MS = 500;

/** The server stopped, ended the session, or had none to give. */
function isLost(error: unknown): error is Error {
  const state = sqlStateOf(error);
  return error instanceof Error && (state === undefined ? isStoreAway(error) : /^(08|53300|57P)/.test(state));
}

async function migrateOnce(url: string, log: Logger, options: MigrateOptions): Promise<void> {
  const { folder = join(packageRoot(), "src", "store", "migrations"), patience = PATIENCE, reader } = options;
  // One session for the turn and the work: if the turn is lost, so is the transaction.
  const [sql, watching] = [openSession(url, log), openSession(url, log)];
  try {
    await new Migrator({ sql, watching, log, patience, reader }).apply(readMigrations(folder));
    await createEventPartitions(sql, log);
  } finally {
    // The end of the session ends its turn in every case.
    await Promise.all([sql.end({ timeout: 5 }), watching.end({ timeout: 5 })]);
  }
}

/** The session has no timeouts, whatever the database sets: a migration may work on a large table. */
function openSession(url: string, log: Logger): Sql {
  return openSessions(url, {
    ...{ max: 1, max_lifetime: null, idle_timeout: 0, onnotice: noticesTo(log), applicationName: "saga-migrate" },
    settings: { statement_timeout: "0", lock_timeout: "0", idle_in_transaction_session_timeout: "0" },
  });
}

interface MigratorOptions {
  readonly sql: Sql;
  /** A second session, which can ask while the first one waits. */
  readonly watching: Sql;
  readonly log: Logger;
  readonly patience: Patience;
  readonly reader: ReaderRights | undefined;
}

class Migrator {
  constructor(private readonly options: MigratorOptions) {}

  async apply(migrations: readonly Migration[]): Promise<void> {
    const { sql, watching, log, patience, reader } = this.options;
    const [session] = await sql<[{ pid: number }]>`select pg_backend_pid() as pid`;
    const watch = new ObstacleWatch(watching, { pid: session.pid, log });
    try {
      await patiently(() => this.takeTurn(), patience);
      await refuseUnpublished(sql, migrations);
      while (await patiently(() => this.applyNext(migrations), patience));
      if (reader) await patiently(() => prepareReader(sql, reader), patience);
    } catch (error) {
      throw isInTheWay(error) ? new Error(gaveUp(patience, watch.seen), { cause: error }) : error;
    } finally {
      await watch.stop();
    }
  }

  private async takeTurn(): Promise<void> {
    await this.waitForLocks(this.options.patience.lockMs);
    await this.options.sql`select pg_advisory_lock(${MIGRATION_LOCK})`;
  }

  private async waitForLocks(ms: number): Promise<void> {
    await this.options.sql`select set_config('lock_timeout', ${String(ms)}, false)`;
  }

  /** Whether there was one. */
  private async applyNext(migrations: readonly Migration[]): Promise<boolean> {
    const { sql, patience } = this.options;
    const next = await firstPending(sql, migrations);
    if (next === undefined) return false;
    if (next.statements.some(({ builds }) => builds !== undefined)) {
      await this.waitForLocks(patience.totalMs);
      await this.buildIndexes(next);
      await this.waitForLocks(patience.lockMs);
    } else await sql.begin((transaction) => this.inTransaction(transaction, next));
    return true;
  }

  private async inTransaction(transaction: TransactionSql, migration: Migration): Promise<void> {
    for (const { text } of migration.statements) await transaction.unsafe(text);
    await this.record(transaction, migration);
  }

  /** It waits for older transactions, and no session waits for it. A build that was interrupted has left an invalid index. */
  private async buildIndexes(migration: Migration): Promise<void> {
    const { sql, log } = this.options;
    for (const { text, builds: name } of migration.statements) {
      const [index] =
        await sql`select indisvalid as valid from pg_index where indexrelid = to_regclass(${name as string})`;
      if (index?.valid) continue;
      if (index) await sql.unsafe(`drop index concurrently "${name}"`);
      log.info({ index: name }, "building an index");
      await sql.unsafe(text);
    }
    await this.record(sql, migration);
  }

  private async record(sql: Sql | TransactionSql, { name, hash, when }: Migration): Promise<void> {
    await sql.unsafe(`create schema if not exists drizzle;
      create table if not exists drizzle.__drizzle_migrations (id serial primary key, hash text not null, created_at bigint)`);
    await sql`insert into drizzle.__drizzle_migrations (hash, created_at) values (${hash}, ${when})`;
    this.options.log.debug({ migration: name }, "migration applied");
  }
}

/** Migrations are recorded in the table of drizzle's own migrator. */
async function isRecorded(sql: Sql): Promise<boolean> {
  const [known] = await sql<
    [{ found: boolean }]
  >`select to_regclass('drizzle.__drizzle_migrations') is not null as found`;
  return known.found;
}

/** A database that this service has migrated has the first migration, by its hash, whatever later releases have added. */
async function refuseUnpublished(sql: Sql, [baseline]: readonly Migration[]): Promise<void> {
  if (!(await isRecorded(sql))) return;
  const [recorded] = await sql<[{ some: boolean; baseline: boolean }]>`
    select count(*) > 0 as some, coalesce(bool_or(hash = ${baseline?.hash ?? ""}), false) as baseline from drizzle.__drizzle_migrations`;
  if (recorded.some && !recorded.baseline)
    throw new UnusableDatabase(
      "The database was made by an unpublished build of this service, which no release can read: start with an empty one. Nothing in it was changed",
    );
}

async function firstPending(sql: Sql, migrations: readonly Migration[]): Promise<Migration | undefined> {
  if (!(await isRecorded(sql))) return migrations[0];
  const [latest] = await sql<
    [{ when: string | null }]
  >`select max(created_at) as when from drizzle.__drizzle_migrations`;
  return migrations.find(({ when }) => latest.when === null || when > Number(latest.when));
}

function gaveUp({ totalMs }: Patience, sessions: readonly Obstacle[]): string {
  const names = sessions.map(
    ({ pid, application, state, seconds }) => `${pid} ("${application}", ${state}, ${seconds} s)`,
  );
  return `the migration has waited ${totalMs / 1_000} s for locks; in its way: ${names.join(", ") || "unknown sessions"}. End these sessions and start the service again`;
}
