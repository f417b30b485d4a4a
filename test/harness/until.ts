// Waiting for a fact: the only way a test waits. It asks again and again and stops at the first yes; it never sleeps a fixed time.
import { setTimeout as delay } from "node:timers/promises";

const PAUSE_MS = 20;

export interface UntilOptions {
  /** Milliseconds. */
  readonly within?: number;
  /** What is waited for, for the message of a failure. */
  readonly what?: string;
}

/**
 * Answers the first value of `fact` that is neither undefined, null nor false. A fact that throws is not one yet.
 * Fails with the last value or error when the time is over.
 */
export async function until<T>(
  fact: () => T | Promise<T>,
  { within = 10_000, what = "the fact" }: UntilOptions = {},
): Promise<Exclude<T, undefined | null | false>> {
  const deadline = performance.now() + within;
  let last = "nothing was seen";
  do {
    try {
      const value = await fact();
      if (value !== undefined && value !== null && value !== false)
        return value as Exclude<T, undefined | null | false>;
      last = `last seen: ${String(value)}`;
    } catch (error) {
      last = `last error: ${error instanceof Error ? error.message : String(error)}`;
    }
    await delay(PAUSE_MS);
  } while (performance.now() < deadline);
  throw new Error(
    `${what} did not come about within ${within} ms (${last}; asked by ${fact.toString().slice(0, 200)})`,
  );
}
