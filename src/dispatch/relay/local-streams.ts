// The port through which the relay uses this node's own worker streams, beyond what every carrier offers. The gRPC
// carrier implements it.

import type { Dispatch, DispatchId } from "../../../machines/index.js";
import type { Carrier, Reservation } from "../carrier.js";
import type { ActionName, WaitingCount } from "../workers.js";
import type { Claim, ReservationId } from "./messages.js";

/** A dispatch that one side of the relay gives up to the other. A worker may have started it. */
export interface Surrendered {
  readonly dispatch: Dispatch;
  readonly cancelReason?: string;
}

/** A worker that says that it holds a dispatch. */
export interface Claimant {
  readonly workerId: string;
  readonly service: string;
  /** The tenants whose runs it serves. Absent: all, and runs of no tenant. */
  readonly tenants?: readonly string[];
}

/** `id` is that of a dispatch, or of a voucher whose dispatch has not come yet. */
export interface LocalStreams extends Pick<Carrier, "send" | "cancel" | "holds"> {
  /** Returns unused credit; nothing is owed under the id any more. */
  resolved(id: ReservationId): void;
  /** Whether a worker here executes the action, with or without free credit. */
  serves(name: ActionName): boolean;
  /** Takes one credit under the id. Undefined: there is none. */
  reserve(id: ReservationId, name: ActionName): Reservation | undefined;
  /** Executes the dispatch with the credit reserved under the id. False: that credit is gone. */
  redeem(id: ReservationId, dispatch: Dispatch): boolean;
  /** Binds the dispatch to the worker here that has claimed it, without executing it. False: no worker here has. */
  adopt(dispatch: Dispatch): boolean;
  /** Whether the committed dispatch is here, with a worker or without. */
  hasCommitted(dispatchId: DispatchId): boolean;
  /**
   * Gives up a dispatch that the claim's worker may have, and that has no worker here, or none but `workerId`, which holds it at another node
   * now.
   */
  surrender(
    dispatchId: DispatchId,
    workerId: string | undefined,
    claim: Pick<Claim, "service" | "tenants">,
  ): Surrendered | undefined;
  /** Sends it to any worker: no worker has started it. */
  resend(dispatch: Dispatch): void;
  /** The actions of the dispatches that wait for any worker, and how many. */
  unclaimedCounts(): Iterable<WaitingCount>;
  /** Gives up the first of these that fits. */
  takeUnclaimed(name: ActionName, fits: (dispatch: Dispatch) => boolean): Dispatch | undefined;
  /** Everything that takes a worker's credit. Not `committed`: reserved only. */
  bound(): Iterable<readonly [id: ReservationId, workerId: string, committed: boolean]>;
  /** Forgets the dispatches without a worker here whose runs belong to other nodes: those continue with them. */
  forgetForeign(isMine: (dispatchId: DispatchId) => boolean): void;
}
