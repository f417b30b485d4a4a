// Whether the client of a request is still there. A read ends with its client.
import type { EventEmitter } from "node:events";
import type { FastifyReply } from "fastify";

/** Aborted when the reply's connection is closed, or its answer sent. */
export const goneOf = ({ raw }: Pick<FastifyReply, "raw">): AbortSignal => closeOf(raw);

/** Without a reason of ours, each end would make an exception with its stack. */
const CLOSED = new Error("the connection is closed, or its answer sent");

export function closeOf(emitter: EventEmitter): AbortSignal {
  const gone = new AbortController();
  emitter.once("close", () => gone.abort(CLOSED));
  return gone.signal;
}
