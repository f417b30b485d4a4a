// The transport whose worker is the service itself: makes the requests of `http_request` steps and tells their runs what came
// of them. When a request is made, and whether again, is decided by the runs; where it may go, by the guard.
import type { ActionCall, Dispatch, RunCommand } from "../../../machines/index.js";
import { SagaError } from "../../errors.js";
import { uuidv7 } from "../../ids.js";
import { Expiring } from "../expiring.js";
import type { DispatchLimits, Log, Reservation, Transport, TransportHost } from "../transport.js";
import { WaitingLine } from "../waiting-line.js";
import { type Cut, type Performing, perform, type Verdict } from "./perform.js";

export interface RequestTransportOptions extends Omit<Performing, "outputBytes"> {
  readonly log: Log;
  readonly limits: DispatchLimits;
  readonly host: TransportHost;
}

/** A request that this node holds: reserved while it has no `dispatch`, waiting for its turn while it has no `slot`. */
interface Flight {
  readonly dispatchId: string;
  readonly call: ActionCall;
  dispatch?: Dispatch;
  slot: boolean;
  /** It came without a reservation: who committed it is gone, and may have sent it already. */
  readonly recovered: boolean;
  readonly cut: AbortController;
  /** Ends the waiting between tries to record what came of it; whoever aborts it no longer wants to know. */
  readonly done: AbortController;
}

/** The most that a timer can wait. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export class RequestTransport implements Transport {
  readonly #flights = new Map<string, Flight>();
  /** Slots taken, of all hosts and of each. */
  #taken = 0;
  readonly #takenByHost = new Map<string, number>();
  readonly #reservations: Expiring<Flight>;
  /** Recovered while all slots were taken: they go before everything new. */
  readonly #recovered = new WaitingLine<Flight>();
  readonly #underWay = new Set<Promise<void>>();
  readonly #ticker: NodeJS.Timeout;
  #stopping = false;

  constructor(private readonly options: RequestTransportOptions) {
    this.#reservations = new Expiring(options.limits.reservationMs);
    this.#ticker = setInterval(() => this.#tick(), options.limits.tickMs).unref();
  }

  get inFlight(): number {
    return this.#underWay.size;
  }

  reserve(dispatchId: string, call: ActionCall): Reservation | undefined {
    if (this.#stopping) return undefined;
    const known = this.#flights.get(dispatchId);
    if (known) return known.dispatch ? undefined : {};
    const flight = newFlight(dispatchId, call, false);
    if (!this.#take(flight)) return undefined;
    this.#flights.set(dispatchId, flight);
    this.#reservations.set(dispatchId, flight);
    return {};
  }

  send(dispatch: Dispatch): void {
    const { dispatchId, call } = dispatch;
    const known = this.#flights.get(dispatchId);
    if (this.#stopping || known?.dispatch) return;
    if (this.#expired(dispatch)) return this.resolved(dispatchId);
    const flight = known ?? newFlight(dispatchId, call, true);
    flight.dispatch = dispatch;
    this.#flights.set(dispatchId, flight);
    this.#reservations.delete(dispatchId);
    if (flight.slot || this.#take(flight)) this.#begin(flight, dispatch);
    else this.#recovered.add(call, dispatchId, flight);
  }

  /** The request is cut off and its run told at once, so that nobody waits for its deadline. */
  cancel(dispatchId: string): void {
    const flight = this.#flights.get(dispatchId);
    if (!flight?.dispatch) return;
    cutOff(flight, "cancelled");
    // It need not wait for a slot to say that it was not made (again).
    this.#recovered.remove(flight.call, dispatchId);
    if (!flight.slot) this.#begin(flight, flight.dispatch);
  }

  resolved(dispatchId: string): void {
    const flight = this.#flights.get(dispatchId);
    if (!flight) return;
    this.#flights.delete(dispatchId);
    this.#reservations.delete(dispatchId);
    this.#recovered.remove(flight.call, dispatchId);
    flight.done.abort();
    cutOff(flight, "cancelled");
    this.#release(flight);
  }

  holds(dispatchId: string): boolean {
    return this.#flights.has(dispatchId);
  }

  /** What is not answered within the grace is cut off without a word: the next owner of its run makes it again. */
  async stop(graceMs: number): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#ticker);
    let timer: NodeJS.Timeout | undefined;
    const grace = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, graceMs);
    });
    await Promise.race([grace, Promise.all(this.#underWay)]);
    clearTimeout(timer);
    for (const dispatchId of [...this.#flights.keys()]) this.resolved(dispatchId);
    await Promise.all(this.#underWay);
  }

  #begin(flight: Flight, dispatch: Dispatch): void {
    const work = this.#carryOut(flight, dispatch)
      .catch((error: unknown) =>
        this.options.log.error({ err: error, dispatchId: dispatch.dispatchId }, "a request could not be made"),
      )
      .finally(() => {
        this.#underWay.delete(work);
        if (this.#flights.get(flight.dispatchId) === flight) this.#flights.delete(flight.dispatchId);
        this.#release(flight);
      });
    this.#underWay.add(work);
  }

  async #carryOut(flight: Flight, dispatch: Dispatch): Promise<void> {
    const { call, deadlineAt } = dispatch;
    if (!call.request) throw new Error("a call over the transport request has no request");
    const { limits, now } = this.options;
    const timer = setTimeout(() => cutOff(flight, "timeout"), Math.min(deadlineAt - now(), LONGEST_TIMER_MS)).unref();
    const performing = { ...this.options, outputBytes: limits.outputBytes };
    const verdict = await perform(call.request, call.idempotencyKey, performing, flight.cut.signal);
    clearTimeout(timer);
    await this.#record(flight, dispatch, commandOf(dispatch, verdict, flight.recovered));
  }

  /** Until it is recorded, nobody wants to know, or the run has given it up by itself. The same command each time (law 6). */
  async #record(flight: Flight, dispatch: Dispatch, command: RunCommand): Promise<void> {
    const { limits, host, log } = this.options;
    const id = uuidv7();
    for (let nth = 0; !flight.done.signal.aborted; nth++) {
      try {
        const answer = await host.command(dispatch.runId, command, { id });
        if (answer.type !== "refused") return;
      } catch (error) {
        if (error instanceof SagaError && error.status === 404) return;
        if (nth === 0)
          log.warn({ err: error, dispatchId: dispatch.dispatchId }, "an outcome could not be recorded yet");
      }
      if (this.#expired(dispatch)) return;
      await pause(Math.min(limits.offerBackoffMs * 2 ** nth, limits.offerBackoffMaxMs), flight.done.signal);
    }
  }

  #take(flight: Flight): boolean {
    const { requests, requestsPerHost } = this.options.limits;
    const host = flight.call.action;
    const ofHost = this.#takenByHost.get(host) ?? 0;
    if (this.#taken >= requests || ofHost >= requestsPerHost) return false;
    this.#taken++;
    this.#takenByHost.set(host, ofHost + 1);
    flight.slot = true;
    return true;
  }

  #release(flight: Flight): void {
    if (!flight.slot) return;
    const { service, action: host } = flight.call;
    const ofHost = (this.#takenByHost.get(host) ?? 1) - 1;
    if (ofHost === 0) this.#takenByHost.delete(host);
    else this.#takenByHost.set(host, ofHost);
    this.#taken--;
    flight.slot = false;
    if (this.#stopping) return;
    this.#recovered.serve(service, (next) => this.#serve(next));
    this.options.host.creditFreed(service);
  }

  /** Whether the recovered one is off the line. */
  #serve(flight: Flight): boolean {
    const { dispatch, dispatchId } = flight;
    if (!dispatch || this.#expired(dispatch)) {
      this.#flights.delete(dispatchId);
      return true;
    }
    if (!this.#take(flight)) return false;
    this.#begin(flight, dispatch);
    return true;
  }

  #expired(dispatch: Dispatch): boolean {
    return dispatch.deadlineAt <= this.options.now();
  }

  #tick(): void {
    for (const [dispatchId] of this.#reservations.takeDue()) this.resolved(dispatchId);
  }
}

function newFlight(dispatchId: string, call: ActionCall, recovered: boolean): Flight {
  return { dispatchId, call, slot: false, recovered, cut: new AbortController(), done: new AbortController() };
}

function cutOff(flight: Flight, why: Cut): void {
  flight.cut.abort(why);
}

/** What a former owner may have sent may have happened, whatever is heard of it now. */
function commandOf({ dispatchId }: Dispatch, verdict: Verdict, recovered: boolean): RunCommand {
  const about = { dispatchId, actor: "coordinator" };
  if ("result" in verdict) return { type: "result", ...about, result: verdict.result };
  return { type: "failure", ...about, ...verdict, outcomeUnknown: verdict.outcomeUnknown || recovered };
}

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
