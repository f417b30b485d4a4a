// The token of the very call that a report is about, as the credential of the two routes of reports. It pins the report to its dispatch: what is
// in the URL and is not the token's makes it no credential. What is in the body is compared in reports.ts.
import type { FastifyRequest } from "fastify";
import {
  ALL,
  type CallbackClaims,
  type CallbackTokens,
  NOTHING,
  type Principal,
  Unauthenticated,
} from "../../access/index.js";

declare module "fastify" {
  interface FastifyRequest {
    /** The dispatch that the token of the request is for. Absent: it has none. */
    callback: CallbackClaims | undefined;
  }
}

/** Who reports with a token: known by nothing but the call. */
export const REPORTER: Principal = {
  ...{ kind: "worker", sub: "callback", actor: "api", services: ALL, secrets: NOTHING },
  roles: new Set(["worker"]),
};

export const CALLBACK_HEADER = "saga-callback-token";

/** Undefined: there is no token, so a credential is needed. Throws Unauthenticated. */
export function callbackOf(
  { headers, params, query }: Pick<FastifyRequest, "headers" | "params" | "query">,
  tokens: Pick<CallbackTokens, "verify"> | undefined,
): CallbackClaims | undefined {
  const token = headers[CALLBACK_HEADER];
  if (token === undefined) return undefined;
  const { run_id: runId = "", step_id: stepId = "" } = params as {
    readonly run_id?: string;
    readonly step_id?: string;
  };
  const claims = tokens?.verify(String(token), { runId: runId.toLowerCase(), stepId });
  if (!claims) throw new Unauthenticated("the callback token is not of this step");
  // Not checked yet, and one that is there twice is a list.
  const { attempt, dispatch_id: dispatchId } = query as Readonly<Record<string, unknown>>;
  if (attempt !== undefined && attempt !== String(claims.attempt))
    throw new Unauthenticated("the callback token is of another attempt");
  if (dispatchId !== undefined && String(dispatchId).toLowerCase() !== claims.dispatchId)
    throw new Unauthenticated("the callback token is of another dispatch");
  return claims;
}
