// What the bus dropped, counted by reason. A flood of bad messages gives a handful of lines, not a line each; no line carries
// a message.
import type { Logger } from "../log.js";

export type Dropped =
  | "malformed"
  | "too large"
  | "too many asks"
  | "too many asks at once from others"
  | "nothing takes it"
  | "lost under way";

export class Tally {
  private readonly counts = new Map<string, number>();

  constructor(private readonly log: Logger | undefined) {}

  drop(reason: Dropped): void {
    const count = this.count(reason);
    if (isPowerOfTwo(count)) this.log?.debug({ reason, count }, "the bus dropped a message");
  }

  /** A handler that throws is a fault of this program, so it is said aloud; it never stops the bus. */
  handlerFailed(handler: string, error: unknown): void {
    const count = this.count(handler);
    if (isPowerOfTwo(count)) this.log?.warn({ handler, count, err: error }, "a handler of bus messages failed");
  }

  private count(reason: string): number {
    const count = (this.counts.get(reason) ?? 0) + 1;
    this.counts.set(reason, count);
    return count;
  }
}

const isPowerOfTwo = (count: number) => Number.isInteger(Math.log2(count));
