// The carrier whose worker is the service itself: makes the requests of `http_request` steps and tells their runs the
// outcome. When a request is made, and whether again, is decided by the runs; where it may go, by the egress guard.
import {
  type ActionCall,
  ANSWER_TRANSIT_MS,
  type Command,
  type Dispatch,
  type DispatchId,
  type RunCommand,
} from "../../../machines/index.js";
import { SagaError } from "../../errors.js";
import { uuidv7 } from "../../ids.js";
import type { Log } from "../../log.js";
import type { Obstacle } from "../../run/ports.js";
import type { Carrier, CarrierHost, Reservation } from "../carrier.js";
import { ExpiringMap } from "../expiring-map.js";
import { FairQueue } from "../fair-queue.js";
import type { DispatchLimits } from "../limits.js";
import { type Holder, Slots } from "../slots.js";
import { attempt, type CutOffReason, type Outcome, type RequestEnvironment } from "./attempt.js";

export interface RequestCarrierOptions extends Omit<RequestEnvironment, "outputBytes"> {
  readonly log: Log;
  readonly limits: DispatchLimits;
  readonly host: CarrierHost;
}

/** A request that this node holds: reserved while it has no `dispatch`, waiting for its turn while it has no `slot`. */
interface PendingRequest {
  readonly dispatchId: DispatchId;
  readonly call: ActionCall;
  dispatch?: Dispatch;
  slot: boolean;
  /** Its one attempt is under way, or over. */
  begun: boolean;
  /** It came without a reservation: the node that committed it is gone, and may have sent it. */
  readonly recovered: boolean;
  readonly cutOff: AbortController;
  /** Aborted when the run waits for the outcome no longer. */
  readonly resolved: AbortController;
}

/** The longest time that a timer can wait. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export class RequestCarrier implements Carrier {
  private readonly requests = new Map<DispatchId, PendingRequest>();
  private readonly slots: Slots;
  private readonly reservations: ExpiringMap<PendingRequest, DispatchId>;
  /** Requests that were recovered while all slots were taken: they go before everything new. */
  private readonly recovered = new FairQueue<PendingRequest>();
  private readonly underWay = new Set<Promise<void>>();
  private readonly ticker: NodeJS.Timeout;
  private stopping = false;

  constructor(private readonly options: RequestCarrierOptions) {
    const { limits } = options;
    this.slots = new Slots(limits.requests, limits.requestsPerHost);
    this.reservations = new ExpiringMap(limits.reservationMs);
    this.ticker = setInterval(() => this.tick(), limits.tickMs).unref();
  }

  get inFlight(): number {
    return this.underWay.size;
  }

  reserve(dispatchId: DispatchId, call: ActionCall): Reservation | undefined {
    if (this.stopping) return undefined;
    const known = this.requests.get(dispatchId);
    if (known) return known.dispatch ? undefined : {};
    const request = newRequest(dispatchId, call, false);
    if (!this.takeSlot(request)) return undefined;
    this.requests.set(dispatchId, request);
    this.reservations.set(dispatchId, request);
    return {};
  }

  send(dispatch: Dispatch): void {
    const { dispatchId, call } = dispatch;
    const known = this.requests.get(dispatchId);
    if (this.stopping || known?.dispatch) return;
    if (this.isExpired(dispatch)) return this.resolved(dispatchId);
    const request = known ?? newRequest(dispatchId, call, true);
    request.dispatch = dispatch;
    this.requests.set(dispatchId, request);
    this.reservations.delete(dispatchId);
    if (request.slot || this.takeSlot(request)) this.begin(request, dispatch);
    else this.recovered.add(call, dispatchId, request);
  }

  /** The request is cut off and its run learns the outcome at once, instead of waiting for the deadline. */
  cancel(dispatchId: DispatchId): void {
    const request = this.requests.get(dispatchId);
    if (!request?.dispatch) return;
    cutOff(request, "cancelled");
    // A request that waits for a slot needs none to report that it was not made.
    this.recovered.remove(request.call, dispatchId);
    if (!request.begun) this.begin(request, request.dispatch);
  }

  resolved(dispatchId: DispatchId): void {
    const request = this.requests.get(dispatchId);
    if (!request) return;
    this.requests.delete(dispatchId);
    this.reservations.delete(dispatchId);
    this.recovered.remove(request.call, dispatchId);
    request.resolved.abort();
    cutOff(request, "cancelled");
    this.releaseSlot(request);
  }

  holds(dispatchId: DispatchId): boolean {
    return this.requests.has(dispatchId);
  }

  obstacle(): Obstacle {
    return { reason: "no_credit", detail: "the slots for requests that it may take are taken" };
  }

  /** After the grace period, requests are cut off without a report: the next owner of the run makes them again. */
  async stop(graceMs: number): Promise<void> {
    this.stopping = true;
    clearInterval(this.ticker);
    let timer: NodeJS.Timeout | undefined;
    const grace = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, graceMs);
    });
    await Promise.race([grace, Promise.all(this.underWay)]);
    clearTimeout(timer);
    for (const dispatchId of [...this.requests.keys()]) this.resolved(dispatchId);
    await Promise.all(this.underWay);
  }

  private begin(request: PendingRequest, dispatch: Dispatch): void {
    request.begun = true;
    const work = this.carryOut(request, dispatch)
      .catch((error: unknown) =>
        this.options.log.error({ err: error, dispatchId: dispatch.dispatchId }, "request could not be made"),
      )
      .finally(() => {
        this.underWay.delete(work);
        if (this.requests.get(request.dispatchId) === request) this.requests.delete(request.dispatchId);
        this.releaseSlot(request);
      });
    this.underWay.add(work);
  }

  private async carryOut(request: PendingRequest, dispatch: Dispatch): Promise<void> {
    const { call, deadlineAt } = dispatch;
    if (!call.request) throw new Error("a call over the transport request has no request");
    const { limits, now } = this.options;
    const remainingMs = Math.min(deadlineAt - now(), LONGEST_TIMER_MS);
    const timer = setTimeout(() => cutOff(request, "timeout"), remainingMs).unref();
    const environment = { ...this.options, outputBytes: limits.outputBytes };
    const outcome = await attempt(call.request, call.idempotencyKey, environment, request.cutOff.signal);
    clearTimeout(timer);
    await this.record(request, dispatch, { ...commandOf(dispatch, outcome, request.recovered), arrivedAt: now() });
  }

  /**
   * Tries until the outcome is recorded or the run waits for it no longer: it waits a little beyond the deadline for an
   * outcome that was in time. Each try is the same command (law 6).
   */
  private async record(request: PendingRequest, dispatch: Dispatch, command: RunCommand): Promise<void> {
    const { limits, host, log } = this.options;
    const { runId, dispatchId } = dispatch;
    const id = uuidv7();
    for (let nth = 0; !request.resolved.signal.aborted; nth++) {
      try {
        const answer = await host.command(runId, command, { id });
        if (answer.type !== "refused") return;
      } catch (error) {
        if (error instanceof SagaError && error.status === 404) return;
        if (nth === 0) log.warn({ err: error, dispatchId }, "request outcome could not be recorded, retrying");
      }
      if (dispatch.deadlineAt + ANSWER_TRANSIT_MS <= this.options.now()) return;
      await pause(Math.min(limits.offerBackoffMs * 2 ** nth, limits.offerBackoffMaxMs), request.resolved.signal);
    }
  }

  private takeSlot(request: PendingRequest): boolean {
    if (!this.slots.take(holderOf(request))) return false;
    request.slot = true;
    return true;
  }

  private releaseSlot(request: PendingRequest): void {
    if (!request.slot) return;
    const { service } = request.call;
    this.slots.release(holderOf(request));
    request.slot = false;
    if (this.stopping) return;
    this.recovered.serve(service, (next) => this.tryBegin(next));
    this.options.host.creditFreed(service);
  }

  /** True if the recovered request leaves the queue. */
  private tryBegin(request: PendingRequest): boolean {
    const { dispatch, dispatchId } = request;
    if (!dispatch || this.isExpired(dispatch)) {
      this.requests.delete(dispatchId);
      return true;
    }
    if (!this.takeSlot(request)) return false;
    this.begin(request, dispatch);
    return true;
  }

  private isExpired(dispatch: Dispatch): boolean {
    return dispatch.deadlineAt <= this.options.now();
  }

  private tick(): void {
    for (const [dispatchId] of this.reservations.takeDue()) this.resolved(dispatchId);
  }
}

function holderOf({ call: { action: host, workflowId } }: PendingRequest): Holder {
  return workflowId === undefined ? { host } : { host, sharer: workflowId };
}

function newRequest(dispatchId: DispatchId, call: ActionCall, recovered: boolean): PendingRequest {
  const controllers = { cutOff: new AbortController(), resolved: new AbortController() };
  return { dispatchId, call, slot: false, begun: false, recovered, ...controllers };
}

function cutOff(request: PendingRequest, reason: CutOffReason): void {
  request.cutOff.abort(reason);
}

/** A former owner may have made a recovered request, whatever the outcome of this attempt. */
function commandOf({ dispatchId }: Dispatch, outcome: Outcome, recovered: boolean): Command<"result" | "failure"> {
  const about = { dispatchId, actor: "coordinator" };
  if ("result" in outcome) return { type: "result", ...about, result: outcome.result };
  return { type: "failure", ...about, ...outcome, outcomeUnknown: outcome.outcomeUnknown || recovered };
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
