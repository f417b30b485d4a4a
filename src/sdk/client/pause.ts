// Pauses that a signal ends, and how long they are. What is sent again is not decided here.
import type { RetryOptions } from "./options.js";

/** Milliseconds that no change of the wall clock moves. */
export const now = (): number => performance.now();

/** Resolves after `ms`; throws the reason of the signal if it is aborted before. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const aborted = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", aborted);
      resolve();
    }, ms);
    signal?.addEventListener("abort", aborted, { once: true });
  });
}

/** What the work comes to, or the reason of the signal if that is first: what ignores its signal hangs alone. */
export function orAborted<Result>(work: Result | Promise<Result>, signal?: AbortSignal): Promise<Result> {
  return new Promise((resolve, reject) => {
    const aborted = () => reject(signal?.reason);
    if (signal?.aborted) aborted();
    signal?.addEventListener("abort", aborted, { once: true });
    Promise.resolve(work)
      .then(resolve, reject)
      .finally(() => signal?.removeEventListener("abort", aborted));
  });
}

/** Between half of it and all of it, at random, so that clients do not come back together. */
export function backoffMs(failures: number, { initialBackoffMs, maxBackoffMs }: Required<RetryOptions>): number {
  const longest = Math.min(maxBackoffMs, initialBackoffMs * 2 ** (failures - 1));
  return longest * (0.5 + Math.random() / 2);
}

/** `Retry-After` in milliseconds: a number of seconds or an HTTP date. */
export function retryAfterMs(header: string | null): number | undefined {
  if (header === null) return undefined;
  if (/^\d+$/.test(header.trim())) return Number(header) * 1_000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? undefined : Math.max(0, at - Date.now());
}

/** A wait that is over at once was ended by a service that stops, and would be again. */
export async function afterRound(beganAt: number, waitMs: number, signal?: AbortSignal): Promise<void> {
  const soonMs = Math.min(500, waitMs / 2);
  if (now() - beganAt < soonMs) await pause(soonMs, signal);
}
