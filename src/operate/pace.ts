// The pace of a node's bulk acts: so many a second over all its jobs, and a bounded number at once. It knows nothing of what it paces.
import { delay, performance } from "../ambient.js";
import { Semaphore } from "../work/semaphore.js";

const AT_ONCE = 16;
/** Time that was lost, to a slow answer or a late timer, is made up for within this. */
const SLACK_MS = 50;

export interface PaceTime {
  /** Milliseconds since an arbitrary moment, never set. */
  now(): number;
  sleep(ms: number): Promise<unknown>;
}

const TIME: PaceTime = { now: () => performance.now(), sleep: (ms) => delay(ms) };

export class Pace {
  private readonly acts = new Semaphore(AT_ONCE);
  private readonly intervalMs: number;
  /** When the next act may begin. */
  private next = Number.NEGATIVE_INFINITY;

  constructor(
    perSecond: number,
    private readonly time = TIME,
  ) {
    this.intervalMs = 1_000 / perSecond;
  }

  /** Acts that are due in a quarter of a second: with so many at a time, a job's progress moves, and a stop is seen, soon. */
  get batch(): number {
    return Math.max(1, Math.min(500, Math.ceil(250 / this.intervalMs)));
  }

  /** The works of several jobs come in turns. */
  run<T>(work: () => Promise<T>): Promise<T> {
    return this.acts.run(async () => {
      await this.turn();
      return work();
    });
  }

  private async turn(): Promise<void> {
    const now = this.time.now();
    this.next = Math.max(this.next, now - SLACK_MS) + this.intervalMs;
    const wait = this.next - now;
    if (wait > 0) await this.time.sleep(wait);
  }
}
