// Load shedding of requests: every request that is not a read is admitted, or refused, before its body is read; the body counts as it arrives, and
// the request once its body is whole. The node decides whether there is room (work/load-shedder.ts); probes and streams pass.

import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { performance } from "../../ambient.js";
import { SagaError } from "../../errors.js";
import type { Logger } from "../../log.js";
import type { AdmittedWork, LoadShedder, WorkKind } from "../../work/load-shedder.js";
import { sendAnswer } from "./envelope.js";
import { routeOf } from "./routes.js";

declare module "fastify" {
  interface FastifyContextConfig {
    /** The kind of work for the load shedder; default: new work. */
    work?: WorkKind;
  }
}

/** Connections of a process, streams included. Further ones are closed without a response. */
const MAX_CONNECTIONS = 20_000;
const DROP_LOG_INTERVAL_MS = 10_000;

const READS: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"]);

const admitted = new WeakMap<FastifyRequest, AdmittedWork>();

/** The request's work is done, and it may only wait now. A repeat changes nothing. */
export function endOfWork(request: FastifyRequest): void {
  admitted.get(request)?.release();
}

/** More of the request's body has arrived. Throws 503 if there is no room for it. */
export function countBody(request: FastifyRequest, bytes: number): void {
  admitted.get(request)?.receive(bytes);
}

export function admitRequests(app: FastifyInstance, shedder: Pick<LoadShedder, "admit">): void {
  app.addHook("onRequest", (request: FastifyRequest, reply: FastifyReply, done) => {
    if (READS.has(request.method) || request.is404) return done();
    try {
      admitted.set(request, shedder.admit(routeOf(request).config.work ?? "new"));
    } catch (error) {
      if (!(error instanceof SagaError)) throw error;
      return void sendAnswer(error, request, reply);
    }
    // A client that disconnects before its answer gets no response, and so no onResponse.
    reply.raw.once("close", () => endOfWork(request));
    done();
  });
  app.addHook("preValidation", (request, _reply, done) => {
    admitted.get(request)?.begin();
    done();
  });
  app.addHook("onResponse", (request, _reply, done) => {
    endOfWork(request);
    done();
  });
}

export function boundConnections({ server }: FastifyInstance, log: Pick<Logger, "warn">): void {
  server.maxConnections = MAX_CONNECTIONS;
  let loggedAt = Number.NEGATIVE_INFINITY;
  server.on("drop", () => {
    if (performance.now() - loggedAt < DROP_LOG_INTERVAL_MS) return;
    loggedAt = performance.now();
    log.warn({ connections: server.maxConnections }, "too many connections, closing new ones without a response");
  });
}
