// The worker streams that have said hello, by service, and the choice among them. What they hold is the transport's.
import type { ActionName } from "../transport.js";
import type { WorkerStream } from "./stream.js";

export class Roster {
  readonly #services = new Map<string, Set<WorkerStream>>();
  #turns = 0;

  get size(): number {
    let size = 0;
    for (const streams of this.#services.values()) size += streams.size;
    return size;
  }

  *all(): IterableIterator<WorkerStream> {
    for (const streams of [...this.#services.values()]) yield* [...streams];
  }

  add(stream: WorkerStream): void {
    const streams = this.#services.get(stream.service) ?? new Set();
    this.#services.set(stream.service, streams.add(stream));
  }

  remove(stream: WorkerStream): void {
    const streams = this.#services.get(stream.service);
    if (streams?.delete(stream) && streams.size === 0) this.#services.delete(stream.service);
  }

  /** Whether a worker that takes steps serves the action, with or without credit at the moment. */
  serves(name: ActionName): boolean {
    for (const stream of this.#services.get(name.service) ?? [])
      if (stream.isOpen && !stream.draining && stream.serves(name)) return true;
    return false;
  }

  /** The stream with the most free credit that serves the action; among equals the one that waited longest. */
  select(name: ActionName): WorkerStream | undefined {
    let best: WorkerStream | undefined;
    for (const stream of this.#services.get(name.service) ?? []) {
      if (stream.free <= 0 || !stream.serves(name)) continue;
      if (!best || stream.free > best.free || (stream.free === best.free && stream.turn < best.turn)) best = stream;
    }
    return best;
  }

  /** It got a step: the others of equal credit come first next time. */
  served(stream: WorkerStream): void {
    stream.turn = ++this.#turns;
  }
}
