// The error catalogue: every error that a client can receive, with its HTTP status and its stable code. The errors of a
// workflow's steps are not here: they are data of a run, and have a catalogue of their own in machines/.

/**
 * Codes are part of the wire contract, and a retired one is never used again. The contract reserves `publish_failed`; nothing raises it yet.
 */
export type ErrorCode =
  | "bad_request"
  | "invalid_config"
  | "unauthorized"
  | "forbidden"
  | "rate_limited"
  | "not_found"
  | "method_not_allowed"
  | "misdirected"
  | "upgrade_required"
  | "conflict"
  | "unprocessable"
  | "history_missing"
  | "key_destroyed"
  | "concurrency_limit"
  | "concurrency_queue_full"
  | "rate_limit_queue_full"
  | "internal"
  | "overloaded";

export interface ErrorDetail {
  /** A JSON path, `$` for the document itself. */
  readonly path: string;
  readonly message: string;
}

/** An error with a response: the API sends it as its envelope. The message never carries a stack, SQL, a secret or a payload. */
export class SagaError extends Error {
  override readonly name = "SagaError";
  constructor(
    readonly status: number,
    readonly code: ErrorCode,
    message: string,
    readonly details?: readonly ErrorDetail[],
    /** Members that the envelope has beside `error` and `message`. */
    readonly extra?: Readonly<Record<string, unknown>>,
  ) {
    super(message);
  }
}

/** The request is malformed: an id, the body, a query parameter. */
export const badRequest = (message: string, details?: readonly ErrorDetail[]) =>
  new SagaError(400, "bad_request", message, details);

/** The request did not arrive in time. */
export const requestTimeout = (message: string) => new SagaError(408, "bad_request", message);

export const bodyTooLarge = (message: string) => new SagaError(413, "bad_request", message);

export const unsupportedMediaType = (message: string) => new SagaError(415, "bad_request", message);

/** A workflow, rule or trigger document that fails validation; `details` lists every problem. */
export const invalidConfig = (message: string, details?: readonly ErrorDetail[]) =>
  new SagaError(400, "invalid_config", message, details);

/** The credential is missing or not accepted. Every such answer has the same body: why is no one's business but the operator's. */
export const unauthorized = () => new SagaError(401, "unauthorized", "a valid credential is needed");

/** Whoever asks may not do this. */
export const forbidden = (message: string) => new SagaError(403, "forbidden", message);

/** Too many requests, or too many refused credentials. */
export class RateLimited extends SagaError {
  /** Whole seconds, at least one. */
  readonly retryAfterSeconds: number;

  constructor(message: string, seconds: number) {
    super(429, "rate_limited", message);
    this.retryAfterSeconds = Math.max(1, Math.ceil(seconds));
  }
}

/** `seconds`: until the next one can succeed. */
export const rateLimited = (message: string, seconds: number) => new RateLimited(message, seconds);

export const methodNotAllowed = (message: string) => new SagaError(405, "method_not_allowed", message);

/** The request names a host that this service does not answer for. */
export const misdirected = (message: string) => new SagaError(421, "misdirected", message);

/** The route is a WebSocket. */
export const upgradeRequired = (message: string) => new SagaError(426, "upgrade_required", message);

export const notFound = (message: string) => new SagaError(404, "not_found", message);

export const conflict = (
  message: string,
  extra?: Readonly<Record<string, unknown>>,
  details?: readonly ErrorDetail[],
) => new SagaError(409, "conflict", message, details, extra);

/** What the run had at a step is not known any more. */
export const historyMissing = (message: string) => new SagaError(409, "history_missing", message);

/** The key that a value was sealed with was destroyed: nothing can ever read it again. */
export class KeyDestroyed extends SagaError {
  constructor() {
    super(409, "key_destroyed", "it needs values whose key was destroyed");
  }
}

/** Well-formed, but not acceptable: inputs or a result that fail their schema, a rule that cannot be evaluated. */
export const unprocessable = (message: string, details?: readonly ErrorDetail[]) =>
  new SagaError(422, "unprocessable", message, details);

/** The workflow refuses runs beyond the limit of their concurrency key. */
export const concurrencyLimit = (key: string, limit: number) =>
  new SagaError(409, "concurrency_limit", `${runs(limit)} of the concurrency key "${key}" already, which is the limit`);

/** The waiting list of the concurrency key is full. */
export const queueFull = (key: string, room: number) =>
  new SagaError(429, "concurrency_queue_full", `${room} wait for a slot of the concurrency key "${key}" already`);

/** Too many wait for their turn under the rate limit of the key. */
export const turnQueueFull = (key: string, room: number) =>
  new SagaError(429, "rate_limit_queue_full", `${room} wait for their turn of the rate limit key "${key}" already`);

const runs = (count: number) => (count === 1 ? "there is 1 run" : `there are ${count} runs`);

/** A fault of the service. */
export const internal = (message: string) => new SagaError(500, "internal", message);

/** The service is composed without a part that the request needs. */
export const notConfigured = (message: string) => new SagaError(501, "invalid_config", message);

/** Load is shed, or an outcome is not known in time: the same request may be sent again. */
export const overloaded = (message: string) => new SagaError(503, "overloaded", message);

/**
 * A run or a definition that this build cannot read, for example because a newer one has written it. It says nothing about the run: the same
 * request may succeed on another node.
 */
export class Unreadable extends SagaError {
  constructor(message: string) {
    super(503, "overloaded", message);
  }
}
