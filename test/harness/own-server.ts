// A Postgres of a test's own, for services of so many nodes that their sessions and those of the tests beside it are more than the server that all tests
// share takes with its default settings.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import postgres, { type Sql } from "postgres";
import { startEmbeddedPostgres } from "../../src/store/embedded/postgres.js";
import { migrateDatabase } from "../../src/store/migrate/migrate.js";
import { silentLog } from "./database.js";

export interface OwnServer {
  readonly url: string;
  /** One session of the test. */
  readonly sql: Sql;
  /** It is gone, with all that was in it. */
  stop(): Promise<void>;
}

/** Call it in `beforeAll`, and `stop` in `afterAll`. */
export async function startOwnServer({ migrated }: { readonly migrated: boolean }): Promise<OwnServer> {
  const dataDir = await mkdtemp(join(tmpdir(), "saga-own-"));
  const { url, stop } = await startEmbeddedPostgres({ dataDir, log: silentLog });
  if (migrated) await migrateDatabase(url, silentLog);
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  return {
    url,
    sql,
    stop: async () => {
      await sql.end({ timeout: 1 });
      await stop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}
