// Publishing events. Who waits for one is told after it is durable, and decides for itself whether to take it; the answer says
// only that it is published.
import type { FastifyInstance } from "fastify";
import { type Static, Type } from "typebox";
import {
  HEADER_NAME_PATTERN,
  type Json,
  MAX_EVENT_HEADERS,
  MAX_HEADER_CHARS,
  measure,
  TOPIC_PATTERN,
} from "../../machines/index.js";
import { badRequest, conflict } from "../errors.js";
import { uuidv7 } from "../ids.js";
import { requestHash } from "../run/request-hash.js";
import { publishEvent } from "../store/events.js";
import { readBody } from "./body.js";
import type { ApiDeps } from "./index.js";
import { responses } from "./schemas.js";

const Headers = Type.Unsafe<Readonly<Record<string, string>>>({
  type: "object",
  propertyNames: { pattern: HEADER_NAME_PATTERN },
  additionalProperties: { type: "string", maxLength: MAX_HEADER_CHARS },
  maxProperties: MAX_EVENT_HEADERS,
});

const Publish = Type.Object({
  topic: Type.String({ pattern: TOPIC_PATTERN }),
  headers: Type.Optional(Headers),
  payload: Type.Optional(Type.Unsafe<Json>({ description: "Any JSON value; {} if absent." })),
  idempotency_key: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
});

const PUBLISHED = {
  description: "The event is durable, and those that wait for it are told.",
  type: "object",
  properties: { event_id: { type: "string", format: "uuid" } },
};

export function eventRoutes(app: FastifyInstance, { sql, announcer, config }: ApiDeps): void {
  const schema = {
    tags: ["events"],
    summary: "Publish an event; with the same `idempotency_key` it is published once",
    body: Publish,
    response: responses({ 202: PUBLISHED }, 400, 409, 413, 415),
  };
  app.post("/api/v1/events", { schema }, async (request, reply) => {
    const event = eventOf(readBody(request, reply, Publish));
    refuseLarge(event.payload, config.limits.outputBytes);
    const id = await publishEvent(sql, event);
    if (id === undefined) throw conflict("another event was published with this idempotency_key");
    if (id === event.id) announcer.announce(id);
    reply.status(202);
    return { event_id: id };
  });
}

function eventOf({ topic, headers = {}, payload = {}, idempotency_key: idempotencyKey }: Static<typeof Publish>) {
  return { id: uuidv7(), topic, headers, payload, idempotencyKey, hash: requestHash({ topic, headers, payload }) };
}

/** It becomes the output of a step in every run that takes it. */
function refuseLarge(payload: Json, most: number): void {
  const size = measure(payload);
  if (typeof size !== "number" || size <= most) return;
  const message = `is over ${most} characters of JSON (SAGA_LIMIT_OUTPUT_BYTES)`;
  throw badRequest(`$.payload ${message}`, [{ path: "$.payload", message }]);
}
