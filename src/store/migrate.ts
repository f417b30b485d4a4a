// Brings a database up to this release: applies the migration files, one service at a time, and creates the partitions of the audit
// log. It never waits for other services to stop: a migration must also work with the previous release (law 13).
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { drizzle } from "drizzle-orm/postgres-js";
import { migrate } from "drizzle-orm/postgres-js/migrator";
import postgres from "postgres";
import type { Logger } from "../log.js";
import { noticesTo } from "./connection.js";
import { createEventPartitions } from "./partitions.js";

/** The advisory lock of migrations: "saga" in ASCII. Must never change: releases that run side by side have to agree on it. */
const MIGRATION_LOCK = 0x73616761;

/**
 * Safe to call from many services at once: they take turns, and all but the first find nothing to do. Throws the errors of
 * Postgres; a migration that fails is rolled back.
 */
export async function migrateDatabase(url: string, log: Logger): Promise<void> {
  // One session for the lock and the work: if the lock is lost, so is the transaction. No timeouts: a migration may rewrite a large
  // table, and may have to wait long for its turn.
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
    // The end of the session frees the lock in every case.
    await sql.end({ timeout: 5 });
  }
}

/** The folder of the nearest package.json above this file, which runs from `src` in tests and from `dist/src` in production. */
export function packageRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json"))) {
    const parent = dirname(folder);
    if (parent === folder)
      throw new Error("There is no package.json above the files of this service: install it as a package");
    folder = parent;
  }
  return folder;
}
