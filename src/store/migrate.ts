// Brings a database up to this release: applies the migration files, one service at a time, and makes the partitions of
// the audit log. It never waits for other services to stop: migrations must suit the release before, too.
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { drizzle } from "drizzle-orm/postgres-js";
import { migrate } from "drizzle-orm/postgres-js/migrator";
import postgres from "postgres";
import type { Logger } from "../log.js";
import { noticesTo } from "./connection.js";
import { createEventPartitions } from "./partitions.js";

/** The advisory lock of migrations: "saga" in ASCII. Must never change: releases side by side have to agree on it. */
const MIGRATION_LOCK = 0x73616761;

/**
 * Safe to call by many services at once: they take turns, and all but the first find nothing to do.
 * Throws what Postgres throws; a migration that fails leaves nothing of itself behind.
 */
export async function migrateDatabase(url: string, log: Logger): Promise<void> {
  // One session for lock and work: where the lock is lost the transaction is lost with it. No timeouts: a migration may
  // rewrite a large table, and its turn may be long in coming.
  const sql = postgres(url, {
    max: 1,
    max_lifetime: null,
    idle_timeout: 0,
    connection: { application_name: "saga-migrate", statement_timeout: 0, lock_timeout: 0 },
    onnotice: noticesTo(log),
  });
  try {
    await sql`select pg_advisory_lock(${MIGRATION_LOCK})`;
    await migrate(drizzle(sql), { migrationsFolder: join(packageRoot(), "src", "store", "migrations") });
    await createEventPartitions(sql, log);
  } finally {
    // Ending the session frees the lock, however the work went.
    await sql.end({ timeout: 5 });
  }
}

/** The nearest package.json upwards: this file runs from `src` in tests and from `dist/src` in service. */
export function packageRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json"))) {
    const parent = dirname(folder);
    if (parent === folder) throw new Error("This service is not inside a package: no package.json above its files");
    folder = parent;
  }
  return folder;
}
