// The end of a credential, for what goes on longer than a request: a stream, a socket, a wait.
import { Alarm } from "../sdk/timer.js";
import type { Principal } from "./principal.js";

/** Calls `end` when the credential ends, at once if it has, unless the answer is called before. `now`: database time, epoch milliseconds. */
export function untilEnd({ expiresAt, ended }: Principal, now: () => number, end: () => void): () => void {
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
