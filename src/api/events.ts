// Publishing events. The answer says only that the event is durable: the runs that wait for it are notified afterwards, and each
// decides for itself whether to consume it.

import * as Type from "typebox";
import {
  HEADER_NAME_PATTERN,
  isTenantHeader,
  type Json,
  jsonPath,
  MAX_EVENT_HEADERS,
  MAX_HEADER_CHARS,
  misfit,
  RESERVED_HEADER,
  UUID_PATTERN,
} from "../../machines/index.js";
import { ownerFor, refuseNarrowed } from "../access/index.js";
import { badRequest, conflict } from "../errors.js";
import { EventIntake } from "../events/announcer.js";
import type { ApiDeps } from "./deps.js";
import { refuseLargePayload } from "./http/body.js";
import { IdempotencyHeader, IdempotencyKey, idempotencyKey } from "./http/idempotency.js";
import { object, responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";

const Headers = Type.Unsafe<Readonly<Record<string, string>>>({
  type: "object",
  propertyNames: { pattern: HEADER_NAME_PATTERN },
  additionalProperties: { type: "string", maxLength: MAX_HEADER_CHARS },
  maxProperties: MAX_EVENT_HEADERS,
});

const Publish = Type.Object({
  topic: Type.String({ pattern: misfit.TOPIC_PATTERN }),
  headers: Type.Optional(Headers),
  tenant_id: Type.Optional(
    Type.String({ pattern: UUID_PATTERN, description: "Only runs and triggers of this tenant see the event." }),
  ),
  payload: Type.Optional(Type.Unsafe<Json>({ description: "Any JSON value; {} if absent or null." })),
  idempotency_key: Type.Optional(IdempotencyKey),
});

const PUBLISHED = object("The event is durable; the runs that wait for it are being notified.", {
  event_id: { type: "string", format: "uuid" },
});

export function eventRoutes(app: Api, { sql, announcer, config }: ApiDeps): void {
  const schema = {
    tags: ["events"],
    "x-saga-role": "operator" as const,
    summary: "Publish an event; with the same idempotency_key it is published once",
    body: Publish,
    headers: IdempotencyHeader,
    response: responses({ 202: PUBLISHED }, 400, 409, 413, 415),
  };
  const intake = new EventIntake(sql, announcer);
  app.post("/api/v1/events", { schema }, async (request, reply) => {
    const { principal } = request;
    const { topic, headers = {}, payload = {}, tenant_id: named } = request.body;
    const key = idempotencyKey(request, request.body.idempotency_key);
    refuseLargePayload(payload, config.limits.outputBytes);
    refuseTenantHeader(headers);
    refuseNarrowed(principal, "publish events");
    const tenantId = ownerFor(principal, named?.toLowerCase());
    const taken = await intake.take({ topic, headers, payload, idempotencyKey: key, ...(tenantId && { tenantId }) });
    if (taken === "conflict") throw conflict("another event was published with this idempotency_key");
    reply.status(202);
    return { event_id: taken.id };
  });
}

/** The service says itself whose an event is. */
function refuseTenantHeader(headers: Readonly<Record<string, string>>): void {
  const name = Object.keys(headers).find(isTenantHeader);
  if (name === undefined) return;
  const path = jsonPath("$.headers", name);
  throw badRequest(`${path} ${RESERVED_HEADER}`, [{ path, message: RESERVED_HEADER }]);
}
