// One attempt of a request, and its outcome as a run's command has it. It does not retry: whether and when there is
// another attempt is decided by the run.
import {
  type Dispatch,
  type EngineErrorCode,
  type HttpRequest,
  type Json,
  type RunId,
  revealed,
} from "../../../machines/index.js";
import { ExchangeFailed, exchange, type Incoming } from "../../egress/exchange.js";
import type { Guard } from "../../egress/guard.js";
import type { Mask } from "../../egress/mask.js";
import { type Secret, type Secrets, type SecretUsers, secretMisuse, userOfSecret } from "../../egress/secrets.js";
import type { FairScheduler } from "../../work/fair-scheduler.js";
import type { CutOffReason, Failure, Outcome } from "../push/outlet.js";
import type { Answered } from "../push/reporter.js";
import { isExpected, outputOf, requestBody, retryAfterOf } from "./response.js";

export interface RequestEnvironment extends SecretUsers {
  readonly guard: Guard;
  readonly secrets: Secrets;
  /** The most bytes that a response's body may have. */
  readonly outputBytes: number;
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly scheduler: Pick<FairScheduler, "compute">;
}

type PlainRequest = HttpRequest & { readonly url: string; readonly headers: Readonly<Record<string, string>> };

const RETRYABLE_STATUSES: ReadonlySet<number> = new Set([408, 425, 429]);

/** `arrivedAt`: when there was a response. */
type Attempted = Pick<Answered, "outcome" | "arrivedAt">;

/** `signal` cuts the attempt off; its reason is a CutOffReason. */
export async function attempt(
  given: HttpRequest,
  { runId, call: { idempotencyKey } }: Pick<Dispatch, "runId" | "call">,
  environment: RequestEnvironment,
  signal: AbortSignal,
): Promise<Attempted> {
  const { guard, secrets, outputBytes, now, scheduler } = environment;
  const request = plainRequest(given);
  const { secretRef } = request;
  const secret = secretRef === undefined ? undefined : await secretFor(secretRef, request.url, environment, runId);
  if (secret && "code" in secret) return { outcome: secret };
  const { method, url, followRedirects } = request;
  const body = requestBody(request.body);
  const headers = headersOf(request, body?.type, secret, idempotencyKey);
  const outgoing = { method, url, headers, body: body?.text, followRedirects, signal, maxBytes: outputBytes };
  try {
    const incoming = await exchange(guard, { ...outgoing, overlong: "fails" });
    const arrivedAt = now();
    const { origin } = new URL(url);
    const outcome = await scheduler.compute(origin, () => outcomeOf(incoming, request, secrets.mask, arrivedAt));
    // What the run makes of a large answer is computed in another turn.
    return await scheduler.compute(origin, () => ({ outcome, arrivedAt }));
  } catch (error) {
    if (error instanceof ExchangeFailed)
      return { outcome: failureOf(error, signal.reason as CutOffReason | undefined) };
    throw error;
  }
}

/** The server gets secret values plain. */
function plainRequest(request: HttpRequest): PlainRequest {
  return revealed(request as unknown as Json) as unknown as PlainRequest;
}

function headersOf(
  request: PlainRequest,
  contentType: string | undefined,
  secret: Secret | undefined,
  idempotencyKey: string,
): Record<string, string> {
  return {
    "user-agent": "saga-orchestrator",
    accept: "application/json, */*;q=0.5",
    "accept-encoding": "identity",
    ...(contentType !== undefined && { "content-type": contentType }),
    ...request.headers,
    ...(secret && { [secret.header]: secret.line }),
    "idempotency-key": idempotencyKey,
  };
}

/** The secret, or why the request is not sent: a workflow may name any secret and any host. */
async function secretFor(
  name: string,
  url: string,
  { secrets, userOf, secretUsed }: Pick<RequestEnvironment, "secrets" | keyof SecretUsers>,
  runId: RunId,
): Promise<Secret | Failure> {
  const secret = secrets.get(name);
  let user: Awaited<ReturnType<typeof userOfSecret>>;
  try {
    user = secret && (await userOfSecret(secret, async () => userOf?.(runId)));
  } catch {
    // The store is away: the next attempt will know.
    return { ...unsent("http_network", "it is not known now whose the secret is"), retryable: true };
  }
  if (!secret || !user) return unsent("not_found", `there is no secret ${name}`);
  const misuse = secretMisuse(name, secret, "bearer", url);
  if (misuse !== undefined) return unsent("http_network", misuse);
  if (user !== "anyone") secretUsed?.(name, user);
  return secret;
}

function outcomeOf(incoming: Incoming, { expectedStatus }: HttpRequest, mask: Mask, now: number): Outcome {
  const { status } = incoming;
  if (!isExpected(status, expectedStatus)) {
    const retryable = status >= 500 || RETRYABLE_STATUSES.has(status);
    const retryAfterMs = retryable ? retryAfterOf(incoming, now) : undefined;
    const message = `the server answered ${status}`;
    const failure: Failure = { code: `http_${status}`, message, retryable, outcomeUnknown: status >= 500 };
    return retryAfterMs === undefined ? failure : { ...failure, retryAfterMs };
  }
  const output = outputOf({ ...incoming, body: mask.bytes(incoming.body) });
  if (typeof output !== "string") return { result: mask.json(output) };
  // The server acted on the request, and its answer is lost.
  return { code: "schema_mismatch", message: output, retryable: false, outcomeUnknown: true };
}

function failureOf({ kind, message, sent }: ExchangeFailed, reason: CutOffReason | undefined): Failure {
  switch (kind) {
    case "aborted":
      if (reason === "timeout")
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

function unsent(code: EngineErrorCode, message: string): Failure {
  return { code, message, retryable: false, outcomeUnknown: false };
}
