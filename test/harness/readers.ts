// Sessions of clients' reads as a node opens them with access on: as the roles that may only read, under row-level security.
import type { Sql } from "postgres";
import { type Database, openDatabase } from "../../src/store/engine/connection.js";
import { NO_READ, ReaderSession } from "../../src/store/lists/reader-session.js";
import { prepareReader, READER_ROLE } from "../../src/store/migrate/reader-role.js";
import { silentLog } from "./database.js";

export interface OpenReaders {
  readonly sessions: readonly ReaderSession[];
  /** The same sessions, without a read. */
  readonly databases: readonly Database[];
  close(): Promise<void>;
}

/** `owner`: a session of the login that owns the tables. */
export async function openReaders(
  { sql, url }: { readonly sql: Sql; readonly url: string },
  count = 2,
): Promise<OpenReaders> {
  await prepareReader(sql, { ownLogin: true });
  const settings = { ...NO_READ, role: READER_ROLE };
  const databases = Array.from({ length: count }, () =>
    openDatabase(url, { max: 1, applicationName: "saga-test-reader", log: silentLog, settings }),
  );
  const sessions = databases.map((database) => new ReaderSession(database.sql, async () => {}, READER_ROLE));
  const close = async () => {
    await Promise.all(databases.map((database) => database.close()));
  };
  return { sessions, databases, close };
}
