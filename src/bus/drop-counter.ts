// Counts the messages that the bus drops, by reason, and logs them sparsely: a flood of bad messages gives a handful of lines, and no
// line contains a message.
import type { Logger } from "../log.js";

export type DropReason =
  | "malformed"
  | "unknown"
  | "too large"
  | "too many asks"
  | "too many asks being answered"
  | "not connected or too much unsent"
  | "lost in transit"
  | "unauthentic";

export class DropCounter {
  private readonly counts = new Map<string, number>();

  /** `onDropped`: hears of each. */
  constructor(
    private readonly log: Logger | undefined,
    private readonly onDropped?: (reason: DropReason) => void,
  ) {}

  dropped(reason: DropReason): void {
    this.onDropped?.(reason);
    const count = this.count(reason);
    if (isPowerOfTwo(count)) this.log?.debug({ reason, count }, "bus message dropped");
  }

  /** A handler that throws is a bug of this program, so it is a warning; it never stops the bus. */
  handlerFailed(handler: string, error: unknown): void {
    const count = this.count(handler);
    if (isPowerOfTwo(count)) this.log?.warn({ handler, count, err: error }, "bus message handler failed");
  }

  private count(key: string): number {
    const count = (this.counts.get(key) ?? 0) + 1;
    this.counts.set(key, count);
    return count;
  }
}

const isPowerOfTwo = (count: number) => Number.isInteger(Math.log2(count));
