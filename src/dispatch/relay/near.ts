// What the relay needs of this node's own worker streams, beyond what every transport offers. A port: the gRPC transport
// implements it.
import type { Dispatch } from "../../../machines/index.js";
import type { ActionName, Transport } from "../transport.js";

/** A dispatch that a worker somewhere has begun. */
export interface Begun {
  readonly dispatch: Dispatch;
  readonly cancelReason?: string;
}

export interface Near extends Pick<Transport, "send" | "cancel" | "resolved" | "holds"> {
  /** Whether a worker here executes the action, with or without credit at the moment. */
  serves(name: ActionName): boolean;
  /** Takes a credit under an id: a dispatch's, or a voucher's. */
  reserve(id: string, name: ActionName): { readonly workerId?: string } | undefined;
  /** The credit that was reserved under the id becomes the dispatch's, and the worker gets it. False: there is none (any more). */
  redeem(id: string, dispatch: Dispatch): boolean;
  /** Binds it to the worker of this node that has claimed it; nothing is executed. False: none has. */
  adopt(dispatch: Dispatch): boolean;
  /** Whether the committed dispatch is here, with a worker or without. */
  carries(dispatchId: string): boolean;
  /** Gives up a dispatch that has no worker here, or none but this one, which holds it at another node now. */
  surrender(dispatchId: string, workerId: string | undefined): Begun | undefined;
  /** To any worker: it is known that no one has begun it. */
  sendAgain(dispatch: Dispatch): void;
  /** The actions of what was lost and waits for any worker, and how many. */
  waiting(): Iterable<readonly [name: ActionName, waiting: number]>;
  /** Gives up the first of these. */
  takeLost(name: ActionName, fits: (dispatch: Dispatch) => boolean): Dispatch | undefined;
  /** What has a worker's credit; not `begun`: reserved only. */
  bound(): Iterable<readonly [id: string, workerId: string, begun: boolean]>;
  /** What has no worker here and is others' to go on with. */
  forgetLost(isMine: (dispatchId: string) => boolean): void;
}
