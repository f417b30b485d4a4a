// The pause before another try, for the service, its pages and workers. The retries of a step are not here: their policy is a part of
// the definition (machines/values/retry.ts).

/** Milliseconds, or another unit for both. */
export interface Backoff {
  /** The first pause, at most. */
  readonly base: number;
  /** The longest one. */
  readonly cap: number;
}

/**
 * The pause after a number of failures in a row, counted from 0: doubled with each, up to the cap, and between half and all of that, so that
 * those that failed together do not come back together. `random` is for tests.
 */
export function backoff(failures: number, { base, cap }: Backoff, random: () => number = Math.random): number {
  return Math.min(base * 2 ** Math.min(failures, 64), cap) * (0.5 + random() / 2);
}
