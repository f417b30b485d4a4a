// One end of a channel between a node process and its primary, so that tests can join both in one process. It is not a queue:
// a peer that does not read has a bounded amount waiting for it, and the rest is dropped.
import type { Frame } from "./frames.js";
import { Window } from "./window.js";

export interface Port {
  /** Sent or lost. Never throws. */
  send(message: Frame): void;
  /** Returns what ends the hearing. */
  onMessage(hear: (message: unknown) => void): () => void;
}

/** What a forked process (in the primary) and `process` (in the node) have in common. */
export interface IpcPeer {
  readonly connected: boolean;
  on(event: "message", hear: (message: unknown) => void): unknown;
  off(event: "message", hear: (message: unknown) => void): unknown;
  send?(message: Frame, handle: undefined, options: object, sent: (error: Error | null) => void): boolean;
}

/** In the primary: of `worker.process`. In a node: of `process`. */
export function createProcessPort(peer: IpcPeer): Port {
  const window = new Window();
  return {
    send(message) {
      const size = message.saga_bus === "node" ? message.text.length : 0;
      if (!peer.connected || !window.take(size)) return;
      // Called back when the pipe has taken it, or with the error of one that broke; either way it is gone.
      peer.send?.(message, undefined, {}, () => window.giveBack(size));
    },
    onMessage(hear) {
      peer.on("message", hear);
      return () => void peer.off("message", hear);
    },
  };
}
