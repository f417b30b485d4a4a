// Requests that wait, as streams, are for a credential that may end meanwhile: who has none any more is not answered with what has come since.
import type { FastifyRequest } from "fastify";
import { Unauthenticated, untilEnd } from "../../access/index.js";

/** What is waited for. Rejects with Unauthenticated once the credential has ended; the wait ends with the request. */
export function whileGood<T>(
  { principal }: Pick<FastifyRequest, "principal">,
  now: () => number,
  wait: Promise<T>,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const forget = untilEnd(principal, now, () => reject(new Unauthenticated("it ended while its request waited")));
    wait.then(resolve, reject).finally(forget);
  });
}
