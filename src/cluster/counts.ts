// Counts over whole tables, for gauges: one node of the cluster takes them for all. They are never urgent, and a large store makes
// them slow, so they use little of the database's time.

/** Between two counts, and at least so many times what the last one took: one session is busy for a twentieth of the time at most. */
const PAUSE_MS = 5_000;
const PAUSE_FACTOR = 19;

export interface CountsOptions {
  /** Whether this node counts; another one does if not. */
  readonly isMine: () => boolean;
  readonly count: () => Promise<void>;
  /** The values on this node are outdated: another node counts from now on. */
  readonly forget: () => void;
  readonly pauseMs?: number;
}

export class Counts {
  private timer: NodeJS.Timeout | undefined;
  private counting: Promise<void> | undefined;
  private stopped = false;

  constructor(private readonly options: CountsOptions) {}

  start(): void {
    this.schedule(0);
  }

  /** Safe to call twice. */
  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    await this.counting;
  }

  private schedule(tookMs: number): void {
    if (this.stopped) return;
    const pause = Math.max(this.options.pauseMs ?? PAUSE_MS, PAUSE_FACTOR * tookMs);
    this.timer = setTimeout(() => {
      this.counting = this.round();
    }, pause).unref();
  }

  private async round(): Promise<void> {
    const { isMine, count, forget } = this.options;
    const began = performance.now();
    if (isMine())
      await count().catch(() => {
        // The store is away: the gauges keep their values.
      });
    // Also a count during which the shards were placed anew.
    if (!isMine()) forget();
    this.schedule(performance.now() - began);
  }
}
