// Credit of steps that were resolved without an answer: the worker may still execute them, so their credit stays taken
// until their deadline. It returns no credit itself: it says which is due.
import type { ReservationId } from "../voucher-id.js";
import type { WorkerStream } from "./stream.js";

interface Held {
  readonly stream: WorkerStream;
  /** Database time, epoch milliseconds. */
  readonly deadlineAt: number;
}

export class HeldCredit {
  private readonly held = new Map<ReservationId, Held>();

  set(dispatchId: ReservationId, stream: WorkerStream, deadlineAt: number): void {
    this.held.set(dispatchId, { stream, deadlineAt });
  }

  streamOf(dispatchId: ReservationId): WorkerStream | undefined {
    return this.held.get(dispatchId)?.stream;
  }

  delete(dispatchId: ReservationId): void {
    this.held.delete(dispatchId);
  }

  /** Forgets the credit of a stream that has ended. */
  dropStream(stream: WorkerStream): void {
    for (const [dispatchId, held] of this.held) if (held.stream === stream) this.held.delete(dispatchId);
  }

  /** Removes and returns the dispatches whose deadline has passed. `now` is database time. */
  takeDue(now: number): [dispatchId: ReservationId, stream: WorkerStream][] {
    const due: [ReservationId, WorkerStream][] = [];
    for (const [dispatchId, { stream, deadlineAt }] of this.held) {
      if (deadlineAt > now) continue;
      this.held.delete(dispatchId);
      due.push([dispatchId, stream]);
    }
    return due;
  }
}
