// The trace that a request is part of, by its header `traceparent` (W3C Trace Context). A run that the request starts is part of that trace, and a signal
// or a submit is linked to it. An invalid header counts as absent, as that recommendation asks for; `tracestate` is not kept.
import type { FastifyRequest } from "fastify";
import * as Type from "typebox";
import { parseTraceparent, traceparentOf } from "../../../machines/index.js";
import { IdempotencyHeader } from "./idempotency.js";

/** The headers of a command to a run, as the OpenAPI document describes them. */
export const CommandHeaders = Type.Object({
  ...IdempotencyHeader.properties,
  traceparent: Type.Optional(
    Type.String({ description: "The trace of the caller (W3C Trace Context). An invalid one counts as absent." }),
  ),
});

export function traceOf({ headers }: Pick<FastifyRequest, "headers">): { readonly traceparent?: string } {
  const { traceparent } = headers;
  if (typeof traceparent !== "string") return {};
  const context = parseTraceparent(traceparent.trim());
  return context ? { traceparent: traceparentOf(context) } : {};
}
