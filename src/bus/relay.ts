// The primary's part of the IPC bus: hands each node's messages to the nodes they are for. It opens no envelope, keeps no
// message, and answers nothing but that a node is not there.
import { shardOf } from "../ids.js";
import { type Frame, frameOf } from "./frames.js";
import type { Port } from "./port.js";

export interface Relay {
  /** Call the returned function when the process has gone: its node is forgotten. */
  attach(port: Port): () => void;
}

interface Attached {
  readonly port: Port;
  nodeId?: string;
  shards: ReadonlySet<number>;
}

export function createRelay(): Relay {
  const all = new Set<Attached>();
  const byNode = new Map<string, Attached>();

  function forget(attached: Attached): void {
    // A node of the same name that came later keeps its place.
    if (attached.nodeId !== undefined && byNode.get(attached.nodeId) === attached) byNode.delete(attached.nodeId);
    delete attached.nodeId;
    attached.shards = new Set();
  }

  function introduce(attached: Attached, nodeId: string, shards: readonly number[]): void {
    if (attached.nodeId !== nodeId) forget(attached);
    attached.nodeId = nodeId;
    attached.shards = new Set(shards);
    byNode.set(nodeId, attached);
  }

  function advance(frame: Frame & { saga_bus: "advance" }): void {
    const shard = shardOf(frame.run_id);
    for (const { port, shards } of all) if (shards.has(shard)) port.send(frame);
  }

  function hear(from: Attached, message: unknown): void {
    const frame = frameOf(message);
    if (frame === undefined || frame === "malformed") return;
    if (frame.saga_bus === "here") introduce(from, frame.node_id, frame.shards);
    else if (frame.saga_bus === "gone") forget(from);
    else if (frame.saga_bus === "advance") advance(frame);
    else if (frame.saga_bus === "node") {
      const to = byNode.get(frame.to);
      if (to) to.port.send(frame);
      else if (frame.ask_id !== undefined) from.port.send({ saga_bus: "unheard", ask_id: frame.ask_id });
    }
  }

  return {
    attach(port) {
      const attached: Attached = { port, shards: new Set() };
      all.add(attached);
      const leave = port.onMessage((message) => hear(attached, message));
      port.send({ saga_bus: "who" });
      return () => {
        leave();
        all.delete(attached);
        forget(attached);
      };
    },
  };
}
