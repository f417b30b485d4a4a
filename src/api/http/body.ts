// JSON bodies: parsed safely, refused where Postgres could not store them, checked against the schema of their route without
// coercion. Parameters are in parameters.ts.
import { isUtf8 } from "node:buffer";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { Ajv, type ErrorObject, type ValidateFunction } from "ajv";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { TSchema, TUnsafe } from "typebox";
import * as Type from "typebox";
import {
  beginningOf,
  FORBIDDEN_NAMES,
  isObject,
  type Json,
  type JsonObject,
  jsonPath,
  measure,
  misfit,
  pathOfPointer,
} from "../../../machines/index.js";
import { badRequest, type ErrorDetail, type SagaError, unsupportedMediaType } from "../../errors.js";
import { parseJson, placeOf } from "../../json-text.js";
import type { FairScheduler } from "../../work/fair-scheduler.js";
import { type SchemaNode, withoutNulls } from "./absent.js";
import type { Checked } from "./parameters.js";
import { type BodyBounds, receiveBody } from "./receive.js";
import { partyOf } from "./turns.js";

/** Characters of the path of a value that cannot be stored. */
const MAX_PATH = 1_000;
const MAX_DETAILS = 100;
/** Bytes of a body. Of a larger one the first fault alone is named: each of 700,000 items may have one. */
const MOST_FOR_ALL_FAULTS = 256 * 1024;
/** The bodies that are larger. */
const LARGE = new WeakSet<object>();
const MAX_IGNORED_NAMED = 50;
/** Characters of all names in the header: clients take 8 to 16 KiB of headers. */
const MAX_IGNORED_CHARS = 4_000;

/** Stands for a body that was not sent: it counts as `{}`. `null` is a body. */
export const ABSENT = Symbol("absent");

/** Any JSON object, as it is. In other objects, members that the schema does not name are ignored. */
export const AnyObject = (options: object = {}) =>
  Type.Unsafe<JsonObject>({ type: "object", additionalProperties: true, ...options });

/** The body of a command that takes nothing. A schema with a `default` is that of a body without required members. */
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
  app.addHook("onRequest", ({ headers }, _reply, done) => {
    const encoding = headers["content-encoding"];
    if (encoding === undefined || encoding.toLowerCase() === "identity" || !announcesBody(headers)) return done();
    throw unsupportedMediaType("the body has a Content-Encoding; send it without one");
  });
}

function announcesBody(headers: IncomingHttpHeaders): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

const JSON_TYPE = /^application\/json\s*(;|$)/i;

/**
 * A body of another type is refused at its first byte: one without content is absent, whatever its type. Fastify would refuse a type before it
 * knows whether content follows, so it is shown the type of JSON only.
 */
export function parseJsonBodies(app: FastifyInstance, bounds: BodyBounds, scheduler: FairScheduler): void {
  const parse = jsonParser(app);
  app.removeAllContentTypeParsers();
  app.addHook("onRequest", ({ headers }, _reply, done) => {
    if (!announcesBody(headers) || !JSON_TYPE.test(headers["content-type"] ?? "")) delete headers["content-type"];
    done();
  });
  app.addContentTypeParser("application/json", async (request: FastifyRequest, payload: IncomingMessage) => {
    const bytes = await receiveBody(request, payload, bounds);
    if (bytes.length === 0) return undefined;
    const body = await scheduler.compute(partyOf(request), () => parse(request, bytes));
    if (bytes.length > MOST_FOR_ALL_FAULTS && typeof body === "object" && body !== null) LARGE.add(body);
    await scheduler.compute(partyOf(request), () => refuseUnstorable(body));
    return body;
  });
  const nothing = { ...bounds, bytes: 0, excess: () => unsupportedMediaType("the body must be application/json") };
  app.addContentTypeParser("*", async (request: FastifyRequest, payload: IncomingMessage) => {
    await receiveBody(request, payload, nothing);
  });
}

function jsonParser(app: FastifyInstance): (request: FastifyRequest, bytes: Buffer) => unknown {
  const parse = app.getDefaultJsonParser("error", "error");
  return (request, bytes) => {
    // Decoding would turn different bodies into the same text.
    if (!isUtf8(bytes)) throw badRequest("the body is not UTF-8");
    let parsed: { error?: unknown; body?: unknown } = {};
    parse(request, bytes.toString(), (error, body) => {
      parsed = { error, body };
    });
    if (parsed.error) throw unreadable(bytes.toString());
    return parsed.body;
  };
}

/** Fastify says neither which of the two it was nor where. */
function unreadable(text: string): SagaError {
  try {
    parseJson(text);
  } catch (error) {
    const message = `is not JSON${placeOf(error, text)}`;
    return badRequest(`the body ${message}`, [{ path: "$", message }]);
  }
  const message = "has a member that could reach an object's prototype: __proto__, or constructor with a prototype";
  return badRequest(`the body ${message}`, [{ path: "$", message }]);
}

function refuseUnstorable(body: unknown): void {
  const size = measure(body);
  if (typeof size === "number") return;
  const problem = { path: `$${beginningOf(size.path, MAX_PATH)}`, message: size.message };
  throw badRequest(`the body cannot be stored: ${problem.path} ${problem.message}`, [problem]);
}

/** A payload becomes the output of the step that takes it. */
export function refuseLargePayload(payload: Json, limit: number, path = "$.payload"): void {
  const size = measure(payload);
  if (typeof size !== "number" || size <= limit) return;
  const message = `is over ${limit} characters of JSON (SAGA_LIMIT_OUTPUT_BYTES)`;
  throw badRequest(`${path} ${message}`, [{ path, message }]);
}

/** Compiles each schema once. */
class Checks {
  private readonly ajv: Ajv;
  private readonly compiled = new WeakMap<TSchema, ValidateFunction>();

  constructor(allErrors: boolean) {
    this.ajv = new Ajv({ allErrors, strict: false, coerceTypes: false, verbose: true });
  }

  of(schema: TSchema): ValidateFunction {
    const known = this.compiled.get(schema) ?? this.ajv.compile(schema);
    this.compiled.set(schema, known);
    return known;
  }
}

const allFaults = new Checks(true);
const firstFault = new Checks(false);

function faultsOf(schema: TSchema, body: unknown, large: boolean): readonly ErrorDetail[] | undefined {
  const validate = (large ? firstFault : allFaults).of(schema);
  if (validate(body)) return undefined;
  return (validate.errors ?? [])
    .filter(({ keyword }) => keyword !== "propertyNames")
    .slice(0, MAX_DETAILS)
    .map(detailOf);
}

const isLarge = (body: unknown) => typeof body === "object" && body !== null && LARGE.has(body);

/** A list or an object with more members than it may have: none of them is looked at. */
function overfullIn(schema: SchemaNode, value: unknown, path: string): ErrorDetail | undefined {
  if (Array.isArray(value)) {
    const { items, maxItems: most = Number.POSITIVE_INFINITY } = schema;
    if (value.length > most) return { path, message: misfit.tooManyItems(most) };
    return items && firstOf(value.keys(), (index) => overfullIn(items, value[index], jsonPath(path, index)));
  }
  if (!isObject(value)) return undefined;
  const { properties = {}, maxProperties: most } = schema;
  if (most !== undefined && Object.keys(value).length > most) return { path, message: misfit.tooManyMembers(most) };
  return firstOf(Object.entries(properties), ([name, member]) =>
    Object.hasOwn(value, name) ? overfullIn(member, value[name], jsonPath(path, name)) : undefined,
  );
}

function firstOf<Item, Found>(items: Iterable<Item>, find: (item: Item) => Found | undefined): Found | undefined {
  for (const item of items) {
    const found = find(item);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The check of a route's body. Its value has no optional member that is null. */
export function bodyCheck(schema: TSchema): (body: unknown) => Checked {
  return (given) => {
    const body = given === ABSENT ? {} : given;
    const shape = shapeOf(schema, body);
    const overfull = overfullIn(shape, body, "$");
    if (overfull) return { error: refusal([overfull]) };
    const value = withoutNulls(shape, body);
    const faults = faultsOf(shape, value, isLarge(body));
    return faults ? { error: refusal(faults) } : { value };
  };
}

function refusal(details: readonly ErrorDetail[]): SagaError {
  const [first] = details;
  return badRequest(first ? `the body is not valid: ${first.path} ${first.message}` : "the body is not valid", details);
}

function detailOf({
  instancePath,
  keyword,
  params,
  schema,
  message = "is not valid",
  ...error
}: ErrorObject): ErrorDetail {
  const path = pathOfPointer(instancePath);
  if (keyword === "required") return { path: jsonPath(path, params.missingProperty), message: misfit.REQUIRED };
  if (error.propertyName !== undefined)
    return { path: jsonPath(path, error.propertyName), message: misfit.unlikeName(params.pattern) };
  return { path, message: SENTENCES.get(keyword)?.(schema as never, params) ?? message };
}

type Sentence = (wanted: never, params: ErrorObject["params"]) => string;

/** The words of ajv for the keywords of our bodies, in ours. */
const SENTENCES: ReadonlyMap<string, Sentence> = new Map<string, Sentence>([
  ["type", (_, { type }) => misfit.wrongType(...[type].flat())],
  ["enum", (values: readonly Json[]) => misfit.noneOf(values)],
  ["not", ({ const: unwanted }: { readonly const: Json }) => misfit.unwanted(unwanted)],
  ["pattern", misfit.unlike],
  ["format", misfit.notOfFormat],
  ["minimum", misfit.below],
  ["maximum", misfit.above],
  ["minLength", misfit.tooShort],
  ["maxLength", misfit.tooLong],
  ["minItems", misfit.tooFewItems],
  ["maxItems", misfit.tooManyItems],
  ["minProperties", misfit.tooFewMembers],
  ["maxProperties", misfit.tooManyMembers],
]);

/** The members of a checked body that its schema does not name, safe in a header. */
export function ignoredFields(schema: TSchema, body: unknown): string[] {
  const ignored: string[] = [];
  for (const name of unknownMembers(shapeOf(schema, body), body, "")) if (ignored.push(name) > MAX_IGNORED_NAMED) break;
  return shortened(ignored.slice(0, MAX_IGNORED_NAMED).map(headerSafe), ignored.length);
}

/** The names that the header has room for, and `...` if there are more. */
function shortened(names: readonly string[], count: number): string[] {
  let left = MAX_IGNORED_CHARS;
  const fitting = names.filter((name) => {
    left -= name.length + 2;
    return left >= 0;
  });
  return fitting.length < count ? [...fitting, "..."] : fitting;
}

function* unknownMembers(schema: SchemaNode, value: unknown, path: string): Generator<string> {
  if (Array.isArray(value) && schema.items) {
    for (const [index, item] of value.entries()) yield* unknownMembers(schema.items, item, `${path}[${index}]`);
  } else if (isObject(value) && schema.properties) {
    for (const name of Object.keys(value)) {
      const known = Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined;
      const place = path === "" ? name : `${path}.${name}`;
      if (known) yield* unknownMembers(known, value[name], place);
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
  for (const name of FORBIDDEN_NAMES) {
    if (!Object.hasOwn(members, name)) continue;
    const place = jsonPath(path, name);
    throw badRequest(`the name at ${place} is not allowed`, [
      { path: place, message: "is a name that is not allowed" },
    ]);
  }
}
