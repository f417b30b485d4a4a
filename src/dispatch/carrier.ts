// The carrier port: what every way of reaching workers offers to the dispatcher, and what it may ask of the dispatcher.
// One folder per carrier; node-dispatcher.ts adds them. The calls of a transport without a carrier wait in the queue.

import {
  type ActionCall,
  type Answer,
  type Dispatch,
  type DispatchId,
  parseTraceparent,
  type RunCommand,
  type RunId,
} from "../../machines/index.js";
import type { CommandOptions } from "../run/ports.js";
import type { FairQueue, Pool } from "./fair-queue.js";
import type { AwayDestination } from "./push/destinations.js";
import type { Ask, Tell } from "./relay/messages.js";
import type { ActionName, ConnectedWorker, DispatchHolder, Obstacle, WaitingCount, WantedCall } from "./workers.js";

export type TransportName = ActionCall["transport"];

/** What a line of the log says of a dispatch. */
export function aboutDispatch(dispatch: Dispatch): Readonly<Record<string, unknown>> {
  const { dispatchId, runId, attempt, tenantId, traceparent, call } = dispatch;
  const traceId = parseTraceparent(traceparent)?.traceId;
  return { dispatchId, runId, stepId: call.stepId, attempt, tenantId, traceId };
}

/** Credit that is set aside for one dispatch. */
export interface Reservation {
  /** Absent where the carrier does not know which worker will take it. */
  readonly workerId?: string;
}

/** A carrier works like the `Dispatcher` port of run/: no method throws or waits, and repeating a call changes nothing. */
export interface Carrier {
  /** What has the credit that the call waits for. Absent: the workers of its service. */
  poolOf?(call: WantedCall): Pool;
  /** Takes credit for the dispatch if a worker can take it now. Undefined: no credit. `resolved` returns the credit. */
  reserve(dispatchId: DispatchId, call: WantedCall): Reservation | undefined;
  /**
   * Hands over a committed dispatch until it is resolved or its deadline passes, whether or not credit was reserved for
   * it.
   */
  send(dispatch: Dispatch): void;
  cancel(dispatchId: DispatchId, reason: string): void;
  /** The run waits for this dispatch no longer: returns unused credit and forgets it. */
  resolved(dispatchId: DispatchId): void;
  holds(dispatchId: DispatchId): boolean;
  /** Number of dispatches handed over and not yet answered. */
  readonly inFlight: number;
  /** The shards were placed on these nodes. */
  placed?(nodeIds: readonly string[]): void;
  /**
   * The ones of these dispatches that this node sends, or may be about to send, as `nodeId` would. It lets go of the others. Absent: other
   * nodes learn it in another way.
   */
  kept?(dispatchIds: readonly DispatchId[], nodeId: string): readonly DispatchId[];
  /** Destinations that take nothing at present. */
  away?(): Iterable<AwayDestination>;
  /** Present where workers of other nodes can take this carrier's calls. */
  readonly sharing?: CreditSharing;
  /** The workers that this carrier knows, connected or by their address. Absent: none, as the service itself does the work. */
  workers?(): Iterable<ConnectedWorker>;
  /** Why calls of the action wait here. Undefined: this carrier has not tried to hand one over. */
  obstacle?(name: ActionName): Obstacle | undefined;
  /** The actions of committed dispatches that no worker holds and that wait for one, and how many. */
  unheld?(): Iterable<WaitingCount>;
  /** Undefined: it is not here, or this carrier does not know who has it. */
  holder?(dispatchId: DispatchId): DispatchHolder | undefined;
  /** Sends nothing more; answers that have arrived are recorded within the grace period. */
  stop(graceMs: number): Promise<void>;
}

/** A destination that takes nothing at present. */
export interface AwayFrom extends AwayDestination {
  readonly transport: TransportName;
}

/** How a carrier shares credit with the same carrier of other nodes. */
export interface CreditSharing {
  /** Calls wait here, and no worker of this node has credit for them; or which of them a worker of this node serves has changed. */
  creditWanted(): void;
  /**
   * The calls that wait here have had their turn: the credit that is left may go to other nodes. Without a service: of
   * all services.
   */
  creditLeft(service?: string): void;
  /** The live nodes, after the shards were placed on them. */
  placed(nodeIds: readonly string[]): void;
  /** The answer to another node's question. */
  asked(request: Ask): object;
  /** A message of another node. */
  told(message: Tell, from: string): void;
}

/** What a carrier may ask of the dispatcher. */
export interface CarrierHost {
  /** Credit of this service, or of this group of pools, may be free: the calls that wait for it get their turn. Without it: of all. */
  creditFreed(group?: string): void;
  /** Without a `reach` it is the node's own command. */
  command(runId: RunId, command: RunCommand, options?: Partial<CommandOptions>): Promise<Answer>;
  /** Everything that waits for this carrier's credit. */
  readonly queue: FairQueue<CreditWaiter>;
  /**
   * Offers the credit that `reserve` returns to the first waiting call of the action that fits. False: no call took it.
   */
  offerFirst(
    name: ActionName,
    fits: (call: ActionCall) => boolean,
    reserve: (dispatchId: DispatchId) => Reservation,
  ): boolean;
}

/** An item of a carrier's queue. */
export interface CreditWaiter {
  /** Its turn has come. False: there is no credit for it. */
  tryServe(): boolean;
}
