// The answer's header that names what is ignored of a request: unknown members, and those that a credential says otherwise.
import type { FastifyReply } from "fastify";

const HEADER = "Saga-Ignored-Fields";

/** Added to those that are named already. */
export function nameIgnored(reply: FastifyReply, names: readonly string[]): void {
  if (names.length === 0) return;
  const before = reply.getHeader(HEADER);
  reply.header(HEADER, [...(before === undefined ? [] : [String(before)]), ...names].join(", "));
}
