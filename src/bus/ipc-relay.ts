// The primary's part of the IPC bus: it passes each node's frames to the nodes that they are for. It opens no envelope, keeps no message,
// and answers only that a node is not there.
import { type ShardId, shardOf } from "../ids.js";
import type { Channel } from "./channel.js";
import { type Frame, frameOf } from "./frames.js";

interface Attached {
  readonly channel: Channel;
  nodeId?: string;
  shards: ReadonlySet<ShardId>;
}

export class IpcRelay {
  private readonly all = new Set<Attached>();
  private readonly byNode = new Map<string, Attached>();

  /** Call the returned function when the process has ended: its node is forgotten. */
  attach(channel: Channel): () => void {
    const attached: Attached = { channel, shards: new Set() };
    this.all.add(attached);
    const leave = channel.onMessage((message) => this.receive(attached, message));
    channel.send({ saga_bus: "who" });
    return () => {
      leave();
      this.all.delete(attached);
      this.forget(attached);
    };
  }

  private receive(from: Attached, message: unknown): void {
    const frame = frameOf(message);
    if (frame === undefined || frame === "malformed") return;
    if (frame.saga_bus === "here") this.introduce(from, frame.node_id, frame.shards);
    else if (frame.saga_bus === "gone") this.forget(from);
    else if (frame.saga_bus === "advance") this.advance(frame);
    else if (frame.saga_bus === "node") this.pass(from, frame);
  }

  private introduce(attached: Attached, nodeId: string, shards: readonly ShardId[]): void {
    if (attached.nodeId !== nodeId) this.forget(attached);
    attached.nodeId = nodeId;
    attached.shards = new Set(shards);
    this.byNode.set(nodeId, attached);
  }

  private forget(attached: Attached): void {
    const { nodeId } = attached;
    // A later node with the same id keeps its place.
    if (nodeId !== undefined && this.byNode.get(nodeId) === attached) this.byNode.delete(nodeId);
    delete attached.nodeId;
    attached.shards = new Set();
  }

  private advance(frame: Frame & { saga_bus: "advance" }): void {
    const shard = shardOf(frame.run_id);
    for (const { channel, shards } of this.all) if (shards.has(shard)) channel.send(frame);
  }

  private pass(from: Attached, frame: Frame & { saga_bus: "node" }): void {
    const to = this.byNode.get(frame.to);
    if (to) to.channel.send(frame);
    else if (frame.ask_id !== undefined) from.channel.send({ saga_bus: "unheard", ask_id: frame.ask_id });
  }
}
