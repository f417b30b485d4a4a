// Opens the pool of Postgres sessions that a process works with, and closes it. What its queries mean is elsewhere; LISTEN
// and the migrations have sessions of their own.
import { drizzle, type PostgresJsDatabase } from "drizzle-orm/postgres-js";
import postgres, { type Notice, type Sql } from "postgres";
import type { Logger } from "../log.js";
import * as schema from "./schema.js";

export interface Database {
  /** int8 and numeric arrive as strings, timestamps as Dates, `json` parsed (by JSON.parse). */
  readonly sql: Sql;
  readonly db: PostgresJsDatabase<typeof schema>;
  /** Waits up to two seconds for running queries. Complete on return, safe twice. */
  close(): Promise<void>;
}

export interface DatabaseOptions {
  /** Most sessions this pool opens. */
  readonly max: number;
  readonly applicationName: string;
  readonly log: Logger;
}

/** Milliseconds. A session that a frozen process leaves behind must not hold a row of a run for long. */
const SESSION_TIMEOUTS = {
  statement_timeout: 30_000,
  lock_timeout: 5_000,
  idle_in_transaction_session_timeout: 10_000,
};

const CONNECT_TIMEOUT_S = 10;
/**
 * Seconds before a lost session is opened again. The driver's own reach 20 s after a few refusals, counted over the whole
 * pool: callers would wait longer than their replays are meant to take, and a server that is back would stand unused.
 */
const reconnectAfter = (tries: number) => Math.min(0.02 * 2 ** tries, 1) * (0.5 + Math.random() / 2);
/** The callers have drained before. After a lost connection postgres.js waits for this long even where nothing runs. */
const CLOSE_TIMEOUT_S = 2;

/** Connects lazily: a server that is not there yet fails the queries, not this call. Lost connections are opened again. */
export function openDatabase(url: string, { max, applicationName, log }: DatabaseOptions): Database {
  refuseAsynchronousCommit(url);
  const sql = postgres(url, {
    max,
    connect_timeout: CONNECT_TIMEOUT_S,
    backoff: reconnectAfter,
    // Arrays as parameters need their types' ids, which only the catalogue knows: one query per pool.
    fetch_types: true,
    connection: { application_name: applicationName, synchronous_commit: "on", ...SESSION_TIMEOUTS },
    onnotice: noticesTo(log),
  });
  const db = withDrizzle(sql);
  let closing: Promise<void> | undefined;
  const close = () => {
    closing ??= sql.end({ timeout: CLOSE_TIMEOUT_S });
    return closing;
  };
  return { sql, db, close };
}

/** Parameters of the URL would win over ours, and a commit that is answered before it is on disk breaks law 4 of the design. */
function refuseAsynchronousCommit(url: string): void {
  if (new URL(url).search.includes("synchronous_commit")) {
    throw new Error(
      "The database URL sets synchronous_commit: every commit of this service must be durable. Remove it.",
    );
  }
}

/** Notices are the server's words about our own statements; they hold no row data at these levels. */
export function noticesTo(log: Logger): (notice: Notice) => void {
  return (notice) => {
    const level = notice.severity === "WARNING" ? "warn" : "debug";
    log[level]({ code: notice.code }, `postgres: ${notice.message}`);
  };
}

const TIME_TYPES = ["1184", "1082", "1083", "1114"];
const JSON_TYPES = ["114", "3802"];

/**
 * Drizzle rewires the client it is given: times come back as strings and JSON goes out unserialized, for everybody. Times
 * are put back as they were (drizzle copes with Dates); JSON parameters are serialized unless they are strings, which are
 * taken for JSON text: that is what drizzle's columns and our own statements hand over.
 */
function withDrizzle(sql: Sql): PostgresJsDatabase<typeof schema> {
  const { parsers, serializers } = sql.options as unknown as Converters;
  const before = TIME_TYPES.map((type) => ({ type, parse: parsers[type], serialize: serializers[type] }));
  const db = drizzle(sql, { schema });
  for (const { type, parse, serialize } of before) {
    parsers[type] = parse;
    serializers[type] = serialize;
  }
  for (const type of JSON_TYPES) serializers[type] = jsonText;
  return db;
}

type Convert = ((value: unknown) => unknown) | undefined;

/** Keyed by type id; postgres.js types them by number, and looks them up by either. */
interface Converters {
  readonly parsers: Record<string, Convert>;
  readonly serializers: Record<string, Convert>;
}

function jsonText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
