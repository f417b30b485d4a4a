// Waits for runs by long polling: for the end, or for more events. What is shown meanwhile is the commands' business.
import { EXIT, Failure } from "../exit.js";
import type { Service } from "../frame/service.js";
import { hasEnded, pathOf, type Run } from "./run.js";

/** The service holds a request for a minute at most. */
const LONGEST_WAIT_MS = 50_000;

/** Throws Failure with 4 if the run has not ended in time. */
export async function ended(service: Service, id: string, timeoutMs: number | undefined): Promise<Run> {
  const until = timeoutMs === undefined ? Number.POSITIVE_INFINITY : Date.now() + timeoutMs;
  for (;;) {
    const waitMs = Math.max(0, Math.min(LONGEST_WAIT_MS, until - Date.now()));
    const run = await service.get<Run>(pathOf(id), { wait_ms: Math.floor(waitMs) });
    if (hasEnded(run)) return run;
    if (Date.now() >= until) throw late(run);
  }
}

export const late = ({ id, state }: Pick<Run, "id" | "state">): Failure =>
  new Failure(`run ${id} has not ended in time, it is ${state} and goes on: saga watch ${id}`, EXIT.late);
