// Admission at the door of the API: whatever is no read asks for it before its body is read. Whether there is room is the
// node's to say (run/admission.ts); reads, probes and streams pass.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { SagaError } from "../errors.js";
import type { Logger } from "../log.js";
import type { Admission, WorkKind } from "../run/admission.js";
import { sendAnswer } from "./envelope.js";

declare module "fastify" {
  interface FastifyContextConfig {
    /** What the route's requests are for admission, where that is not by their method. */
    work?: WorkKind;
  }
}

/** Connections of a process, run streams among them. One more is closed unheard. */
const MOST_CONNECTIONS = 20_000;
/** It is said at most this often. */
const DROPS_TOLD_MS = 10_000;

const READS: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"]);

export function admitRequests(app: FastifyInstance, admission: Pick<Admission, "admit">): void {
  const places = new WeakMap<FastifyRequest, () => void>();
  const leave = (request: FastifyRequest) => {
    places.get(request)?.();
    places.delete(request);
  };
  app.addHook("onRequest", async (request: FastifyRequest, reply: FastifyReply) => {
    if (READS.has(request.method) || request.is404) return;
    try {
      places.set(request, admission.admit(request.routeOptions.config.work ?? "new", announcedBytes(request)));
    } catch (error) {
      if (!(error instanceof SagaError)) throw error;
      sendAnswer(error, request, reply);
      return reply;
    }
    // The client may be gone before it is answered: then there is no response to wait for.
    reply.raw.once("close", () => leave(request));
  });
  app.addHook("onResponse", async (request) => leave(request));
}

export function boundConnections({ server }: FastifyInstance, log: Pick<Logger, "warn">): void {
  server.maxConnections = MOST_CONNECTIONS;
  let told = Number.NEGATIVE_INFINITY;
  server.on("drop", () => {
    if (performance.now() - told < DROPS_TOLD_MS) return;
    told = performance.now();
    log.warn({ connections: server.maxConnections }, "too many connections are open: more are closed unheard");
  });
}

/** What it will hold in memory at least; a body in chunks does not say. */
function announcedBytes({ headers }: FastifyRequest): number {
  const bytes = Number(headers["content-length"]);
  return Number.isSafeInteger(bytes) && bytes > 0 ? bytes : 0;
}
