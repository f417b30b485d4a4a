// A dispatch that this node's streams hold, or the credit that is set aside for one. Data only: in-flight.ts changes
// it.

import { type Dispatch, type DispatchId, foreignDispatch } from "../../../machines/index.js";
import type { BatchedCoordinatorMessage } from "../../sdk/protocol/index.js";
import type { ActionName } from "../action-name.js";
import type { ReservationId } from "../voucher-id.js";
import type { WorkerStream } from "./stream.js";

/** Reserved while it has no `dispatch`; once it has one, it is handed over, or about to be handed over again. */
export interface Entry {
  /** The dispatch's id, or that of a voucher whose dispatch has not come yet. */
  readonly id: ReservationId;
  readonly name: ActionName;
  dispatch?: Dispatch;
  /**
   * The stream whose credit it takes. Undefined: the stream is lost, and the entry waits for a claim or for another
   * worker.
   */
  stream: WorkerStream | undefined;
  /** The node that owns the run handed it over. If its stream is lost, that node continues with it. */
  relayed?: boolean;
  cancelReason?: string;
  /** Its worker is gone, as far as this node knows: since when, in database time, and which worker that was. */
  lost?: { readonly since: number; readonly workerId?: string } | undefined;
  /** When a heartbeat was last sent to the run, on the monotonic clock. */
  heartbeatAt?: number;
  heartbeatUnderWay?: boolean;
}

export type CommittedEntry = Entry & { readonly id: DispatchId; dispatch: Dispatch };

export function isCommitted(entry: Entry | undefined): entry is CommittedEntry {
  return entry?.dispatch !== undefined;
}

/** A committed dispatch that no stream holds. */
export function withoutStream(dispatch: Dispatch): CommittedEntry {
  return { id: dispatch.dispatchId, name: dispatch.call, dispatch, stream: undefined };
}

/** A dispatch belongs to the service that it was given to. */
export function belongsTo({ name }: Pick<Entry, "name">, { service }: Pick<WorkerStream, "service">): boolean {
  return name.service === service;
}

/** What a worker of another service gets that names the dispatch as its own. */
export function refusal({ id, name }: Entry): BatchedCoordinatorMessage {
  return { cancel: { dispatch_id: id, reason: foreignDispatch(name) } };
}
