// Connections on their way from the primary to a node. node:cluster accepts each connection and hands it over; if the node dies
// before it has taken the connection, it stays open and unanswered. Here it is closed, so that its client can try again.
//
// The end of the process and the end of its channel are reported apart. Until it has seen the second, node:cluster hands connections to a
// node that has ended: those are closed, too.
//
// This reads undocumented messages of node:cluster (`newconn`, and the acknowledgement of its `seq`). If they ever change,
// nothing is recognised here, and such connections stay open as they would without this file.
import type { ChildProcess } from "node:child_process";

interface Handle {
  close(): void;
}

interface Newconn {
  readonly act?: unknown;
  readonly seq?: unknown;
}

/** Call the returned function when the node process has ended. Connections that are handed to it later are closed. */
export function watchHandoffs(node: ChildProcess): () => void {
  const inTransit = new Map<unknown, Handle>();
  let ended = false;
  const send = node.send;
  node.send = (...args: unknown[]): boolean => {
    const [message, handle] = args as [Newconn, Handle | undefined];
    if (message.act === "newconn" && message.seq !== undefined && handle) {
      if (ended) {
        handle.close();
        return false;
      }
      inTransit.set(message.seq, handle);
    }
    return Reflect.apply(send, node, args);
  };
  node.on("internalMessage", ({ ack }: { readonly ack?: unknown }) => void inTransit.delete(ack));
  return () => {
    ended = true;
    for (const handle of inTransit.values()) handle.close();
    inTransit.clear();
  };
}
