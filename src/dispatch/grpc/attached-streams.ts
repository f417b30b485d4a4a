// All streams of this node, also those that have not said hello: bounded in all, and by the address that they come from. Those of one connection
// are bounded by HTTP/2, as server.ts announces; the choice of a stream is stream-pool.ts.
import type { DispatchLimits } from "../limits.js";
import { Tally } from "../tally.js";
import type { WorkerStream } from "./stream.js";

type StreamLimits = Pick<DispatchLimits, "streams" | "streamsPerAddress">;

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

/** The address without the port, which differs from connection to connection. */
const addressOf = (peer: string) => peer.replace(/:\d+$/, "");
