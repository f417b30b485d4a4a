// The pause before a lost commit is tried again.
import { setTimeout as delay } from "node:timers/promises";
import { backoff } from "../sdk/backoff.js";

/** Long enough for a competing commit to finish, or for the store to come back. */
const PAUSE_MS = { base: 5, cap: 500 };

/** The pause before replay `nth`. */
export const backOff = (nth: number): Promise<void> => delay(backoff(nth, PAUSE_MS));
