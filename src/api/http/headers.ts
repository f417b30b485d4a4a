// Headers that every answer has, whatever it answers.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";

/** A browser takes an answer for what it says that it is, shows it in no frame, and tells no other site where it came from. */
export const BROWSER_HEADERS = {
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "Content-Security-Policy": "frame-ancestors 'none'",
  "Referrer-Policy": "no-referrer",
};

/** Over TLS: a browser asks this host over TLS only, for a year from its last answer. Subdomains may be others' services. */
export const TLS_HEADERS = { "Strict-Transport-Security": "max-age=31536000" };

/** The Content-Security-Policy of our pages: they load, run and ask only what is of this service. Icons may be data. */
export const PAGE_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

export function answerHeaders(app: FastifyInstance): void {
  app.addHook("onRequest", (request, reply, done) => {
    setHeaders(request, reply);
    done();
  });
}

/** Also where no hook runs, because no route was found for the URL. */
export function setHeaders({ id, protocol }: Pick<FastifyRequest, "id" | "protocol">, reply: FastifyReply): void {
  reply.headers({ "X-Request-Id": id, ...BROWSER_HEADERS });
  if (protocol === "https") reply.headers(TLS_HEADERS);
}
