// The suspects that this node knows: runs and starts that nodes were deciding on when they died. No row counts them, because a client or a
// worker repeats the command. Trying them is gate.ts.

import type { Sql } from "postgres";
import { performance } from "../ambient.js";
import { listSuspects } from "../store/engine/suspects.js";

/** A suspect that has lived through so many trials on this node is tried no more; ten times as many for each further death of a node. */
const LIVES = 20;
/** One that the primary has named is suspected for this long without a row. */
const NAMED_SECONDS = 60;

interface Suspicion {
  readonly deaths: number;
  /** On the monotonic clock. */
  readonly until: number;
  lived: number;
}

export class Suspects {
  private known = new Map<string, Suspicion>();
  private wanted = true;

  constructor(private readonly sql: Sql) {}

  has(key: string): boolean {
    // Nearly always there is none, and every command asks.
    if (this.known.size === 0) return false;
    const found = this.known.get(key);
    return found !== undefined && found.until > performance.now() && found.lived < LIVES * 10 ** (found.deaths - 1);
  }

  /** The primary has seen a node die while it decided on this. Its row follows. */
  name(key: string): void {
    const { deaths = 0, until = 0 } = this.known.get(key) ?? {};
    this.known.set(key, { deaths: deaths + 1, until: Math.max(until, inSeconds(NAMED_SECONDS)), lived: 0 });
    this.wanted = true;
  }

  lived(key: string): void {
    const found = this.known.get(key);
    if (found) found.lived++;
  }

  /** Nodes have come or gone: the next `refresh` reads what the others know. */
  expectNews(): void {
    this.wanted = true;
  }

  /** At every heartbeat. It reads only if there may be news. Throws errors of the store. */
  async refresh(): Promise<void> {
    if (!this.wanted) return;
    this.wanted = false;
    const rows = await listSuspects(this.sql).catch((error: unknown) => {
      this.wanted = true;
      throw error;
    });
    // One that was named a moment ago may have no row yet.
    const now = performance.now();
    const known = new Map([...this.known].filter(([, { until }]) => until > now));
    for (const { key, deaths, secondsLeft } of rows) {
      const before = known.get(key);
      const lived = before && before.deaths >= deaths ? before.lived : 0;
      known.set(key, { deaths: Math.max(deaths, before?.deaths ?? 0), until: inSeconds(secondsLeft), lived });
    }
    this.known = known;
  }
}

const inSeconds = (seconds: number) => performance.now() + seconds * 1_000;
