// Opens the pool of Postgres sessions that a process works with, and closes it. The statements are elsewhere; LISTEN and the
// migrations have sessions of their own.
import type { Notice, Sql } from "postgres";
import type { Logger } from "../../log.js";
import { type Sealing, useSealing } from "../sealed/sealing.js";
import { openSessions } from "./session.js";

export interface Database {
  /** int8 and numeric arrive as strings, timestamps as Dates, `json` parsed. */
  readonly sql: Sql;
  /** New sessions for all that comes: the server that the present ones belong to is not the right one any more. What they still do is cut off after two seconds. */
  renew(): void;
  /** Waits up to two seconds for running queries. Complete on return, safe twice. */
  close(): Promise<void>;
}

export interface DatabaseOptions {
  /** The most sessions that the pool opens. */
  readonly max: number;
  readonly applicationName: string;
  readonly log: Logger;
  /** Postgres refuses every write. */
  readonly readOnly?: boolean;
  /** Settings of its sessions besides those of every pool. `role`: the role that they begin as, and that a reset goes back to. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Opens what is sealed, and seals what its statements write. Absent: encryption is off, or values are to be read as they are stored. */
  readonly sealing?: Sealing;
  /** Postgres plans each statement once a session: for statements of one shape, whatever their parameters. */
  readonly plannedOnce?: boolean;
}

/** Milliseconds. The session of a frozen process must not hold a row of a run for long. */
const SESSION_TIMEOUTS = {
  statement_timeout: "30000",
  lock_timeout: "5000",
  idle_in_transaction_session_timeout: "10000",
};

/**
 * Every statement finds its rows by an index. The statements are prepared once a session, often while the tables are empty: a plan that
 * reads a whole table or walks through a whole index is right then, and stays when a million rows have come.
 */
const PLANS = { enable_seqscan: "off", enable_mergejoin: "off", jit: "off" };

/** Postgres plans a statement again at each execution where the estimates for known parameters are lower: 1 ms for a commit of 0.3. */
const PLANNED_ONCE = { plan_cache_mode: "force_generic_plan" };

/** The callers have drained before. After a lost connection, postgres.js waits for this long even if no query is running. */
const CLOSE_TIMEOUT_S = 2;

/** Connects lazily: if the server is not reachable yet, the queries fail, not this call. Lost connections are opened again. */
export function openDatabase(url: string, options: DatabaseOptions): Database {
  const open = () => openPool(url, options);
  let pool = open();
  let closing: Promise<void> | undefined;
  const renew = () => {
    if (closing) return;
    const old = pool;
    pool = open();
    // Not at once: commits that are on their way are answered.
    void old.end({ timeout: CLOSE_TIMEOUT_S });
  };
  const close = () => {
    closing ??= pool.end({ timeout: CLOSE_TIMEOUT_S });
    return closing;
  };
  const sql = following(() => pool);
  useSealing(sql, options.sealing);
  return { sql, renew, close };
}

/** The present pool, whichever that is: callers keep one object. The driver cannot replace the sessions of a pool. */
function following(pool: () => Sql): Sql {
  const target = (() => {}) as unknown as Sql;
  return new Proxy(target, {
    apply: (_, __, parameters) => Reflect.apply(pool(), undefined, parameters),
    get: (_, name) => Reflect.get(pool(), name),
  });
}

function openPool(
  url: string,
  { max, applicationName, log, readOnly, plannedOnce, settings, sealing }: DatabaseOptions,
): Sql {
  return openSessions(url, {
    ...{ max, applicationName, onnotice: noticesTo(log) },
    ...(sealing && { parseJson: sealing.parse }),
    settings: {
      ...{ ...SESSION_TIMEOUTS, ...PLANS },
      ...(readOnly && { default_transaction_read_only: "on" }),
      ...(plannedOnce && PLANNED_ONCE),
      ...settings,
    },
  });
}

/** Notices are the server's messages about our own statements; at these levels they contain no row data. */
export function noticesTo(log: Logger): (notice: Notice) => void {
  return (notice) => {
    const level = notice.severity === "WARNING" ? "warn" : "debug";
    log[level]({ code: notice.code }, `postgres: ${notice.message}`);
  };
}
