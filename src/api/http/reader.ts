// Who reads, of a request: its principal's reach, and whether its client is still there. Every read of a handler begins with one.
import type { FastifyReply, FastifyRequest } from "fastify";
import { reachOf } from "../../access/index.js";
import type { Reader } from "../../store/lists/read-pool.js";
import { closeSignal, closeSignalOf } from "./close-signal.js";

export function readerOf({ principal }: Pick<FastifyRequest, "principal">, reply: Pick<FastifyReply, "raw">): Reader {
  return { reach: reachOf(principal), closed: closeSignal(reply) };
}

/** Of a request that becomes a WebSocket, as long as its connection is open. */
export function socketReader(
  { principal }: Pick<FastifyRequest, "principal">,
  socket: Parameters<typeof closeSignalOf>[0],
): Reader {
  return { reach: reachOf(principal), closed: closeSignalOf(socket) };
}
