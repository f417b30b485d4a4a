// One end of the IPC channel between a node process and its primary, as an interface so that tests can join both ends in one process.
// It is not a queue: a bounded amount waits for a peer that does not read, and the rest is dropped.
import type { Frame } from "./frames.js";
import { InFlightLimit } from "./in-flight-limit.js";

export interface Channel {
  /** Sends the frame or loses it. Never throws. */
  send(frame: Frame): void;
  /** Returns a function that removes the listener. */
  onMessage(listener: (message: unknown) => void): () => void;
}

/** The common part of a forked process (in the primary) and `process` (in the node). */
export interface IpcPeer {
  readonly connected: boolean;
  on(event: "message", listener: (message: unknown) => void): unknown;
  off(event: "message", listener: (message: unknown) => void): unknown;
  send?(frame: Frame, handle: undefined, options: object, sent: (error: Error | null) => void): boolean;
}

/** The channel of `worker.process` in the primary, or of `process` in a node. */
export function createProcessChannel(peer: IpcPeer): Channel {
  const inFlight = new InFlightLimit();
  return {
    send(frame) {
      const size = frame.saga_bus === "node" ? frame.text.length : 0;
      if (!peer.connected || !inFlight.reserve(size)) return;
      // The callback comes when the pipe has taken the frame, or with the error of a broken pipe: no longer unsent in both cases.
      peer.send?.(frame, undefined, {}, () => inFlight.release(size));
    },
    onMessage(listener) {
      peer.on("message", listener);
      return () => void peer.off("message", listener);
    },
  };
}
