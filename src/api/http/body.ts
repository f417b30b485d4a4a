// JSON bodies: parsed safely, refused where Postgres could not store them, checked against the schema of their route without
// coercion. Parameters are in parameters.ts.
import { isUtf8 } from "node:buffer";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { Ajv, type ErrorObject, type ValidateFunction } from "ajv";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { TSchema, TUnsafe } from "typebox";
import {
  beginningOf,
  FORBIDDEN_NAMES,
  isObject,
  type Json,
  type JsonObject,
  jsonPath,
  measure,
  pathOfPointer,
} from "../../../machines/index.js";
import { badRequest, type ErrorDetail, type SagaError, unsupportedMediaType } from "../../errors.js";
import type { Turns } from "../../turns.js";
import type { Checked } from "./checked.js";
import { type BodyBounds, receiveBody } from "./receive.js";
import { partyOf } from "./turns.js";
import { Type } from "./type.js";

/** Far deeper than any real document, far shallower than any stack. */
const MAX_DEPTH = 200;
const MAX_DETAILS = 100;
const MAX_IGNORED_NAMED = 50;
/** Of all names in the header: clients take 8 to 16 KiB of headers. */
const MAX_IGNORED_CHARS = 4_000;

/** Stands for a body that was not sent. */
export const ABSENT = Symbol("absent");

/** Any JSON object, as it is. In other objects, members that the schema does not name are ignored. */
export const AnyObject = (options: object = {}) =>
  Type.Unsafe<JsonObject>({ type: "object", additionalProperties: true, ...options });

/** The body of a command that takes nothing: it may be omitted. */
export const NoMembers = Type.Object({}, { default: {} });

const SHAPE = Symbol("shape");
type Shape = (body: unknown) => TSchema;

/**
 * The schema of a body that has more than one shape. `documented` is for the OpenAPI document; a body is checked by the shape
 * that is chosen for it, so that errors name the members of that shape only.
 */
export function shaped<T>(documented: TSchema, choose: Shape): TUnsafe<T> {
  const schema = { ...documented, [SHAPE]: choose };
  return Type.Unsafe<T>(schema);
}

function shapeOf(schema: TSchema & { readonly [SHAPE]?: Shape }, body: unknown): TSchema {
  return schema[SHAPE]?.(body) ?? schema;
}

/** Before the body is read: bytes that are encoded would be taken for malformed JSON. */
export function refuseEncodings(app: FastifyInstance): void {
  app.addHook("onRequest", async ({ headers }) => {
    const encoding = headers["content-encoding"];
    if (encoding === undefined || encoding.toLowerCase() === "identity" || !announcesBody(headers)) return;
    throw unsupportedMediaType("the body has a Content-Encoding; send it without one");
  });
}

function announcesBody(headers: IncomingHttpHeaders): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

export function parseJsonBodies(app: FastifyInstance, bounds: BodyBounds, turns: Turns): void {
  const parse = jsonParser(app);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", async (request: FastifyRequest, payload: IncomingMessage) => {
    const bytes = await receiveBody(request, payload, bounds);
    return turns.compute(partyOf(request), () => parse(request, bytes));
  });
}

/** An empty body counts as absent, whatever its content type. */
function jsonParser(app: FastifyInstance): (request: FastifyRequest, bytes: Buffer) => unknown {
  const parse = app.getDefaultJsonParser("error", "error");
  return (request, bytes) => {
    if (bytes.length === 0) return undefined;
    // Decoding would turn different bodies into the same text.
    if (!isUtf8(bytes)) throw badRequest("the body is not UTF-8");
    let parsed: { error?: unknown; body?: unknown } = {};
    parse(request, bytes.toString(), (error, body) => {
      parsed = { error, body };
    });
    if (parsed.error) throw parsed.error;
    const problem = unstorable(parsed.body);
    if (problem) throw badRequest(`the body cannot be stored: ${problem.path} ${problem.message}`, [problem]);
    return parsed.body;
  };
}

function unstorable(body: unknown): ErrorDetail | undefined {
  if (isDeeper(body, MAX_DEPTH)) return { path: "$", message: `is nested deeper than ${MAX_DEPTH} levels` };
  const size = measure(body);
  return typeof size === "number" ? undefined : { path: `$${size.path}`, message: size.message };
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (levels === 0) return true;
  const members = Array.isArray(value) ? value : Object.values(value);
  return members.some((member) => isDeeper(member, levels - 1));
}

/** A payload becomes the output of the step that takes it. */
export function refuseLargePayload(payload: Json, limit: number): void {
  const size = measure(payload);
  if (typeof size !== "number" || size <= limit) return;
  const message = `is over ${limit} characters of JSON (SAGA_LIMIT_OUTPUT_BYTES)`;
  throw badRequest(`$.payload ${message}`, [{ path: "$.payload", message }]);
}

const ajv = new Ajv({ allErrors: true, strict: false, coerceTypes: false, verbose: false });
const compiled = new WeakMap<TSchema, ValidateFunction>();

function compile(schema: TSchema): ValidateFunction {
  const known = compiled.get(schema) ?? ajv.compile(schema);
  compiled.set(schema, known);
  return known;
}

/** The check of a route's body. An absent body is the schema's `default`; without a default it is refused. */
export function bodyCheck(schema: TSchema & { readonly default?: unknown }): (body: unknown) => Checked {
  return (body) => {
    if (body === ABSENT) return "default" in schema ? { value: structuredClone(schema.default) } : { error: missing() };
    const validate = compile(shapeOf(schema, body));
    return validate(body) ? { value: body } : { error: refusal(validate.errors ?? []) };
  };
}

function missing(): SagaError {
  return badRequest("a JSON body is required", [{ path: "$", message: "is missing" }]);
}

function refusal(errors: readonly ErrorObject[]): SagaError {
  const details = errors.slice(0, MAX_DETAILS).map(detailOf);
  const [first] = details;
  return badRequest(first ? `the body is not valid: ${first.path} ${first.message}` : "the body is not valid", details);
}

function detailOf({ instancePath, keyword, params, message = "is not valid" }: ErrorObject): ErrorDetail {
  const path = pathOfPointer(instancePath);
  if (keyword === "required") return { path: jsonPath(path, params.missingProperty), message: "is required" };
  if (keyword === "enum") return { path, message: `must be one of ${params.allowedValues.join(", ")}` };
  if (keyword === "pattern") return { path, message: `must match ${params.pattern}` };
  return { path, message };
}

/** The members of a checked body that its schema does not name, safe in a header. */
export function ignoredFields(schema: TSchema, body: unknown): string[] {
  const ignored = [...unknownMembers(shapeOf(schema, body), body, "")];
  return shortened(ignored.slice(0, MAX_IGNORED_NAMED).map(headerSafe), ignored.length);
}

/** As many names as the header has room for, and `...` if there are more. */
function shortened(names: readonly string[], count: number): string[] {
  let left = MAX_IGNORED_CHARS;
  const fitting = names.filter((name) => {
    left -= name.length + 2;
    return left >= 0;
  });
  return fitting.length < count ? [...fitting, "..."] : fitting;
}

interface SchemaNode {
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly additionalProperties?: unknown;
  readonly items?: SchemaNode;
}

function* unknownMembers(schema: SchemaNode, value: unknown, path: string): Generator<string> {
  if (Array.isArray(value) && schema.items) {
    for (const [index, item] of value.entries()) yield* unknownMembers(schema.items, item, `${path}[${index}]`);
  } else if (isObject(value) && schema.properties) {
    for (const [name, member] of Object.entries(value)) {
      const known = Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined;
      const place = path === "" ? name : `${path}.${name}`;
      if (known) yield* unknownMembers(known, member, place);
      else if (schema.additionalProperties === undefined) yield place;
    }
  }
}

function headerSafe(name: string): string {
  return encodeURIComponent(beginningOf(name, 200))
    .replaceAll("%5B", "[")
    .replaceAll("%5D", "]")
    .replaceAll("%3A", ":");
}

/** Names that must never reach an object. */
export function refuseNames(members: object, path: string): void {
  for (const name of Object.keys(members)) {
    if (!FORBIDDEN_NAMES.has(name)) continue;
    const place = jsonPath(path, name);
    throw badRequest(`the name at ${place} is not allowed`, [
      { path: place, message: "is a name that is not allowed" },
    ]);
  }
}
