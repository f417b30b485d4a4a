// Times that the host would get wrong, for the service, for workers and for the command. A timer of the host waits at most 24.8 days, and one that is set
// for longer rings at once; this one is armed again. A time limit beside a signal may be forgotten; this one is not.

/** The longest time that a timer of the host can wait. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Rings once, after the time, unless it is stopped. It keeps the process alive until then. */
export class Alarm {
  private timer: NodeJS.Timeout | undefined;
  private isUnref = false;

  constructor(
    private leftMs: number,
    private readonly ring: () => void,
  ) {
    this.arm();
  }

  /** The process may end before it rings. */
  unref(): this {
    this.isUnref = true;
    this.timer?.unref();
    return this;
  }

  stop(): void {
    clearTimeout(this.timer);
  }

  private arm(): void {
    const part = Math.min(Math.max(this.leftMs, 0), LONGEST_TIMER_MS);
    this.leftMs -= part;
    this.timer = setTimeout(() => (this.leftMs > 0 ? this.arm() : this.ring()), part);
    if (this.isUnref) this.timer.unref();
  }
}

/**
 * Aborted with the signal, or after the time (a TimeoutError), whichever is first. Node 20 collects a limit that only `AbortSignal.any` refers to, and then
 * it is never over: its listener keeps it.
 */
export function within(signal: AbortSignal, ms: number): AbortSignal {
  const limit = AbortSignal.timeout(ms);
  limit.addEventListener("abort", () => {}, { once: true });
  return AbortSignal.any([signal, limit]);
}
