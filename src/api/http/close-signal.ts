// Whether the client of a request is still there. A read ends with its client.
import type { EventEmitter } from "node:events";
import type { FastifyReply } from "fastify";

/** Aborted when the reply's connection is closed, or its answer sent. */
export const closeSignal = ({ raw }: Pick<FastifyReply, "raw">): AbortSignal => closeSignalOf(raw);

/** Without a reason of ours, each end would make an exception with its stack. */
const CLOSED = new Error("the connection is closed, or its answer sent");

export function closeSignalOf(emitter: EventEmitter): AbortSignal {
  const closed = new AbortController();
  emitter.once("close", () => closed.abort(CLOSED));
  return closed.signal;
}
