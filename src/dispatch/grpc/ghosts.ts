// Steps that were resolved without an answer: the worker may be at them still, so their credit stays taken until their
// deadline. It gives nothing back itself: it says what is due.
import type { WorkerStream } from "./stream.js";

interface Ghost {
  readonly stream: WorkerStream;
  /** Database time, epoch milliseconds. */
  readonly deadlineAt: number;
}

export class Ghosts {
  readonly #ghosts = new Map<string, Ghost>();

  set(dispatchId: string, stream: WorkerStream, deadlineAt: number): void {
    this.#ghosts.set(dispatchId, { stream, deadlineAt });
  }

  streamOf(dispatchId: string): WorkerStream | undefined {
    return this.#ghosts.get(dispatchId)?.stream;
  }

  delete(dispatchId: string): void {
    this.#ghosts.delete(dispatchId);
  }

  /** Of a stream that has ended. */
  drop(stream: WorkerStream): void {
    for (const [dispatchId, ghost] of this.#ghosts) if (ghost.stream === stream) this.#ghosts.delete(dispatchId);
  }

  /** Removes those whose deadline has passed and gives them. */
  takeDue(now: number): [dispatchId: string, stream: WorkerStream][] {
    const due: [string, WorkerStream][] = [];
    for (const [dispatchId, { stream, deadlineAt }] of this.#ghosts) {
      if (deadlineAt > now) continue;
      this.#ghosts.delete(dispatchId);
      due.push([dispatchId, stream]);
    }
    return due;
  }
}
