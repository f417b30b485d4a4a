// The end of a credential, for what goes on longer than a request: a stream, a socket, a wait.
import { Alarm } from "../sdk/timer.js";
import type { Principal } from "./principal.js";
import { Unauthenticated } from "./verifier.js";

type Ending = Pick<Principal, "expiresAt" | "ended">;

interface BoundedWait<T> {
  readonly ms: number;
  readonly wait: Promise<T>;
}

/** Calls `end` when the credential ends, at once if it has, unless the answer is called before. `now`: database time, epoch milliseconds. */
export function untilEnd({ expiresAt, ended }: Ending, now: () => number, end: () => void): () => void {
  if (ended?.aborted) {
    end();
    return () => {};
  }
  const alarm = expiresAt === undefined ? undefined : new Alarm(expiresAt - now(), end).unref();
  ended?.addEventListener("abort", end, { once: true });
  return () => {
    alarm?.stop();
    ended?.removeEventListener("abort", end);
  };
}

/**
 * What is waited for, for `ms` at most: who has no credential any more is not answered with what has come since. Rejects with Unauthenticated once
 * the credential has ended; the wait ends with its request.
 */
export function whileGood<T>(principal: Principal, now: () => number, { ms, wait }: BoundedWait<T>): Promise<T> {
  const { ended, expiresAt = Number.POSITIVE_INFINITY } = principal;
  // Nearly every credential outlives the wait: it costs no timer.
  const ending = { ...(ended && { ended }), ...(expiresAt <= now() + ms && { expiresAt }) };
  return new Promise((resolve, reject) => {
    const forget = untilEnd(ending, now, () => reject(new Unauthenticated("it ended while its request waited")));
    wait.then(resolve, reject).finally(forget);
  });
}
