// The error catalogue: every error a client can see, with its stable code and HTTP status. Not the errors of a workflow's
// steps, which are data of a run (docs/contract, "Error codes of the engine").

/** Codes are part of the wire contract: a retired one is never used again. */
export type ErrorCode =
  | "bad_request"
  | "invalid_config"
  | "unauthorized"
  | "forbidden"
  | "not_found"
  | "conflict"
  | "unprocessable"
  | "rate_limited"
  | "internal"
  | "publish_failed"
  | "overloaded";

export interface ErrorDetail {
  /** A JSON path, `$` for the document itself. */
  readonly path: string;
  readonly message: string;
}

/** An error with an answer: what the API sends as its envelope. Its message never carries a stack, SQL, a secret or a payload. */
export class SagaError extends Error {
  override readonly name = "SagaError";
  constructor(
    readonly status: number,
    readonly code: ErrorCode,
    message: string,
    readonly details?: readonly ErrorDetail[],
    /** Members that stand beside `error` and `message` in the envelope. */
    readonly extra?: Readonly<Record<string, unknown>>,
  ) {
    super(message);
  }
}

export const badRequest = (message: string, details?: readonly ErrorDetail[]) =>
  new SagaError(400, "bad_request", message, details);
export const invalidConfig = (message: string, details?: readonly ErrorDetail[]) =>
  new SagaError(400, "invalid_config", message, details);
export const notFound = (message: string) => new SagaError(404, "not_found", message);
export const conflict = (message: string, extra?: Readonly<Record<string, unknown>>) =>
  new SagaError(409, "conflict", message, undefined, extra);
export const unprocessable = (message: string, details?: readonly ErrorDetail[]) =>
  new SagaError(422, "unprocessable", message, details);
/** Load is shed, or an outcome could not be learnt in time: the same request may be sent again. */
export const overloaded = (message: string) => new SagaError(503, "overloaded", message);
