// Database time on this node: the wall clock plus an offset, measured at start and at every heartbeat (law 8). All due times
// are compared by it; nothing else in the runtime asks the operating system for the time.
import type { Sql } from "postgres";

export interface Clock {
  /** Epoch milliseconds, database time; never goes back. */
  now(): number;
}

export class DatabaseClock implements Clock {
  private offset = 0;
  private last = 0;

  now(): number {
    this.last = Math.max(this.last, Math.floor(Date.now() + this.offset));
    return this.last;
  }

  /**
   * Measures the offset. It was that late in the database before the answer came here, so this clock is behind the database's
   * by at most a round trip, and never ahead: nothing fires early.
   */
  async measure(sql: Sql): Promise<void> {
    const [row] = await sql<{ now: Date }[]>`select clock_timestamp() as now`;
    if (row) this.offset = row.now.getTime() - Date.now();
  }
}
