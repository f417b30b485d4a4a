// Connections on their way from the primary to a node. node:cluster accepts each one and hands it over; where the node dies
// before it has taken it, the connection stays open and unanswered for ever. Here it is closed, so that its client asks again.
//
// This listens to node:cluster's own messages, which it does not document (`newconn`, and the answer to its `seq`). Should
// they ever look different, nothing is noticed here, and it is as it would be without.
import type { ChildProcess } from "node:child_process";

interface Handle {
  close(): void;
}

interface Newconn {
  readonly act?: unknown;
  readonly seq?: unknown;
}

/** Call what it returns when the node is over. */
export function watchHandoffs(node: ChildProcess): () => void {
  const underWay = new Map<unknown, Handle>();
  const send = node.send;
  node.send = (...args: unknown[]): boolean => {
    const [message, handle] = args as [Newconn, Handle | undefined];
    if (message.act === "newconn" && message.seq !== undefined && handle) underWay.set(message.seq, handle);
    return Reflect.apply(send, node, args);
  };
  node.on("internalMessage", ({ ack }: { readonly ack?: unknown }) => void underWay.delete(ack));
  return () => {
    for (const handle of underWay.values()) handle.close();
    underWay.clear();
  };
}
