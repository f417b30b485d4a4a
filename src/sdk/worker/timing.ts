// The worker's intervals and bounds, with their defaults. Times in milliseconds.

export interface Timing {
  /** An answer that was not recorded is sent again after this time. */
  readonly resendMs: number;
  /** Reconnecting and registering: doubled with every failure, between these two, with jitter. */
  readonly backoffMs: number;
  readonly backoffMaxMs: number;
  /** A stream whose hello is not acknowledged within this time is given up. */
  readonly helloMs: number;
  /** After looking for further nodes in vain, how long before it looks again. */
  readonly lookAgainMs: number;
  /** What `stop` grants actions after it aborted them. */
  readonly abortGraceMs: number;
}

export const DEFAULT_TIMING: Timing = {
  resendMs: 1_000,
  backoffMs: 100,
  backoffMaxMs: 5_000,
  helloMs: 10_000,
  lookAgainMs: 30_000,
  abortGraceMs: 1_000,
};

export function jitteredBackoff({ backoffMs, backoffMaxMs }: Timing, tries: number): number {
  return Math.min(backoffMs * 2 ** tries, backoffMaxMs) * (0.5 + Math.random() / 2);
}
