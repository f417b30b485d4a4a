// A poll: a work that is repeated after a pause, never twice at once. What one poll leaves, the next one finds, on this node or on another.
import type { Logger } from "../log.js";

export interface PollOptions {
  /** From the end of one poll to the beginning of the next. */
  readonly pauseMs: number;
  readonly log: Logger;
  /** What is polled, for the log: "triggers". */
  readonly what: string;
}

export class Poll {
  private timer: NodeJS.Timeout | undefined;
  private polling: Promise<void> = Promise.resolve();
  private stopped = false;

  constructor(
    private readonly work: () => Promise<void>,
    private readonly options: PollOptions,
  ) {}

  start(): void {
    if (this.stopped) return;
    this.timer = setTimeout(() => {
      this.polling = this.now().then(() => this.start());
    }, this.options.pauseMs).unref();
  }

  /** Finishes the poll in progress. */
  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    await this.polling;
  }

  /** Never throws. */
  async now(): Promise<void> {
    const { log, what } = this.options;
    try {
      await this.work();
    } catch (error) {
      log.warn({ err: error }, `${what} could not be polled, retrying at the next interval`);
    }
  }
}
