// Locks of migrations. A statement that waits for a table makes every later session wait behind it, so a migration waits briefly and
// tries again, and the log says what is in its way.

import type { Sql } from "postgres";
import { clearInterval, delay, performance, setInterval } from "../../ambient.js";
import type { Logger } from "../../log.js";
import { backoff } from "../../sdk/backoff.js";
import { sqlStateOf } from "../engine/failure.js";

/** How long a migration waits. In milliseconds. */
export interface Patience {
  /** The wait for one lock, at each try: starts of runs may wait behind it. */
  readonly lockMs: number;
  /** The wait in all: afterwards an operator has to look. */
  readonly totalMs: number;
}

export const PATIENCE: Patience = { lockMs: 200, totalMs: 10 * 60_000 };

const PAUSE_MS = { base: 250, cap: 5_000 };
/** Shorter than a try, which ends with what it waits for. */
const LOOK_MS = 50;
const LOG_MS = 10_000;

/** The lock was not free in time, or waiting for it closed a circle. */
const IN_THE_WAY = new Set(["55P03", "40P01"]);

export function isInTheWay(error: unknown): boolean {
  return IN_THE_WAY.has(sqlStateOf(error) ?? "");
}

/** Tries again while other sessions are in the way. Throws the last error when the patience is used up. */
export async function patiently<T>(attempt: () => Promise<T>, { totalMs }: Patience): Promise<T> {
  const latest = performance.now() + totalMs;
  for (let tries = 0; ; tries++) {
    try {
      return await attempt();
    } catch (error) {
      if (!isInTheWay(error) || performance.now() > latest) throw error;
    }
    await delay(backoff(tries, PAUSE_MS));
  }
}

/** A session that another one waits for. It has no query text, which may contain data. */
export interface Obstacle {
  readonly pid: number;
  readonly application: string;
  readonly state: string;
  /** The age of its transaction. */
  readonly seconds: number;
}

/** Watches a session from another one, and logs which sessions it waits for. */
export class ObstacleWatch {
  /** The latest ones. */
  seen: readonly Obstacle[] = [];
  private readonly timer: NodeJS.Timeout;
  private looking: Promise<void> | undefined;
  private logged = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly sql: Sql,
    private readonly watched: { readonly pid: number; readonly log: Logger },
  ) {
    this.timer = setInterval(() => {
      // An error is no news: the migration itself reports it.
      this.looking ??= this.look()
        .catch(() => {})
        .finally(() => {
          this.looking = undefined;
        });
    }, LOOK_MS).unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.timer);
    await this.looking;
  }

  private async look(): Promise<void> {
    const { pid, log } = this.watched;
    const found = await this.sql<Obstacle[]>`
      select pid, application_name as application, state, extract(epoch from now() - xact_start)::int as seconds
      from pg_stat_activity where pid = any(pg_blocking_pids(${pid}))`;
    if (found.length === 0) return;
    this.seen = [...found];
    if (performance.now() - this.logged < LOG_MS) return;
    this.logged = performance.now();
    log.warn({ sessions: this.seen }, "migration waits for other sessions");
  }
}
