// What every way of reaching a worker must offer to the dispatcher, and what it may ask of it. One file (or room) per
// transport. A call whose transport is absent waits in the queue.
import type { Logger } from "pino";
import type { ActionCall, Answer, Dispatch, RunCommand } from "../../machines/index.js";
import type { CommandOptions } from "../run/ports.js";

export type Log = Pick<Logger, "debug" | "info" | "warn" | "error">;

export type TransportName = ActionCall["transport"];

/** What a worker must be able to do to take a call. */
export type ActionName = Pick<ActionCall, "service" | "action" | "version">;

export interface Reservation {
  readonly workerId?: string;
}

/** As in the `Dispatcher` port: nothing here throws or waits, and a repeat changes nothing. */
export interface Transport {
  reserve(dispatchId: string, call: ActionCall): Reservation | undefined;
  send(dispatch: Dispatch): void;
  cancel(dispatchId: string, reason: string): void;
  resolved(dispatchId: string): void;
  holds(dispatchId: string): boolean;
  /** Dispatches handed over and not yet answered. */
  readonly inFlight: number;
  /** Sends nothing more; answers that have arrived are recorded within the grace. */
  stop(graceMs: number): Promise<void>;
}

export interface TransportHost {
  /** Credit for actions of this service may be there: those who queue for it get their turn. */
  creditFreed(service: string): void;
  command(runId: string, command: RunCommand, options?: CommandOptions): Promise<Answer>;
}

/** Every bound of the room, with its default. Times in milliseconds. */
export interface DispatchLimits {
  /** Calls that wait for credit on this node. One more is dropped: the outbox poll brings it back. */
  readonly queued: number;
  /** Offers whose run could not answer and that wait to be made again; at this many no further offer is made. */
  readonly backingOff: number;
  readonly offerBackoffMs: number;
  readonly offerBackoffMaxMs: number;
  /** A reservation that no `send` follows (the run was stepped on another node) gives its credit back after this time. */
  readonly reservationMs: number;
  /** How long a dispatch that lost its stream waits to be claimed before it goes to another worker (law 11). */
  readonly claimWaitMs: number;
  /** How long a claim of an unknown dispatch is remembered: recovery may send it right after. */
  readonly claimMemoryMs: number;
  readonly claims: number;
  readonly tickMs: number;
  readonly helloMs: number;
  /** Advice to workers: heartbeat no more often than this. */
  readonly heartbeatIntervalMs: number;
  /** The most credit one stream may ask for. */
  readonly maxInFlight: number;
  /** Messages that wait for a slow worker to read. A stream with more, or stalled for `stallMs`, is closed. */
  readonly unread: number;
  readonly stallMs: number;
  /** A step's result, in bytes of JSON. */
  readonly outputBytes: number;
  /** Requests of this node under way at once, and of those to one host. */
  readonly requests: number;
  readonly requestsPerHost: number;
  /** Dispatches, and vouchers for them, that this node has at others at once. */
  readonly relayed: number;
  /** A call with more bytes of JSON is not handed to another node: the bus takes messages of 1 MiB. */
  readonly relayedBytes: number;
  /** How long an unused voucher keeps its credit. */
  readonly voucherMs: number;
  /** Wants are gathered for the first time, and repeated after the second; unrepeated they are forgotten after three of it. */
  readonly wantGatherMs: number;
  readonly wantMs: number;
  /** Actions that one node may want credit for, and vouchers that it is given for each at once. */
  readonly wants: number;
  readonly vouchers: number;
  /** How long another node has to answer before it is asked again, and how often a dispatch is handed to it in vain. */
  readonly handMs: number;
  readonly handTries: number;
  readonly rollCallMs: number;
  /** How long a node remembers what it was handed: a repeat that comes later finds it unknown. */
  readonly handedMemoryMs: number;
  /** How long after a change of nodes the dispatches of others' runs are claimed at their owners. */
  readonly takeoverMs: number;
}

export const DEFAULT_LIMITS: DispatchLimits = {
  queued: 100_000,
  backingOff: 100,
  offerBackoffMs: 100,
  offerBackoffMaxMs: 5_000,
  reservationMs: 30_000,
  claimWaitMs: 2_000,
  claimMemoryMs: 10_000,
  claims: 100_000,
  tickMs: 250,
  helloMs: 10_000,
  heartbeatIntervalMs: 1_000,
  maxInFlight: 10_000,
  unread: 1_000,
  stallMs: 30_000,
  outputBytes: 1_048_576,
  requests: 200,
  requestsPerHost: 50,
  relayed: 10_000,
  relayedBytes: 512 * 1_024,
  voucherMs: 5_000,
  wantGatherMs: 10,
  wantMs: 1_000,
  wants: 100,
  vouchers: 32,
  handMs: 1_000,
  handTries: 3,
  rollCallMs: 2_000,
  handedMemoryMs: 60_000,
  takeoverMs: 3_000,
};
