// All streams of this node, also those that have not said hello: bounded in all, by the address that they come from, and by the connection. The
// choice of a stream is stream-pool.ts.
import type { DispatchLimits } from "../limits.js";
import { Tally } from "../tally.js";
import type { WorkerStream } from "./stream.js";

type StreamLimits = Pick<DispatchLimits, "streams" | "streamsPerAddress" | "streamsPerConnection">;

export class AttachedStreams {
  /** Their peers: the address and port of a connection. */
  private readonly peers = new Map<WorkerStream, string>();
  private readonly byAddress = new Tally();
  private readonly byPeer = new Tally();

  /** The limit that the stream exceeds, if any: then it has not entered. */
  enter(stream: WorkerStream, { streams, streamsPerAddress, streamsPerConnection }: StreamLimits): string | undefined {
    const peer = stream.call.getPeer();
    const address = addressOf(peer);
    if (this.peers.size >= streams) return `the node has ${streams} worker streams, the most it takes`;
    // Before the address: one connection leaves room for others that come from there.
    if (this.byPeer.of(peer) >= streamsPerConnection)
      return `the connection has ${streamsPerConnection} streams to this node, the most it may have: open another one`;
    if (this.byAddress.of(address) >= streamsPerAddress)
      return `the address ${address} has ${streamsPerAddress} streams to this node, the most it may have`;
    this.peers.set(stream, peer);
    this.byPeer.add(peer, 1);
    this.byAddress.add(address, 1);
    return undefined;
  }

  leave(stream: WorkerStream): void {
    const peer = this.peers.get(stream);
    if (peer === undefined) return;
    this.peers.delete(stream);
    this.byPeer.add(peer, -1);
    this.byAddress.add(addressOf(peer), -1);
  }
}

/** Without the port, which differs from connection to connection. */
const addressOf = (peer: string) => peer.replace(/:\d+$/, "");
