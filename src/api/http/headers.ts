// Headers that every answer has, whatever it answers.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";

/** A browser takes an answer for what it says that it is, shows it in no frame, and tells no other site where it came from. */
export const BROWSER_HEADERS = {
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "Content-Security-Policy": "frame-ancestors 'none'",
  "Referrer-Policy": "no-referrer",
};

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
export function setHeaders({ id }: Pick<FastifyRequest, "id">, reply: FastifyReply): void {
  reply.headers({ "X-Request-Id": id, ...BROWSER_HEADERS });
}
