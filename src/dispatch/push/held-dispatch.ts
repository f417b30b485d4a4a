// A dispatch that this node holds: reserved until it has its `dispatch`, then on its way to the worker. It decides nothing.
import type { ActionCall, Dispatch, DispatchId } from "../../../machines/index.js";
import { Alarm } from "../../sdk/timer.js";
import type { Address } from "./addresses.js";
import type { CutOffReason, Destination } from "./outlet.js";

export class HeldDispatch {
  dispatch: Dispatch | undefined;
  /** It has a slot of its destination. */
  slot = false;
  /** A try, or the report of its outcome, is under way. */
  busy = false;
  /** Its run asks for it to be stopped. */
  cancelled = false;
  /** Why it was not handed over, when it was last tried. */
  why = "it was not sent yet";
  /** Aborts the try under way. */
  readonly cutOff = new AbortController();
  /** Aborted when the run waits for it no longer. */
  readonly resolved = new AbortController();
  private ringing: Alarm | undefined;

  constructor(
    readonly dispatchId: DispatchId,
    readonly call: ActionCall,
    readonly destination: Destination,
    readonly address: Address,
    /** It may have reached the worker: a try was lost, or a former owner had it. */
    public mayHaveArrived: boolean,
  ) {}

  abort(reason: CutOffReason): void {
    this.cutOff.abort(reason);
  }

  /** Replaces the former alarm. */
  alarm(ms: number, ring: () => void): void {
    this.silence();
    this.ringing = new Alarm(ms, ring).unref();
  }

  silence(): void {
    this.ringing?.stop();
  }
}
