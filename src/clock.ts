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

  /** Measures the offset; half the round trip is its error. */
  async measure(sql: Sql): Promise<void> {
    const before = Date.now();
    const [row] = await sql<{ now: Date }[]>`select clock_timestamp() as now`;
    if (row) this.offset = row.now.getTime() - (before + Date.now()) / 2;
  }
}
