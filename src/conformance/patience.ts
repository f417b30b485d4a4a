// Waiting for what a worker does, always within a limit. It knows nothing of workers.
import { setTimeout as delay } from "node:timers/promises";

const PAUSE_MS = 20;

/** The first value that is neither undefined nor false; undefined if there is none within `ms`. */
export async function within<T>(ms: number, look: () => T | undefined | false): Promise<T | undefined> {
  const deadline = performance.now() + ms;
  for (;;) {
    const value = look();
    if (value !== undefined && value !== false) return value;
    if (performance.now() >= deadline) return undefined;
    await delay(PAUSE_MS);
  }
}
