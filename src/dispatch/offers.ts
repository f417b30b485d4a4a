// Offers of credit to the runs whose calls wait for it: one command per offer, made again while the run cannot answer.
// Which calls wait, and in which order, is the dispatcher's decision.

import type { Answer, DispatchId, RunCommand, RunId } from "../../machines/index.js";
import { clearTimeout, setTimeout } from "../ambient.js";
import { SagaError } from "../errors.js";
import type { Log } from "../log.js";
import { backoff } from "../sdk/backoff.js";
import type { Carrier, CreditWaiter, Reservation } from "./carrier.js";
import type { Pool } from "./fair-queue.js";
import type { DispatchLimits } from "./limits.js";
import type { WantedCall } from "./workers.js";

/** A call that waits for credit. */
export class QueuedCall implements CreditWaiter {
  tries = 0;

  constructor(
    readonly runId: RunId,
    readonly dispatchId: DispatchId,
    readonly call: WantedCall,
    readonly pool: Pool | undefined,
    private readonly serve: (queued: QueuedCall) => boolean,
  ) {}

  tryServe(): boolean {
    return this.serve(this);
  }
}

export interface OffersHost {
  command(runId: RunId, command: RunCommand): Promise<Answer>;
  /** Whether the call still waits: its run may have got credit in another way meanwhile. */
  isWaiting(queued: QueuedCall): boolean;
  /** The call waits no longer. */
  settled(queued: QueuedCall): void;
  /** The backoff is over: the call joins the queue again. */
  requeue(queued: QueuedCall): void;
}

export class Offers {
  private readonly backingOff = new Map<DispatchId, NodeJS.Timeout>();
  private stopped = false;

  constructor(
    private readonly host: OffersHost,
    private readonly limits: DispatchLimits,
    private readonly log: Log,
  ) {}

  /** The store does not answer: one more offer would only fail as well. */
  get heldUp(): boolean {
    return this.backingOff.size >= this.limits.backingOff;
  }

  /** Holds the credit that it offers, so there are never more offers under way than credit. */
  async make(queued: QueuedCall, { workerId }: Reservation, carrier: Pick<Carrier, "resolved">): Promise<void> {
    const { runId, dispatchId } = queued;
    const named = workerId === undefined ? {} : { workerId };
    try {
      // Without an id: the run recognises a repeat by its dispatch.
      const answer = await this.host.command(runId, { type: "offer", dispatchId, ...named });
      if (!this.host.isWaiting(queued)) return;
      this.host.settled(queued);
      if (isRefusal(answer)) carrier.resolved(dispatchId);
    } catch (error) {
      if (!this.host.isWaiting(queued)) return;
      this.failed(queued, error);
      carrier.resolved(dispatchId);
    }
  }

  forget(dispatchId: DispatchId): void {
    clearTimeout(this.backingOff.get(dispatchId));
    this.backingOff.delete(dispatchId);
  }

  stop(): void {
    this.stopped = true;
    for (const timer of this.backingOff.values()) clearTimeout(timer);
    this.backingOff.clear();
  }

  private failed(queued: QueuedCall, error: unknown): void {
    const { runId, dispatchId, call } = queued;
    const retry = error instanceof SagaError && error.status === 503;
    if (retry) this.backOff(queued);
    else this.host.settled(queued);
    if (error instanceof SagaError) return;
    this.log.error({ err: error, runId, dispatchId, stepId: call.stepId }, "offer of credit failed");
  }

  private backOff(queued: QueuedCall): void {
    if (this.stopped) return;
    const { offerBackoffMs: base, offerBackoffMaxMs: cap } = this.limits;
    const delay = backoff(queued.tries++, { base, cap });
    const timer = setTimeout(() => {
      this.backingOff.delete(queued.dispatchId);
      this.host.requeue(queued);
    }, delay);
    timer.unref();
    this.backingOff.set(queued.dispatchId, timer);
  }
}

/** The run waits for this credit no longer. */
function isRefusal(answer: Answer): boolean {
  return answer.type === "refused" || (answer.type === "report" && answer.stale);
}
