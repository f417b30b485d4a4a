// Headers that every answer has, whatever it answers.
import type { FastifyInstance } from "fastify";

/** A browser takes an answer for what it says that it is, shows it in no frame, and tells no other site where it came from. */
const BROWSER_HEADERS = {
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "Content-Security-Policy": "frame-ancestors 'none'",
  "Referrer-Policy": "no-referrer",
};

export function answerHeaders(app: FastifyInstance): void {
  app.addHook("onRequest", async (request, reply) => {
    reply.headers({ "X-Request-Id": request.id, ...BROWSER_HEADERS });
  });
}
