// Database time on this node: an offset on the monotonic clock, measured at start and at every heartbeat (law 8). All due times
// are compared by it. The host's own clock is never read, so setting it changes nothing.

import type { Sql } from "postgres";
import { performance } from "./ambient.js";

export interface Clock {
  /** Epoch milliseconds, database time. It goes back only where the database's own clock was set back. */
  now(): number;
}

/** Seconds per second by which the two clocks may run apart: NTP corrects no faster than that. */
const DRIFT = 0.000_5;
/** A database whose clock jumps back by more than this was set back, or is another server: its time is followed. */
const SET_BACK_MS = 5_000;

interface Measurement {
  /** Database time minus the monotonic clock, at least: an offset below it is behind the database. */
  readonly least: number;
  /** And at most: an offset above it is ahead of the database. */
  readonly most: number;
}

export class DatabaseClock implements Clock {
  private offset = Number.NEGATIVE_INFINITY;
  private measuredAt = 0;
  private last = 0;

  /** `monotonic`: milliseconds since an arbitrary moment, never set. */
  constructor(private readonly monotonic: () => number = () => performance.now()) {}

  now(): number {
    this.last = Math.max(this.last, Math.floor(this.monotonic() + this.offset));
    return this.last;
  }

  async measure(sql: Sql): Promise<void> {
    const asked = this.monotonic();
    const [row] = await sql<{ now: Date }[]>`select clock_timestamp() as now`;
    if (!row) return;
    const answered = this.monotonic();
    this.adjust({ least: row.now.getTime() - answered, most: row.now.getTime() + 1 - asked }, answered);
  }

  /**
   * The database answered at some moment of the round trip, so each measurement bounds the offset from both sides. The clock
   * is set to the largest offset that is certainly not ahead: nothing fires early, and a slow round trip does not set it back.
   */
  private adjust({ least, most }: Measurement, at: number): void {
    const kept = this.offset - DRIFT * (at - this.measuredAt);
    this.offset = kept >= least && kept <= most ? kept : least;
    this.measuredAt = at;
    if (this.last - (at + this.offset) > SET_BACK_MS) this.last = 0;
  }
}
