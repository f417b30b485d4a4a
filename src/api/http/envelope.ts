// The error envelope: every answer from status 400 up has it, wherever the error was noticed. The error catalogue is
// src/errors.ts.

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { ConnectionError, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { firstCharacters, isLongerThan } from "../../../machines/index.js";
import { Unauthenticated } from "../../access/index.js";
import { randomUUID } from "../../ambient.js";
import {
  badRequest,
  bodyTooLarge,
  type ErrorDetail,
  internal,
  notFound,
  overloaded,
  RateLimited,
  SagaError,
  unauthorized,
  unsupportedMediaType,
} from "../../errors.js";
import { isStoreAway } from "../../store/engine/failure.js";
import { BROWSER_HEADERS, TLS_HEADERS } from "./headers.js";

const MAX_BYTES = 64 * 1024;
/** Bytes for the names of the members that follow. */
const ROOM_BYTES = 64;
/** Characters of a message, and of a path. Each of them takes at most six bytes of JSON. */
const MAX_TEXT = 4096;

export function installErrors(app: FastifyInstance): void {
  app.setErrorHandler((error, request, reply) => sendError(error, request, reply));
  app.setNotFoundHandler((request, reply) => sendError(noRoute(request), request, reply));
  app.server.on("checkExpectation", answerExpectation);
}

export function noRoute({ method, url }: Pick<FastifyRequest, "method" | "url">): SagaError {
  return notFound(`there is no route ${method} ${url.split("?")[0]}`);
}

/** Also Fastify's `frameworkErrors`: errors from before a route was found. */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const answer = answerTo(error);
  // Nobody gets the answer of a request whose client has gone, and its work was ended for that.
  if (answer.status >= 500 && !reply.raw.destroyed) logFault(error, answer, request);
  sendAnswer(answer, request, reply, error instanceof Unauthenticated ? error.reason : undefined);
}

/** Of a request that was refused for its credential: why, for the security log. */
export interface Refused {
  readonly status: number;
  readonly reason: string;
}

const refused = new WeakMap<FastifyRequest, Refused>();

/** Once the answer of the request is being sent. */
export const refusalTo = (request: FastifyRequest): Refused | undefined => refused.get(request);

/** Sends the answer without a log line: for refusals that are counted and come by the thousand. */
export function sendAnswer(
  answer: SagaError,
  request: FastifyRequest,
  reply: FastifyReply,
  reason = answer.message,
): void {
  const { status, code } = answer;
  if (status === 401) reply.header("WWW-Authenticate", "Bearer");
  if (status === 401 || status === 403 || code === "rate_limited") refused.set(request, { status, reason });
  if (answer.status === 503) reply.header("Retry-After", "1");
  if (answer instanceof RateLimited) reply.header("Retry-After", String(answer.retryAfterSeconds));
  reply.status(answer.status).type("application/json; charset=utf-8").send(envelope(answer, request.id));
}

/** An envelope of at most MAX_BYTES. Details that do not fit are left out, and it says so. */
export function envelope({ code, message, details = [], extra }: SagaError, requestId: string): object {
  const whole = { ...extra, error: code, message: cut(message), request_id: requestId };
  if (details.length === 0) return whole;
  const fitting = fittingDetails(details, MAX_BYTES - bytesOf(whole) - ROOM_BYTES);
  return { ...whole, details: fitting, ...(fitting.length < details.length && { details_truncated: true }) };
}

function fittingDetails(details: readonly ErrorDetail[], bytes: number): ErrorDetail[] {
  const fitting: ErrorDetail[] = [];
  let left = bytes;
  for (const { path, message } of details) {
    const detail = { path: cut(path), message: cut(message) };
    left -= bytesOf(detail) + 1;
    if (left < 0) break;
    fitting.push(detail);
  }
  return fitting;
}

/** Characters of a segment of the path. Ids have up to 128, and a URL may encode each of them as three. */
export const MAX_SEGMENT = 512;

const bytesOf = (value: object) => Buffer.byteLength(JSON.stringify(value));
const cut = (text: string) => (isLongerThan(text, MAX_TEXT) ? `${firstCharacters(text, MAX_TEXT)}…` : text);

/** The answer to bytes that are not HTTP. No request exists yet, so the envelope is written to the socket. */
export function answerClientError(error: ConnectionError, socket: Socket): void {
  const isGone = error.code === "ECONNRESET" || socket.destroyed || !socket.writable;
  // Without a handshake nothing that is written would arrive.
  if (isGone || /^ERR_(SSL|TLS)_/.test(error.code ?? "")) return void socket.destroy();
  const [status, reason] = CLIENT_ERRORS[error.code ?? ""] ?? ["400 Bad Request", "the request is not valid HTTP"];
  writeRefusal(socket, status, reason);
}

/** The answer to a WebSocket handshake that is not valid; the library would write it without an envelope. */
export function answerHandshakeError(error: Error, socket: Duplex): void {
  writeRefusal(socket, "400 Bad Request", `the WebSocket handshake is not valid: ${error.message}`);
}

function writeRefusal(socket: Duplex, status: string, message: string): void {
  const { body, headers } = bareRefusal(message, socket);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  socket.end([`HTTP/1.1 ${status}`, ...lines, "", body].join("\r\n"));
}

/** The answer where there is no reply of the framework. */
function bareRefusal(message: string, socket: object) {
  const body = JSON.stringify({ error: "bad_request", message, request_id: randomUUID() });
  const length = { "Content-Length": Buffer.byteLength(body), Connection: "close" };
  const fixed = { ...BROWSER_HEADERS, ...("encrypted" in socket && TLS_HEADERS) };
  return { body, headers: { "Content-Type": "application/json; charset=utf-8", ...fixed, ...length } };
}

/** Node would answer an `Expect` that it does not know without a body. */
function answerExpectation({ socket }: IncomingMessage, response: ServerResponse): void {
  const { body, headers } = bareRefusal("the header Expect may only be 100-continue", socket);
  response.writeHead(417, headers).end(body);
}

const CLIENT_ERRORS: Readonly<Record<string, readonly [string, string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: ["408 Request Timeout", "the request did not arrive in time"],
  HPE_HEADER_OVERFLOW: ["431 Request Header Fields Too Large", "the request line and its headers are too large"],
};

function answerTo(error: unknown): SagaError {
  if (error instanceof SagaError) return error;
  if (error instanceof Unauthenticated) return unauthorized();
  const { code, statusCode } = (error ?? {}) as { code?: unknown; statusCode?: unknown };
  if (isStoreAway(error)) return overloaded("the store cannot answer now; try again");
  if (typeof statusCode !== "number" || statusCode >= 500 || statusCode < 400) {
    return internal("internal error; the log has its cause under this request_id");
  }
  return refusalOf(statusCode, String(code));
}

/** Fastify's refusals in our words: its messages name internals. */
function refusalOf(status: number, code: string): SagaError {
  if (status === 413) return bodyTooLarge("the body is larger than SAGA_LIMIT_BODY_BYTES");
  if (status === 415) return unsupportedMediaType("the body must be application/json");
  if (status === 404) return notFound("there is no such resource");
  if (code === "FST_ERR_BAD_URL") return badRequest("the URL is malformed");
  if (code === "FST_ERR_MAX_PARAM_LENGTH")
    return badRequest(`a segment of the path is longer than ${MAX_SEGMENT} characters: ids have up to 128`);
  // An error without a code is the parser's, of a body that would reach a prototype.
  if (!code.startsWith("FST_ERR_CTP_") && code !== "undefined") return badRequest("the request is malformed");
  const message = "the body is not JSON, or has a member that could reach an object's prototype";
  return badRequest(message, [{ path: "$", message: "is not acceptable JSON" }]);
}

/** Error messages of Postgres quote values of the request, so only their code is logged. */
function logFault(error: unknown, answer: SagaError, request: FastifyRequest): void {
  const { name, code, severity, stack } = (error ?? {}) as Partial<Record<string, unknown>>;
  const fault = severity === undefined ? { name, code, stack } : { name, code, severity };
  const level = answer.status === 503 ? "warn" : "error";
  request.log[level]({ fault, route: request.routeOptions.url, request_id: request.id }, "request failed");
}
