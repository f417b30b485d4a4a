// Reports outcomes to their runs, again until each is recorded. It does not decide what is reported.

import { ANSWER_TRANSIT_MS, type Command, type RunCommand } from "../../../machines/index.js";
import { clearTimeout, setTimeout } from "../../ambient.js";
import { SagaError } from "../../errors.js";
import { uuidv7 } from "../../ids.js";
import type { Log } from "../../log.js";
import { backoff } from "../../sdk/backoff.js";
import { aboutDispatch, type CarrierHost } from "../carrier.js";
import type { DispatchLimits } from "../limits.js";
import type { HeldDispatch } from "./held-dispatch.js";
import type { Delivery } from "./outlet.js";

export interface ReporterOptions {
  readonly host: Pick<CarrierHost, "command">;
  readonly limits: DispatchLimits;
  readonly log: Log;
  /** Database time, epoch milliseconds. */
  readonly now: () => number;
}

export type Answered = Extract<Delivery, { kind: "answered" }>;
type Report = Command<"result" | "failure">;

export class Reporter {
  constructor(private readonly options: ReporterOptions) {}

  /** Without `by`, an earlier try may have had an effect, whatever this one came to. */
  outcome(held: HeldDispatch, { outcome, by, arrivedAt }: Answered): Promise<void> {
    const about = { dispatchId: held.dispatchId, actor: by === undefined ? "coordinator" : `worker:${by}` };
    if ("result" in outcome) return this.record(held, { type: "result", ...about, result: outcome.result }, arrivedAt);
    const outcomeUnknown = outcome.outcomeUnknown || (by === undefined && held.mayHaveArrived);
    return this.record(held, { type: "failure", ...about, ...outcome, outcomeUnknown }, arrivedAt);
  }

  /** Nothing of it has arrived, and it is not tried any more. */
  notHandedOver(held: HeldDispatch): Promise<void> {
    const about = { dispatchId: held.dispatchId, actor: "coordinator", message: held.why };
    const undone = { retryable: true, outcomeUnknown: false, notHandedOver: true } as const;
    return this.record(held, { type: "failure", ...about, code: "not_handed_over", ...undone });
  }

  /**
   * Tries until the outcome is recorded or the run waits for it no longer: it waits a little beyond the deadline for an
   * outcome that was in time. Each try is the same command (law 6).
   */
  private async record(held: HeldDispatch, report: Report, arrivedAt = this.options.now()): Promise<void> {
    const { dispatch, resolved } = held;
    const { limits, host, log, now } = this.options;
    if (!dispatch) return;
    const id = uuidv7();
    const command: RunCommand = { ...report, arrivedAt };
    for (let nth = 0; !resolved.signal.aborted; nth++) {
      try {
        const answer = await host.command(dispatch.runId, command, { id });
        if (answer.type !== "refused") return;
      } catch (error) {
        if (error instanceof SagaError && error.status === 404) return;
        if (nth === 0) log.warn({ err: error, ...aboutDispatch(dispatch) }, "outcome could not be recorded, retrying");
      }
      if (dispatch.deadlineAt + ANSWER_TRANSIT_MS <= now()) return;
      await pause(backoff(nth, { base: limits.offerBackoffMs, cap: limits.offerBackoffMaxMs }), resolved.signal);
    }
  }
}

/** Resolves after the time, or as soon as the signal is aborted. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end, { once: true });
    function end(): void {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    }
  });
}
