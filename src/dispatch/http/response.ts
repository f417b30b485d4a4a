// What the response of an HTTP worker means, by the wire contract: 2xx is accepted, and a 200 may bring the outcome; 429 and 503 have taken
// nothing; any other status fails the attempt. Pure.
import { givenCode, isObject, type Json, type JsonObject } from "../../../machines/index.js";
import type { Incoming } from "../../egress/exchange.js";
import { type Delivery, failed, type Outcome } from "../push/outlet.js";
import { retryAfterOf } from "../request/response.js";
import {
  type CheckedResult,
  checkedResult,
  overLimit,
  parsedJson,
  storableMessage,
  storableName,
  unfit,
} from "../worker-report.js";

export interface ResponseLimits {
  readonly outputBytes: number;
  /** Epoch milliseconds, for `Retry-After`. */
  readonly now: number;
}

/** Statuses of a worker that has taken nothing. */
const BUSY: ReadonlySet<number> = new Set([429, 503]);

export function responded(incoming: Incoming, host: string, { outputBytes, now }: ResponseLimits): Delivery {
  const { status } = incoming;
  const why = `${host} answered ${status}`;
  if (BUSY.has(status)) {
    const afterMs = retryAfterOf(incoming, now);
    return { kind: "undelivered", reason: "busy", why, ...(afterMs !== undefined && { afterMs }) };
  }
  if (status >= 500) return failed(`http_${status}`, why, { retryable: true, outcomeUnknown: true });
  if (status >= 300) return failed(`http_${status}`, why);
  const outcome = status === 200 ? outcomeIn(incoming.body, outputBytes) : undefined;
  return outcome ? { kind: "answered", outcome, by: host } : { kind: "accepted" };
}

/** Undefined: the body has no outcome, so the worker reports it later. A member that is null counts as absent. */
function outcomeIn(bytes: Buffer, outputBytes: number): Outcome | undefined {
  const parsed = bytes.length === 0 ? undefined : parsedJson(bytes);
  const body = parsed && "value" in parsed ? parsed.value : undefined;
  const { result = null, error: reported = null }: JsonObject = isObject(body) ? body : {};
  if (result === null && reported === null) return undefined;
  if (reported === null) return resultOf(result, outputBytes);
  const error = result === null ? reportedError(reported) : undefined;
  return error ?? effective(unfit("the response must have one of result and error, as a report has"));
}

function resultOf(result: Json, outputBytes: number): Outcome {
  const bytes = Buffer.byteLength(JSON.stringify(result));
  const checked: CheckedResult = bytes > outputBytes ? overLimit(bytes, outputBytes) : checkedResult(result);
  return "result" in checked ? checked : effective(checked);
}

/** Undefined: it is not an error as reports have it. */
function reportedError(error: Json): Outcome | undefined {
  if (!isObject(error)) return undefined;
  const { code, message } = error;
  const [retryable, outcomeUnknown] = [error.retryable ?? true, error.outcome_unknown ?? false];
  if (typeof code !== "string" || code === "" || typeof message !== "string") return undefined;
  if (typeof retryable !== "boolean" || typeof outcomeUnknown !== "boolean") return undefined;
  return { code: givenCode(storableName(code)), message: storableMessage(message), retryable, outcomeUnknown };
}

/** The worker has done something: its effect may have to be undone. */
function effective({ code, message }: Exclude<CheckedResult, { result: unknown }>): Outcome {
  return { code, message, retryable: false, outcomeUnknown: true };
}
