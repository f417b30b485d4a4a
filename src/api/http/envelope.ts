// How errors leave: one envelope for every status from 400 up, whoever noticed. Which errors there are stands in
// src/errors.ts.
import { randomUUID } from "node:crypto";
import type { Socket } from "node:net";
import type { ConnectionError, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { notFound, overloaded, SagaError } from "../errors.js";
import { isStoreAway } from "../store/failure.js";

export function installErrors(app: FastifyInstance): void {
  app.setErrorHandler((error, request, reply) => sendError(error, request, reply));
  app.setNotFoundHandler((request, reply) => {
    sendError(notFound(`there is no route ${request.method} ${request.url.split("?")[0]}`), request, reply);
  });
  app.addHook("onRequest", async (request, reply) => {
    reply.header("X-Request-Id", request.id);
  });
}

/** For Fastify's `frameworkErrors` too: errors from before a route was found. */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const answer = answerTo(error);
  if (answer.status >= 500) logFault(error, answer, request);
  sendAnswer(answer, request, reply);
}

/** Without a word in the log: for what is counted, and comes by the thousand. */
export function sendAnswer(answer: SagaError, request: FastifyRequest, reply: FastifyReply): void {
  if (answer.status === 503) reply.header("Retry-After", "1");
  reply.status(answer.status).type("application/json; charset=utf-8").send(envelope(answer, request.id));
}

export function envelope(error: SagaError, requestId: string): object {
  const { code, message, details, extra } = error;
  return { ...extra, error: code, message, ...(details && details.length > 0 && { details }), request_id: requestId };
}

/** Fastify's own answer to what is no HTTP at all, in our envelope. */
export function answerClientError(error: ConnectionError, socket: Socket): void {
  if (error.code === "ECONNRESET" || socket.destroyed || !socket.writable) return void socket.destroy();
  const [status, reason] = CLIENT_ERRORS[error.code ?? ""] ?? ["400 Bad Request", "the request is not valid HTTP"];
  const body = JSON.stringify({ error: "bad_request", message: reason, request_id: randomUUID() });
  const head = `HTTP/1.1 ${status}\r\nContent-Type: application/json; charset=utf-8\r\nConnection: close`;
  socket.end(`${head}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
}

const CLIENT_ERRORS: Readonly<Record<string, readonly [string, string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: ["408 Request Timeout", "the request did not arrive in time"],
  HPE_HEADER_OVERFLOW: ["431 Request Header Fields Too Large", "the headers are too large"],
};

function answerTo(error: unknown): SagaError {
  if (error instanceof SagaError) return error;
  const { code, statusCode } = (error ?? {}) as { code?: unknown; statusCode?: unknown };
  if (isStoreAway(error)) return overloaded("the store cannot answer now; try again");
  if (typeof statusCode !== "number" || statusCode >= 500 || statusCode < 400) {
    return new SagaError(500, "internal", "an internal error; the log has it under this request_id");
  }
  return refusalOf(statusCode, String(code));
}

/** Fastify's refusals, in our words: theirs name its internals. */
function refusalOf(status: number, code: string): SagaError {
  if (status === 413) return new SagaError(413, "bad_request", "the body is larger than SAGA_LIMIT_BODY_BYTES");
  if (status === 415) return new SagaError(415, "bad_request", "the body must be application/json");
  if (status === 404) return notFound("there is no such thing here");
  if (code === "FST_ERR_BAD_URL") return new SagaError(400, "bad_request", "the URL is malformed");
  const message = "the body is not JSON, or has a member that could reach an object's prototype";
  return new SagaError(400, "bad_request", message, [{ path: "$", message: "is not acceptable JSON" }]);
}

/** Messages of Postgres quote values of the request: only their code is logged. */
function logFault(error: unknown, answer: SagaError, request: FastifyRequest): void {
  const { name, code, severity, stack } = (error ?? {}) as Partial<Record<string, unknown>>;
  const fault = severity === undefined ? { name, code, stack } : { name, code, severity };
  const level = answer.status === 503 ? "warn" : "error";
  request.log[level]({ fault, route: request.routeOptions.url, request_id: request.id }, "a request failed");
}
