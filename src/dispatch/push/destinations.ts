// Which destinations are away, and when each is tried again: with one try at a time, after a pause that doubles. It has no timer: its owner
// asks what is due. A destination that takes a dispatch is not away any more.
import { performance } from "../../ambient.js";
import { backoff } from "../../sdk/backoff.js";

/** What keeps dispatches from a destination. The names are public: a metric has them as labels. */
export type AwayReason = "no_connection" | "no_queue" | "busy" | "unconfirmed";

export interface NotReached {
  readonly reason: AwayReason;
  /** A sentence about it. */
  readonly why: string;
}

/** A destination that took nothing at its last try. */
export interface AwayDestination extends NotReached {
  readonly destination: string;
  /** Epoch milliseconds. */
  readonly since: number;
}

interface Away {
  readonly since: number;
  last: NotReached;
  failures: number;
  /** On the monotonic clock. */
  dueAt: number;
  /** When the try that is under way began, on the monotonic clock. */
  tryingSince: number | undefined;
}

export interface DestinationsOptions {
  readonly backoffMs: number;
  readonly backoffMaxMs: number;
  /** The longest pause that a destination may ask for. */
  readonly askedMaxMs: number;
  /** A try that is under way for so long has reached its destination: no connection takes longer. */
  readonly reachedMs: number;
  /** A destination that nothing was sent to for so long is forgotten. */
  readonly forgetMs: number;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

export class Destinations {
  private readonly away = new Map<string, Away>();

  constructor(private readonly options: DestinationsOptions) {}

  /** Whether a try may begin now. */
  admits(destination: string): boolean {
    const away = this.away.get(destination);
    return away === undefined || (away.tryingSince === undefined && away.dueAt <= performance.now());
  }

  began(destination: string): void {
    const away = this.away.get(destination);
    if (away) away.tryingSince = performance.now();
  }

  /** Whatever came of it: also if nothing did. */
  ended(destination: string): void {
    const away = this.away.get(destination);
    if (away) away.tryingSince = undefined;
  }

  reached(destination: string): void {
    this.away.delete(destination);
  }

  /** Tries that were under way together are one failure. */
  failed(destination: string, last: NotReached, afterMs = 0): void {
    const { backoffMs: base, backoffMaxMs: cap, askedMaxMs, now } = this.options;
    const away = this.away.get(destination) ?? newlyAway(last, now());
    const asked = performance.now() + Math.min(afterMs, askedMaxMs);
    away.last = last;
    if (away.dueAt <= performance.now()) away.dueAt = performance.now() + backoff(away.failures++, { base, cap });
    away.dueAt = Math.max(away.dueAt, asked);
    this.away.set(destination, away);
  }

  /** Whether any may be tried. Forgets those to which nothing was sent for long. */
  areDue(): boolean {
    const now = performance.now();
    const { reachedMs, forgetMs } = this.options;
    let due = false;
    for (const [destination, { dueAt, tryingSince }] of this.away) {
      if (tryingSince === undefined ? dueAt > now : tryingSince + reachedMs > now) continue;
      due = true;
      if (tryingSince !== undefined || dueAt + forgetMs <= now) this.away.delete(destination);
    }
    return due;
  }

  get(destination: string): AwayDestination | undefined {
    const away = this.away.get(destination);
    return away && { destination, since: away.since, reason: away.last.reason, why: away.last.why };
  }

  *all(): IterableIterator<AwayDestination> {
    for (const destination of this.away.keys()) {
      const away = this.get(destination);
      if (away) yield away;
    }
  }
}

function newlyAway(last: NotReached, since: number): Away {
  return { last, since, failures: 0, dueAt: 0, tryingSince: undefined };
}
