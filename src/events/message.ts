// A message as an event: the routing key is the topic, the body the payload, the message id the idempotency key. The rules are those of
// `POST /api/v1/events`; a message that breaks one can never be taken.
import { isUtf8 } from "node:buffer";
import type { ConsumeMessage, MessageProperties } from "amqplib";
import {
  HEADER_NAME_PATTERN,
  isLongerThan,
  isObject,
  isTenantHeader,
  isUuid,
  type Json,
  MAX_EVENT_HEADERS,
  MAX_HEADER_CHARS,
  measure,
  misfit,
  TENANT_HEADER,
} from "../../machines/index.js";
import { parseJson } from "../json-text.js";
import type { IncomingEvent } from "./announcer.js";

/** Set by the service on everything that it publishes. What it published itself is not taken again. */
export const OWN_APP_ID = "saga";
/** Why a message is in the queue of those that could not be taken, and the topic that it had. Both names are a format. */
export const REASON_HEADER = "x-saga-reason";
export const TOPIC_HEADER = "x-saga-topic";

export interface MessageLimits {
  /** Bytes of a body. */
  readonly bodyBytes: number;
  /** Characters of a payload as JSON. */
  readonly outputBytes: number;
}

export interface MessageRules {
  /** A header names the tenant of every message. Absent: no header does, and events are of no tenant. */
  readonly namesTenant?: boolean;
}

/** The message can never be taken. Its reason quotes nothing of the body. */
export class Refused extends Error {
  override readonly name = "Refused";
}

const TOPIC = new RegExp(misfit.TOPIC_PATTERN);
const HEADER_NAME = new RegExp(HEADER_NAME_PATTERN);
const MAX_KEY_CHARS = 255;
/** Headers of the broker and of ours, on a message that comes back from the queue of messages that could not be taken. */
const HISTORY = /^x-(saga-(reason|topic)|(first|last)-death-\w+|delivery-count)$/;

export const isOwn = ({ properties }: ConsumeMessage) => properties.appId === OWN_APP_ID;

export interface Read {
  readonly event: IncomingEvent;
  /** Headers that an event could have, beyond as many as it may have. */
  readonly leftOut: number;
}

/** Throws Refused. */
export function readMessage(
  { content, fields, properties }: ConsumeMessage,
  limits: MessageLimits,
  { namesTenant }: MessageRules = {},
): Read {
  const topic = fields.routingKey;
  if (!TOPIC.test(topic)) throw new Refused(`the routing key ${misfit.unlike(misfit.TOPIC_PATTERN)}`);
  const found = properties.headers ?? {};
  const tenant = namesTenant ? { tenantId: tenantOf(found) } : {};
  const { headers, leftOut } = headersOf(namesTenant ? withoutTenant(found) : found);
  const key = keyOf(properties);
  const payload = payloadOf(content, properties, limits);
  return { event: { topic, headers, payload, ...tenant, ...(key && { idempotencyKey: key }) }, leftOut };
}

type Found = Readonly<Record<string, unknown>>;

/** Who may publish to the exchange is trusted with every tenant; a message that names none, or two, is no one's. */
function tenantOf(found: Found): string {
  const [named, ...others] = Object.entries(found).filter(([name]) => isTenantHeader(name));
  if (!named || others.length > 0)
    throw new Refused(`the message must name its tenant once, in the header ${TENANT_HEADER}`);
  const [, tenant] = named;
  if (!isUuid(tenant)) throw new Refused(`the header ${TENANT_HEADER} must be the UUID of a tenant`);
  return tenant.toLowerCase();
}

const withoutTenant = (found: Found): Found =>
  Object.fromEntries(Object.entries(found).filter(([name]) => !isTenantHeader(name)));

function keyOf({ messageId }: MessageProperties): string | undefined {
  const key = messageId === undefined ? "" : String(messageId);
  if (isLongerThan(key, MAX_KEY_CHARS)) throw new Refused(`the message id ${misfit.tooLong(MAX_KEY_CHARS)}`);
  if (typeof measure(key) !== "number") throw new Refused("the message id cannot be stored");
  return key || undefined;
}

/**
 * Numbers and booleans become text. Tables, lists and times are left out: brokers and plugins add them. So is what no condition could name:
 * libraries of other languages put names such as `$.diagnostics.originating.hostid`, and long texts, into the headers of all their messages.
 * Of more than an event may have, the first by name count: whatever their order, the same message is the same event.
 */
function headersOf(found: Readonly<Record<string, unknown>>) {
  const entries = Object.entries(found).flatMap(([name, value]) =>
    /^(string|number|boolean)$/.test(typeof value) && isHeader(name, String(value))
      ? [[name, String(value)] as const]
      : [],
  );
  const leftOut = Math.max(entries.length - MAX_EVENT_HEADERS, 0);
  if (leftOut > 0) entries.sort(([one], [other]) => (one < other ? -1 : 1)).splice(MAX_EVENT_HEADERS);
  return { headers: Object.fromEntries(entries), leftOut };
}

const isHeader = (name: string, value: string) =>
  HEADER_NAME.test(name) &&
  !HISTORY.test(name) &&
  !isLongerThan(value, MAX_HEADER_CHARS) &&
  typeof measure(value) === "number";

/** An empty body is an absent payload. */
function payloadOf(content: Buffer, { contentEncoding }: MessageProperties, limits: MessageLimits): Json {
  const { bodyBytes, outputBytes } = limits;
  if (content.length > bodyBytes)
    throw new Refused(`the body has ${content.length} bytes, more than ${bodyBytes} (SAGA_LIMIT_BODY_BYTES)`);
  if (contentEncoding && !/^(utf-?8|identity)$/i.test(contentEncoding))
    throw new Refused("the body has a content encoding; send it without one");
  if (!isUtf8(content)) throw new Refused("the body is not UTF-8");
  const payload = content.length === 0 ? {} : parsed(content.toString());
  const size = measure(payload);
  if (typeof size !== "number") throw new Refused(`the payload cannot be stored: $${size.path} ${size.message}`);
  if (size > outputBytes)
    throw new Refused(`the payload is over ${outputBytes} characters of JSON (SAGA_LIMIT_OUTPUT_BYTES)`);
  return payload;
}

function parsed(text: string): Json {
  let value: Json;
  try {
    value = parseJson(text) as Json;
  } catch {
    throw new Refused("the body is not JSON");
  }
  // Deeper values are refused afterwards.
  if (text.includes("\\u00") || /__proto__|constructor/.test(text)) refusePrototypes(value, 0);
  return value;
}

const MAX_DEPTH = 200;

/** Members that would reach the prototype of an object, as in bodies of requests. */
function refusePrototypes(value: Json, depth: number): void {
  if (typeof value !== "object" || value === null || depth > MAX_DEPTH) return;
  const reaches =
    isObject(value) &&
    (Object.hasOwn(value, "__proto__") ||
      (Object.hasOwn(value, "constructor") && isObject(value.constructor) && "prototype" in value.constructor));
  if (reaches) throw new Refused("the payload has a member that would reach the prototype of an object");
  for (const member of Object.values(value)) refusePrototypes(member as Json, depth + 1);
}
