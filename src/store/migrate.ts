// Brings a database up to this release: applies the migration files, one service at a time, and creates the partitions of the audit
// log. Services of the previous release keep working meanwhile and afterwards (law 13); the rules for the files are in CONTRIBUTING.md.
import { join } from "node:path";
import type { Sql, TransactionSql } from "postgres";
import { packageRoot } from "../config/package.js";
import type { Logger } from "../log.js";
import { noticesTo } from "./connection.js";
import { type Migration, readMigrations } from "./migration-files.js";
import { isInTheWay, type Obstacle, ObstacleWatch, PATIENCE, type Patience, patiently } from "./migration-locks.js";
import { createEventPartitions } from "./partitions.js";
import { openSessions } from "./session.js";

/**
 * Advisory locks: "saga" and "turn" in ASCII. They must never change: releases that run side by side have to agree on them. Releases up to
 * 0.6 hold the first one throughout, and wait for it in one statement, which an index that is built concurrently would wait for. So a
 * transaction takes it, and the second one gives services their turns.
 */
const MIGRATION_LOCK = 0x73616761;
const TURN_LOCK = 0x7475726e;
/** How long the sessions of older nodes have to end. */
const SESSION_END_MS = 2_000;

export interface MigrateOptions {
  /** By default that of this release. */
  readonly folder?: string;
  readonly patience?: Patience;
}

/**
 * Safe to call from many services at once: they take turns, and all but the first find nothing to do. Throws the errors of Postgres; a
 * migration that fails is rolled back, those before it stay.
 */
export async function migrateDatabase(url: string, log: Logger, options: MigrateOptions = {}): Promise<void> {
  const { folder = join(packageRoot(), "src", "store", "migrations"), patience = PATIENCE } = options;
  // One session for the turn and the work: if the turn is lost, so is the transaction.
  const [sql, watching] = [openSession(url, log), openSession(url, log)];
  try {
    await new Migrator({ sql, watching, log, patience }).apply(readMigrations(folder));
    await createEventPartitions(sql, log);
  } finally {
    // The end of the session ends its turn in every case.
    await Promise.all([sql.end({ timeout: 5 }), watching.end({ timeout: 5 })]);
  }
}

/** Without timeouts, whatever the database sets: a migration may work on a large table. */
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
}

class Migrator {
  constructor(private readonly options: MigratorOptions) {}

  async apply(migrations: readonly Migration[]): Promise<void> {
    const { sql, watching, log, patience } = this.options;
    const [session] = await sql<[{ pid: number }]>`select pg_backend_pid() as pid`;
    const watch = new ObstacleWatch(watching, { pid: session.pid, log });
    try {
      await patiently(() => this.takeTurn(), patience);
      while (await patiently(() => this.applyNext(migrations), patience));
    } catch (error) {
      throw isInTheWay(error) ? new Error(gaveUp(patience, watch.seen), { cause: error }) : error;
    } finally {
      await watch.stop();
    }
  }

  private async takeTurn(): Promise<void> {
    await this.waitForLocks(this.options.patience.lockMs);
    await this.options.sql`select pg_advisory_lock(${TURN_LOCK})`;
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
    } else await sql.begin((transaction) => this.inTransaction(transaction, migrations));
    return true;
  }

  private async inTransaction(transaction: TransactionSql, migrations: readonly Migration[]): Promise<void> {
    await transaction`select pg_advisory_xact_lock(${MIGRATION_LOCK})`;
    // A service of an earlier release may have been faster.
    const migration = await firstPending(transaction, migrations);
    if (migration === undefined) return;
    for (const { text, grows } of migration.statements) {
      if (grows !== undefined) await endOlderSessions(transaction, grows);
      await transaction.unsafe(text);
    }
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

/** Migrations are recorded in the table of drizzle's own migrator, which earlier releases use. */
async function firstPending(
  sql: Sql | TransactionSql,
  migrations: readonly Migration[],
): Promise<Migration | undefined> {
  const [known] = await sql<
    [{ found: boolean }]
  >`select to_regclass('drizzle.__drizzle_migrations') is not null as found`;
  if (!known.found) return migrations[0];
  const [latest] = await sql<
    [{ when: string | null }]
  >`select max(created_at) as when from drizzle.__drizzle_migrations`;
  return migrations.find(({ when }) => latest.when === null || when > Number(latest.when));
}

/** Tables that nodes of release 0.6 read with `*`. */
const READ_WITH_STAR: ReadonlySet<string> = new Set(["runs", "actions"]);

/**
 * A new column invalidates such a statement where it is prepared, and the driver of those nodes then mixes up the answers of the session. So
 * their sessions end while the table is locked: the nodes open others, which prepare it anew.
 */
async function endOlderSessions(transaction: TransactionSql, table: string): Promise<void> {
  if (!READ_WITH_STAR.has(table)) return;
  await transaction.unsafe(`lock table "${table}" in access exclusive mode`);
  // The others of its pool end with a session: each that has gone would be a warning.
  await transaction`set local client_min_messages = error`;
  await transaction`
    select pg_terminate_backend(pid, ${SESSION_END_MS}) from pg_stat_activity
    where datname = current_database() and application_name = 'saga' and exists (select from nodes where record_format < 2)`;
}

function gaveUp({ totalMs }: Patience, sessions: readonly Obstacle[]): string {
  const names = sessions.map(
    ({ pid, application, state, seconds }) => `${pid} ("${application}", ${state}, ${seconds} s)`,
  );
  return `the migration has waited ${totalMs / 1_000} s for locks; in its way: ${names.join(", ") || "unknown sessions"}. End these sessions and start the service again`;
}
