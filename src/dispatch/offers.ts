// Offers of credit to the runs that wait for it: made one by one, each with the credit it offers, and made again where the run
// could not answer. Who waits and in which order is the dispatcher's matter.
import { randomUUID } from "node:crypto";
import type { ActionCall, Answer, RunCommand } from "../../machines/index.js";
import { SagaError } from "../errors.js";
import type { CommandOptions } from "../run/ports.js";
import type { Taker } from "./relay/issuer.js";
import type { DispatchLimits, Log, Reservation, Transport } from "./transport.js";

/** A call that waits for credit. Its offers keep their command's id, so that a repeated one is known as such (law 6). */
export class Waiting implements Taker {
  readonly commandId = randomUUID();
  tries = 0;

  constructor(
    readonly runId: string,
    readonly dispatchId: string,
    readonly call: ActionCall,
    private readonly taken: (waiting: Waiting) => boolean,
  ) {}

  take(): boolean {
    return this.taken(this);
  }
}

export interface OffersHost {
  command(runId: string, command: RunCommand, options: CommandOptions): Promise<Answer>;
  /** Whether it waits still: a run may have been given credit by another way meanwhile. */
  isCurrent(waiting: Waiting): boolean;
  /** It waits no more. */
  settled(waiting: Waiting): void;
  /** It stands in line again. */
  again(waiting: Waiting): void;
}

export class Offers {
  readonly #backingOff = new Map<string, NodeJS.Timeout>();
  #stopped = false;

  constructor(
    private readonly host: OffersHost,
    private readonly limits: DispatchLimits,
    private readonly log: Log,
  ) {}

  /** The store is in trouble: one more offer would only fail as well. */
  get heldUp(): boolean {
    return this.#backingOff.size >= this.limits.backingOff;
  }

  /** Holds the credit that it offers, so there are never more offers under way than credit. */
  async make(waiting: Waiting, { workerId }: Reservation, credit: Pick<Transport, "resolved">): Promise<void> {
    const { runId, dispatchId, commandId } = waiting;
    const named = workerId === undefined ? {} : { workerId };
    try {
      const answer = await this.host.command(runId, { type: "offer", dispatchId, ...named }, { id: commandId });
      if (!this.host.isCurrent(waiting)) return;
      this.host.settled(waiting);
      if (isRefusal(answer)) credit.resolved(dispatchId);
    } catch (error) {
      if (!this.host.isCurrent(waiting)) return;
      const again = error instanceof SagaError && error.status === 503;
      if (again) this.#backOff(waiting);
      else this.host.settled(waiting);
      if (!(error instanceof SagaError)) this.log.error({ err: error, runId, dispatchId }, "an offer failed");
      credit.resolved(dispatchId);
    }
  }

  forget(dispatchId: string): void {
    clearTimeout(this.#backingOff.get(dispatchId));
    this.#backingOff.delete(dispatchId);
  }

  stop(): void {
    this.#stopped = true;
    for (const timer of this.#backingOff.values()) clearTimeout(timer);
    this.#backingOff.clear();
  }

  #backOff(waiting: Waiting): void {
    if (this.#stopped) return;
    const { offerBackoffMs, offerBackoffMaxMs } = this.limits;
    const delay = Math.min(offerBackoffMs * 2 ** waiting.tries++, offerBackoffMaxMs);
    const timer = setTimeout(() => {
      this.#backingOff.delete(waiting.dispatchId);
      this.host.again(waiting);
    }, delay);
    timer.unref();
    this.#backingOff.set(waiting.dispatchId, timer);
  }
}

/** The run no longer waits for it. */
function isRefusal(answer: Answer): boolean {
  return answer.type === "refused" || (answer.type === "report" && answer.stale);
}
