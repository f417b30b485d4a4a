// What every way of reaching a worker must offer to the dispatcher, and what it may ask of it. One file (or room) per
// transport; gRPC is the only one so far. A call whose transport is absent waits in the queue.
import type { Logger } from "pino";
import type { ActionCall, Answer, Dispatch, RunCommand } from "../../machines/index.js";
import type { CommandOptions } from "../run/ports.js";

export type Log = Pick<Logger, "debug" | "info" | "warn" | "error">;

export type TransportName = ActionCall["transport"];

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
};
