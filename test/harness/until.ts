// Waiting for a fact, the only way a test waits: it asks again until the answer is yes.
import { setTimeout as delay } from "node:timers/promises";

/** Mutants have less: what one of them prevents need not be waited for that long. */
const WITHIN_MS = Number(process.env.SAGA_TEST_PATIENCE_MS ?? 60_000);

/** Asking takes this part of the time at most: a question that costs a request of a busy machine is asked less often … */
const MOST_ASKING = 0.1;

/** … but after this many of the longest pauses at the latest. */
const MOST_PAUSES = 10;

/** Pauses begin short, because most facts come soon: with this part of the longest one. */
const FIRST_PAUSE = 0.1;

export interface UntilOptions {
  /** Milliseconds; 60,000 if absent. */
  readonly within?: number;
  /** The longest pause between two questions, in milliseconds, if the question takes no time; the first one is a tenth. */
  readonly pause?: number;
  /** The fact, for the message of a failure. */
  readonly what?: string;
}

/**
 * Returns the first value of `fact` that is neither undefined, null nor false. A `fact` that throws is asked again.
 * Throws an error with the last value or error after `within` milliseconds.
 */
export async function until<T>(
  fact: () => T | Promise<T>,
  { within = WITHIN_MS, pause: longest = 20, what = "the fact" }: UntilOptions = {},
): Promise<Exclude<T, undefined | null | false>> {
  const deadline = performance.now() + within;
  let last = "nothing was seen";
  let pause = FIRST_PAUSE * longest;
  do {
    const asked = performance.now();
    try {
      const value = await fact();
      if (value !== undefined && value !== null && value !== false)
        return value as Exclude<T, undefined | null | false>;
      last = `last seen: ${String(value)}`;
    } catch (error) {
      last = `last error: ${error instanceof Error ? error.message : String(error)}`;
    }
    const took = performance.now() - asked;
    await delay(Math.min(Math.max(pause, took / MOST_ASKING), MOST_PAUSES * longest));
    pause = Math.min(pause * 1.5, longest);
  } while (performance.now() < deadline);
  throw new Error(`${what} was not seen within ${within} ms (${last}; asked by ${fact.toString().slice(0, 200)})`);
}
