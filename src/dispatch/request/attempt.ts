// Performs one attempt of a request and says what came of it, in the words of a run. Not a retry: whether there is another
// attempt, and when, is the run's to decide.
import type { HttpRequest, JsonObject } from "../../../machines/index.js";
import { ExchangeFailed, exchange, type Incoming } from "../../egress/exchange.js";
import type { Guard } from "../../egress/guard.js";
import type { Secrets } from "../../egress/secrets.js";
import { isExpected, outputOf, requestBody, retryAfterOf } from "./response.js";

export interface Performing {
  readonly guard: Guard;
  readonly secrets: Secrets;
  readonly outputBytes: number;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

export interface Failure {
  readonly code: string;
  readonly message: string;
  readonly retryable: boolean;
  readonly outcomeUnknown: boolean;
  readonly retryAfterMs?: number;
}

export type Verdict = { readonly result: JsonObject } | Failure;

/** Why an exchange was cut off: the abort's reason. */
export type Cut = "cancelled" | "timeout";

const RETRIED: ReadonlySet<number> = new Set([408, 425, 429]);

export async function perform(
  request: HttpRequest,
  idempotencyKey: string,
  { guard, secrets, outputBytes, now }: Performing,
  signal: AbortSignal,
): Promise<Verdict> {
  const secret = request.secretRef === undefined ? undefined : secrets.get(request.secretRef);
  if (request.secretRef !== undefined && !secret) return unsent("not_found", `there is no secret ${request.secretRef}`);
  const body = requestBody(request.body);
  const headers = {
    "user-agent": "saga-orchestrator",
    accept: "application/json, */*;q=0.5",
    "accept-encoding": "identity",
    ...(body && { "content-type": body.type }),
    ...request.headers,
    ...(secret && { [secret.header]: secret.line }),
    "idempotency-key": idempotencyKey,
  };
  const { method, url, followRedirects } = request;
  const outgoing = { method, url, headers, body: body?.text, followRedirects, signal, maxBytes: outputBytes };
  try {
    return judged(await exchange(guard, { ...outgoing, overlong: "fails" }), request, now());
  } catch (error) {
    if (error instanceof ExchangeFailed) return failed(error, signal.reason as Cut | undefined);
    throw error;
  }
}

function judged(incoming: Incoming, { expectedStatus }: HttpRequest, now: number): Verdict {
  const { status } = incoming;
  if (!isExpected(status, expectedStatus)) {
    const retryable = status >= 500 || RETRIED.has(status);
    const retryAfterMs = retryable ? retryAfterOf(incoming, now) : undefined;
    const message = `the server answered ${status}`;
    const failure = { code: `http_${status}`, message, retryable, outcomeUnknown: status >= 500 };
    return retryAfterMs === undefined ? failure : { ...failure, retryAfterMs };
  }
  const output = outputOf(incoming);
  if (typeof output !== "string") return { result: output };
  // It was done, and what it answered is lost.
  return { code: "schema_mismatch", message: output, retryable: false, outcomeUnknown: true };
}

function failed({ trouble, message, sent }: ExchangeFailed, cut: Cut | undefined): Failure {
  switch (trouble) {
    case "aborted":
      if (cut === "timeout")
        return { code: "timeout", message: "the server did not answer in time", retryable: true, outcomeUnknown: true };
      return { code: "cancelled", message, retryable: false, outcomeUnknown: sent };
    case "too_large":
      return { code: "limit_exceeded", message, retryable: false, outcomeUnknown: true };
    case "refused":
      return { ...unsent("http_network", message), outcomeUnknown: sent };
    case "network":
      return { code: "http_network", message, retryable: true, outcomeUnknown: sent };
  }
}

function unsent(code: string, message: string): Failure {
  return { code, message, retryable: false, outcomeUnknown: false };
}
