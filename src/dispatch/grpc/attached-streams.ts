// All streams of this node, also those that have not said hello: bounded in all and by the address that they come from. The choice of a
// stream is stream-pool.ts.
import type { DispatchLimits } from "../limits.js";
import type { WorkerStream } from "./stream.js";

export class AttachedStreams {
  private readonly addresses = new Map<WorkerStream, string>();
  private readonly counts = new Map<string, number>();

  /** The limit that the stream exceeds, if any: then it has not entered. */
  enter(
    stream: WorkerStream,
    { streams, streamsPerAddress }: Pick<DispatchLimits, "streams" | "streamsPerAddress">,
  ): string | undefined {
    const address = addressOf(stream.call.getPeer());
    const own = this.counts.get(address) ?? 0;
    if (this.addresses.size >= streams) return `the node has ${streams} worker streams, the most it takes`;
    if (own >= streamsPerAddress)
      return `the address ${address} has ${streamsPerAddress} streams to this node, the most it may have`;
    this.addresses.set(stream, address);
    this.counts.set(address, own + 1);
    return undefined;
  }

  leave(stream: WorkerStream): void {
    const address = this.addresses.get(stream);
    if (address === undefined) return;
    this.addresses.delete(stream);
    const left = (this.counts.get(address) ?? 1) - 1;
    if (left > 0) this.counts.set(address, left);
    else this.counts.delete(address);
  }
}

/** Without the port, which differs from connection to connection. */
const addressOf = (peer: string) => peer.replace(/:\d+$/, "");
