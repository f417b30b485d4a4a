// The errors of the client: what the service refused, what did not reach it, and how a run ended. No message has a credential, a query or a payload.
import type { SagaRun } from "./generated/resources.js";

/** What all errors of this package have in common. An abort is none of them: it throws the reason of its signal. */
export class SagaError extends Error {
  override readonly name: string = "SagaError";
}

/** One fault of a request. */
export interface Detail {
  /** A JSON path into the body, such as `$.inputs.sku`. */
  readonly path: string;
  readonly message: string;
}

/** The error envelope of the service. */
export interface Envelope {
  readonly error: string;
  readonly message: string;
  readonly details?: readonly Detail[] | undefined;
  readonly details_truncated?: boolean | undefined;
  readonly signal_id?: string | undefined;
  readonly recorded?: boolean | undefined;
  readonly request_id?: string | undefined;
}

/** The service refused the request. The classes below are by status; a status without one of its own is of this class. */
export class SagaApiError extends SagaError {
  override readonly name: string = "SagaApiError";
  /** The stable code of the envelope, such as `conflict`. */
  readonly code: string;
  readonly details: readonly Detail[];
  /** The log of the service has more under this id. */
  readonly requestId: string | undefined;

  constructor(
    readonly status: number,
    readonly envelope: Envelope,
    /** What `Retry-After` asks for. */
    readonly retryAfterMs?: number,
  ) {
    super(envelope.message);
    this.code = envelope.error;
    this.details = envelope.details ?? [];
    this.requestId = envelope.request_id;
  }
}

/** 400, 413, 415, 422: the request is malformed, or its content does not fit. `details` says where. */
export class Invalid extends SagaApiError {
  override readonly name: string = "Invalid";
}
/** 401: the credential is missing or not accepted. */
export class Unauthorized extends SagaApiError {
  override readonly name: string = "Unauthorized";
}
/** 403: the credential does not allow it. */
export class Forbidden extends SagaApiError {
  override readonly name: string = "Forbidden";
}
/** 404 */
export class NotFound extends SagaApiError {
  override readonly name: string = "NotFound";
}
/** 409: it makes no sense now, or contradicts what is stored. */
export class Conflict extends SagaApiError {
  override readonly name: string = "Conflict";
}
/** 429, after all repeats. */
export class RateLimited extends SagaApiError {
  override readonly name: string = "RateLimited";
}
/** 503, after all repeats. */
export class Overloaded extends SagaApiError {
  override readonly name: string = "Overloaded";
}

const BY_STATUS: Readonly<Record<number, typeof SagaApiError>> = {
  ...{ 400: Invalid, 413: Invalid, 415: Invalid, 422: Invalid, 401: Unauthorized, 403: Forbidden, 404: NotFound },
  ...{ 409: Conflict, 429: RateLimited, 503: Overloaded },
};

export function apiError(status: number, envelope: Envelope, retryAfterMs?: number): SagaApiError {
  return new (BY_STATUS[status] ?? SagaApiError)(status, envelope, retryAfterMs);
}

/** No answer came: a connection failed, a time limit passed, or a gateway before the service said so. */
export class Unreachable extends SagaError {
  override readonly name: string = "Unreachable";
  /** What `Retry-After` of a gateway asks for. */
  readonly retryAfterMs: number | undefined;

  constructor(message: string, { cause, retryAfterMs }: { cause?: unknown; retryAfterMs?: number | undefined } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.retryAfterMs = retryAfterMs;
  }
}

/** Something answered that is not the service, or it redirected. The client follows no redirect: its credential is for one place. */
export class UnexpectedAnswer extends SagaError {
  override readonly name: string = "UnexpectedAnswer";
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

/** The run failed. `code`, `step` and `cause` are those of its error. */
export class SagaFailed extends SagaError {
  override readonly name: string = "SagaFailed";
  readonly code: string;
  /** The step that failed; absent if none did, such as at the run's time limit. */
  readonly step: string | undefined;

  constructor(readonly run: SagaRun) {
    const { code = "failed", message = run.last_error ?? "", step_id, cause } = run.error ?? {};
    super(`the run ${run.id} failed: ${code}${step_id === undefined ? "" : ` at ${step_id}`}: ${message}`, { cause });
    this.code = code;
    this.step = step_id;
  }
}

/** The run was cancelled. */
export class SagaCancelled extends SagaError {
  override readonly name: string = "SagaCancelled";
  constructor(readonly run: SagaRun) {
    super(`the run ${run.id} was cancelled${run.last_error === undefined ? "" : `: ${run.last_error}`}`);
  }
}

/** The time to wait is over, and the run goes on. */
export class SagaNotEnded extends SagaError {
  override readonly name: string = "SagaNotEnded";
  constructor(
    /** As it was last seen. */
    readonly run: SagaRun,
    timeoutMs: number,
  ) {
    super(`the run ${run.id} has not ended within ${timeoutMs} ms: it is ${run.state}`);
  }
}
