// Retry policies: their defaults, and the delay before the next attempt.
export interface RetryPolicy {
  /** Includes the first attempt. -1: unlimited. */
  readonly max_attempts: number;
  readonly initial_backoff_ms: number;
  readonly max_backoff_ms: number;
  readonly multiplier: number;
  readonly jitter: boolean;
  readonly non_retryable_codes: readonly string[];
}

/** The defaults of a policy's optional members, and the policy if neither step nor registration has one. */
export const ENGINE_RETRY: RetryPolicy = {
  max_attempts: 3,
  initial_backoff_ms: 1000,
  max_backoff_ms: 60_000,
  multiplier: 2,
  jitter: true,
  non_retryable_codes: [],
};

export function completeRetry(policy: Partial<RetryPolicy> | undefined): RetryPolicy {
  return { ...ENGINE_RETRY, ...policy };
}

export function mayRetry(policy: RetryPolicy, nth: number, code: string): boolean {
  return (policy.max_attempts === -1 || nth < policy.max_attempts) && !policy.non_retryable_codes.includes(code);
}

/**
 * Milliseconds before attempt `nth + 1`: min(initial·multiplier^(nth−1), max), with jitter times U[0.5, 1]. `random` is in [0, 1).
 * Not less than `atLeast`, as far as the policy's maximum allows.
 */
export function backoffMs(policy: RetryPolicy, nth: number, random: number, atLeast = 0): number {
  // The power overflows after a thousand attempts, and zero times infinity is NaN.
  const factor = Math.min(policy.multiplier ** (nth - 1), Number.MAX_SAFE_INTEGER);
  const full = Math.min(policy.initial_backoff_ms * factor, policy.max_backoff_ms);
  const own = policy.jitter ? full * (0.5 + random / 2) : full;
  return Math.round(Math.max(own, Math.min(atLeast, policy.max_backoff_ms)));
}
