// When operations begin: closed loops, where clients wait for their last operation, and open loops at a fixed rate. It measures nothing. The bench of the repository
// uses it, too.

export interface Schedule {
  readonly count: number;
  /** No operation begins later than this after the first one. */
  readonly durationMs?: number;
  /** Operations at once in a closed loop. */
  readonly concurrency: number;
  /** Makes the loop an open one. */
  readonly ratePerSecond?: number;
  /** In an open loop. Default: MAX_IN_PROGRESS. */
  readonly mostInProgress?: number;
}

export interface Clock {
  /** Milliseconds. */
  now(): number;
  sleep(ms: number): Promise<void>;
}

/**
 * Begins an operation. `intended` is the moment at which it should have begun: in an open loop, time that an operation lost before it
 * began, because the machine or this process was busy, belongs to its latency (no coordinated omission).
 */
export type Begin = (nth: number, intended: number) => Promise<void>;

const REAL: Clock = {
  now: () => performance.now(),
  sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
};

/** Bounds the memory and the connections of an open loop that the service cannot keep up with. */
export const MAX_IN_PROGRESS = 5_000;

/** A loop that is stopped while it sleeps goes on for this long. */
const MAX_SLEEP_MS = 250;

/** Resolves when all operations that began have ended. `begin` must not reject. */
export function drive(schedule: Schedule, begin: Begin, stop?: AbortSignal, clock = REAL): Promise<void> {
  return schedule.ratePerSecond === undefined
    ? closedLoop(schedule, begin, stop, clock)
    : openLoop(schedule, schedule.ratePerSecond, begin, stop, clock);
}

async function closedLoop(
  schedule: Schedule,
  begin: Begin,
  stop: AbortSignal | undefined,
  clock: Clock,
): Promise<void> {
  const until = clock.now() + (schedule.durationMs ?? Number.POSITIVE_INFINITY);
  let next = 0;
  const client = async () => {
    while (next < schedule.count && clock.now() < until && !stop?.aborted) await begin(next++, clock.now());
  };
  await Promise.all(Array.from({ length: Math.min(schedule.concurrency, schedule.count) }, client));
}

async function openLoop(
  { count, durationMs = Number.POSITIVE_INFINITY, mostInProgress = MAX_IN_PROGRESS }: Schedule,
  ratePerSecond: number,
  begin: Begin,
  stop: AbortSignal | undefined,
  clock: Clock,
): Promise<void> {
  const since = clock.now();
  const room = new Room(mostInProgress);
  for (let nth = 0; nth < count && !stop?.aborted; nth++) {
    const offset = (nth * 1_000) / ratePerSecond;
    if (offset >= durationMs) break;
    for (let early = since + offset - clock.now(); early > 0 && !stop?.aborted; early = since + offset - clock.now())
      await clock.sleep(Math.min(early, MAX_SLEEP_MS));
    await room.enter();
    if (stop?.aborted) {
      room.leave();
      break;
    }
    begin(nth, since + offset).finally(() => room.leave());
  }
  await room.empty();
}

/** A bound on the operations in progress. One caller waits at a time. */
class Room {
  private inside = 0;
  private below = Number.POSITIVE_INFINITY;
  private resume = () => {};

  constructor(private readonly places: number) {}

  async enter(): Promise<void> {
    await this.fewerThan(this.places);
    this.inside++;
  }

  leave(): void {
    this.inside--;
    if (this.inside < this.below) this.resume();
  }

  empty(): Promise<void> {
    return this.fewerThan(1);
  }

  private async fewerThan(most: number): Promise<void> {
    if (this.inside < most) return;
    this.below = most;
    await new Promise<void>((resolve) => {
      this.resume = resolve;
    });
  }
}
