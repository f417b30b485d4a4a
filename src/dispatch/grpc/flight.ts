// A dispatch that this node holds, or the credit that is set aside for one. Data only: the transport moves it.
import type { Dispatch } from "../../../machines/index.js";
import type { ActionName } from "../transport.js";
import type { WorkerStream } from "./stream.js";

/** Reserved while it has no `dispatch`; handed over, or to be handed over again, once it has. */
export interface Flight {
  /** Its dispatch's, or a voucher's that no dispatch has come for yet. */
  readonly id: string;
  readonly name: ActionName;
  dispatch?: Dispatch;
  /** Whose credit it takes. Absent: its stream was lost, and it waits for a claim or for another worker. */
  stream: WorkerStream | undefined;
  /** Handed over by the node that owns its run: when its stream is lost, that one goes on with it. */
  guest?: boolean;
  cancelReason?: string;
  heartbeatAt?: number;
  heartbeatUnderWay?: boolean;
}

export type Committed = Flight & { dispatch: Dispatch };

export function isCommitted(flight: Flight | undefined): flight is Committed {
  return flight?.dispatch !== undefined;
}
