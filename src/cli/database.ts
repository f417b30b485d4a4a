// The database of the service, for commands that read or change what is in it: that of DATABASE_URL, or the embedded one, whose server is started
// where no service runs. A command needs no running service.
import type { Sql } from "postgres";
import { printableDatabaseUrl, readPlace } from "../config/index.js";
import { Failure } from "./exit.js";

export interface DatabaseUse {
  /** Applies the migrations of this release, as the start of the service does: the command may be the first to use the database. */
  readonly migrates?: boolean;
}

/** Throws Failure where the database cannot be used. */
export async function withDatabase<T>(
  work: (sql: Sql) => Promise<T>,
  { migrates = false }: DatabaseUse = {},
): Promise<T> {
  const { databaseUrl, dataDir } = readPlace();
  const { createLogger } = await import("../log.js");
  const log = createLogger({ logLevel: "silent" });
  const { isStoreAway, sqlStateOf } = await import("../store/engine/failure.js");
  const { openDatabase } = await import("../store/engine/connection.js");
  // Each folder has an embedded one of its own, so the sentences say which database it is.
  const place = databaseUrl === undefined ? `the embedded one in ${dataDir}` : printableDatabaseUrl(databaseUrl);
  const embedded = databaseUrl === undefined ? await joinEmbedded(dataDir) : undefined;
  try {
    const url = databaseUrl ?? embedded?.url ?? "";
    const { sql, close } = openDatabase(url, { max: 1, applicationName: "saga-command", log });
    try {
      // A migration waits for a database that is away. A command does not.
      const [before] = await sql<[{ used: boolean }]>`
        select to_regclass('drizzle.__drizzle_migrations') is not null as used`;
      if (migrates) {
        const { migrateDatabase } = await import("../store/migrate/migrate.js");
        await migrateDatabase(url, log);
        if (!before.used)
          process.stderr.write(`saga: no service has used this database before, so its tables were made: ${place}\n`);
      }
      return await work(sql);
    } catch (error) {
      // Messages of Postgres quote values.
      if (isStoreAway(error))
        throw new Failure(`the database cannot be used now (${(error as { code: string }).code})`);
      if (sqlStateOf(error) === NO_TABLE) throw new Failure(`the database has no tables of this service yet: ${place}`);
      throw asFailure(error);
    } finally {
      await close();
    }
  } finally {
    await embedded?.stop();
  }

  async function joinEmbedded(folder: string) {
    const { joinEmbeddedPostgres } = await import("../store/embedded/postgres.js");
    return joinEmbeddedPostgres({ dataDir: folder, log }).catch((error: unknown) => {
      throw asFailure(error);
    });
  }
}

const NO_TABLE = "42P01";
/** Their messages are sentences for the operator. */
const SENTENCES: readonly string[] = [
  "SagaError",
  "UnusableDatabase",
  "DatabaseUrlError",
  "DataDirInUse",
  "UnusableDataDir",
];

function asFailure(error: unknown): unknown {
  return error instanceof Error && SENTENCES.includes(error.name) ? new Failure(error.message) : error;
}
