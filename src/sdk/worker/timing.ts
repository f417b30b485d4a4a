// The worker's intervals and time limits, with their defaults.
import { backoff } from "../backoff.js";
import { LONGEST_TIMER_MS } from "../timer.js";

/** All times are in milliseconds. */
export interface Timing {
  /** An unrecorded answer is sent again after this time. Default 1,000. */
  readonly resendMs: number;
  /**
   * Pause before reconnecting or registering again: doubled with every failure up to `backoffMaxMs`, with jitter.
   * Default 100.
   */
  readonly backoffMs: number;
  /** Default 5,000. */
  readonly backoffMaxMs: number;
  /**
   * How often a worker over HTTP or RabbitMQ, which has no connection to the service, makes sure that its actions are registered. Default
   * 60,000.
   */
  readonly registerAgainMs: number;
  /** A stream whose hello is not acknowledged within this time is opened again, over another connection. Default 10,000. */
  readonly helloMs: number;
  /** Pause after a search for further nodes that found none. Default 30,000. */
  readonly lookAgainMs: number;
  /** A connection over which nothing came for this long is asked for a sign of life. Default 10,000, at least 1,000. */
  readonly keepaliveMs: number;
  /** A connection without the sign of life after this time is given up. Default 5,000, at least 100. */
  readonly keepaliveTimeoutMs: number;
  /** How long `stop` waits for actions that it has aborted. Default 1,000. */
  readonly abortGraceMs: number;
}

export const DEFAULT_TIMING: Timing = {
  resendMs: 1_000,
  backoffMs: 100,
  backoffMaxMs: 5_000,
  registerAgainMs: 60_000,
  helloMs: 10_000,
  lookAgainMs: 30_000,
  keepaliveMs: 10_000,
  keepaliveTimeoutMs: 5_000,
  abortGraceMs: 1_000,
};

/** A timer of the host rings at once if it is set for longer than it can wait. */
export function completeTiming(given: Partial<Timing> = {}): Timing {
  const bounded = Object.entries({ ...DEFAULT_TIMING, ...given }).map(([name, ms]) => [
    name,
    Math.min(ms, LONGEST_TIMER_MS),
  ]);
  return Object.fromEntries(bounded) as unknown as Timing;
}

/** The pause before the next try. `tries` counts from 0. */
export function jitteredBackoff({ backoffMs: base, backoffMaxMs: cap }: Timing, tries: number): number {
  return backoff(tries, { base, cap });
}
