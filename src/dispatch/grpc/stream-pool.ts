// All worker streams of this node, bounded; and those that have said hello, by service, with the choice among them. The dispatches that they hold
// are in in-flight.ts.

import type { DispatchLimits } from "../limits.js";
import { Tally } from "../request-slots.js";
import type { ActionName } from "../workers.js";
import { addressOf } from "./door.js";
import type { WorkerStream } from "./stream.js";

export class StreamPool {
  private readonly services = new Map<string, Set<WorkerStream>>();
  private turns = 0;

  get size(): number {
    let size = 0;
    for (const streams of this.services.values()) size += streams.size;
    return size;
  }

  /** The limit that one more stream would exceed, if any. */
  excessOf({ service, workerId }: WorkerStream, limits: Pick<DispatchLimits, "streams" | "streamsPerWorker">) {
    if (this.size >= limits.streams) return `the node has ${limits.streams} worker streams, the most it takes`;
    let own = 0;
    for (const stream of this.services.get(service) ?? []) if (stream.workerId === workerId) own++;
    const most = limits.streamsPerWorker;
    return own >= most ? `the worker has ${most} streams to this node, the most it may have` : undefined;
  }

  *all(): IterableIterator<WorkerStream> {
    for (const streams of [...this.services.values()]) yield* [...streams];
  }

  add(stream: WorkerStream): void {
    const streams = this.services.get(stream.service) ?? new Set();
    this.services.set(stream.service, streams.add(stream));
  }

  remove(stream: WorkerStream): void {
    const streams = this.services.get(stream.service);
    if (streams?.delete(stream) && streams.size === 0) this.services.delete(stream.service);
  }

  /** Whether a worker takes steps of the action here, with or without free credit. */
  serves(name: ActionName): boolean {
    return this.some(name, (stream) => stream.takesSteps);
  }

  /**
   * Whether a worker that is connected here serves the action. One whose credit is all at other nodes, or is on its way from one to another
   * while its steps fill it, takes no steps here.
   */
  isServed(name: ActionName): boolean {
    return this.some(name, (stream) => stream.isOpen && !stream.draining);
  }

  private some(name: ActionName, fits: (stream: WorkerStream) => boolean): boolean {
    for (const stream of this.services.get(name.service) ?? []) if (fits(stream) && stream.serves(name)) return true;
    return false;
  }

  /**
   * The stream with the most free credit that serves the action; among equals, the one that got no step for the longest
   * time.
   */
  select(name: ActionName): WorkerStream | undefined {
    let best: WorkerStream | undefined;
    for (const stream of this.services.get(name.service) ?? []) {
      const { free } = stream;
      if (free <= 0 || !stream.serves(name)) continue;
      if (!best || free > best.free || (free === best.free && stream.turn < best.turn)) best = stream;
    }
    return best;
  }

  /** The stream got a step: among streams of equal credit, the others come first next time. */
  served(stream: WorkerStream): void {
    stream.turn = ++this.turns;
  }
}

type StreamLimits = Pick<DispatchLimits, "streams" | "streamsPerAddress">;

/**
 * All streams, also those that have not said hello: bounded in all, and by the address that they come from. Those of one connection are bounded by
 * HTTP/2, as server.ts announces.
 */
export class AttachedStreams {
  private readonly addresses = new Map<WorkerStream, string>();
  private readonly byAddress = new Tally();

  /** The limit that the stream exceeds, if any: then it has not entered. */
  enter(stream: WorkerStream, { streams, streamsPerAddress }: StreamLimits): string | undefined {
    const address = addressOf(stream.call.getPeer());
    if (this.addresses.size >= streams) return `the node has ${streams} worker streams, the most it takes`;
    if (this.byAddress.of(address) >= streamsPerAddress)
      return `the address ${address} has ${streamsPerAddress} streams to this node, the most it may have`;
    this.addresses.set(stream, address);
    this.byAddress.add(address, 1);
    return undefined;
  }

  leave(stream: WorkerStream): void {
    const address = this.addresses.get(stream);
    if (address === undefined) return;
    this.addresses.delete(stream);
    this.byAddress.add(address, -1);
  }
}
