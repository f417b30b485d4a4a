// JSON bodies: parsed safely, refused where Postgres could not store them, checked against a schema without coercion. What a
// body means is its route's business.
import { isUtf8 } from "node:buffer";
import { Ajv, type ErrorObject, type ValidateFunction } from "ajv";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { type Static, type TSchema, Type } from "typebox";
import { isObject, type JsonObject, measure } from "../../machines/index.js";
import { badRequest, type ErrorDetail } from "../errors.js";

/** Far deeper than any real document, far shallower than any stack. */
const MAX_DEPTH = 200;
const MAX_DETAILS = 100;

/** Any JSON object, taken as it is. Members of other objects that their schema does not name are ignored. */
export const AnyObject = (options: object = {}) =>
  Type.Unsafe<JsonObject>({ type: "object", additionalProperties: true, ...options });

/** An empty body is none, whatever its content type says; a route that needs one refuses it. */
export function parseJsonBodies(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser("error", "error");
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", { parseAs: "buffer" }, (request, bytes, done) => {
    if (bytes.length === 0) return done(null, undefined);
    // Decoding would make one text of bodies that differ.
    if (!isUtf8(bytes as Buffer)) return done(badRequest("the body is not UTF-8"));
    parse(request, bytes.toString(), (error, body) => {
      const problem = error ? undefined : unstorable(body);
      if (problem) done(badRequest(`the body cannot be stored: ${problem.path} ${problem.message}`, [problem]));
      else done(error, body);
    });
  });
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

const ajv = new Ajv({ allErrors: true, strict: false, coerceTypes: false, verbose: false });
const compiled = new WeakMap<object, ValidateFunction>();

/** The request's body, as the schema says. Throws 400 with every fault; names what it ignored in `Saga-Ignored-Fields`. */
export function readBody<S extends TSchema>(request: FastifyRequest, reply: FastifyReply, schema: S): Static<S> {
  return checkBody(request.body, reply, schema);
}

/** The same for a body that may be left out. */
export function readOptionalBody<S extends TSchema>(request: FastifyRequest, reply: FastifyReply, schema: S) {
  return request.body === undefined ? undefined : checkBody(request.body, reply, schema);
}

export function checkBody<S extends TSchema>(body: unknown, reply: FastifyReply, schema: S): Static<S> {
  if (body === undefined) throw badRequest("a JSON body is required", [{ path: "$", message: "is missing" }]);
  let validate = compiled.get(schema);
  if (!validate) {
    validate = ajv.compile(schema);
    compiled.set(schema, validate);
  }
  if (!validate(body)) throw refusal(validate.errors ?? []);
  const ignored = [...ignoredFields(schema as SchemaNode, body, "")].slice(0, 50);
  if (ignored.length > 0) reply.header("Saga-Ignored-Fields", ignored.map(headerSafe).join(", "));
  return body as Static<S>;
}

function refusal(errors: readonly ErrorObject[]) {
  const details = errors.slice(0, MAX_DETAILS).map(detailOf);
  const [first] = details;
  return badRequest(first ? `the body is not valid: ${first.path} ${first.message}` : "the body is not valid", details);
}

function detailOf(error: ErrorObject): ErrorDetail {
  const keys = error.instancePath.split("/").slice(1);
  const path = keys.map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~")).reduce(jsonPath, "$");
  if (error.keyword === "required")
    return { path: jsonPath(path, error.params.missingProperty), message: "is required" };
  if (error.keyword === "enum") return { path, message: `must be one of ${error.params.allowedValues.join(", ")}` };
  if (error.keyword === "pattern") return { path, message: `must match ${error.params.pattern}` };
  return { path, message: error.message ?? "is not valid" };
}

/** A JSON path one step deeper. */
export function jsonPath(path: string, key: string | number): string {
  if (/^\d+$/.test(String(key))) return `${path}[${key}]`;
  return /^[A-Za-z_]\w*$/.test(String(key)) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`;
}

interface SchemaNode {
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly additionalProperties?: unknown;
  readonly items?: SchemaNode;
}

function* ignoredFields(schema: SchemaNode, value: unknown, path: string): Generator<string> {
  if (Array.isArray(value) && schema.items) {
    for (const [index, item] of value.entries()) yield* ignoredFields(schema.items, item, `${path}[${index}]`);
  } else if (isObject(value) && schema.properties) {
    for (const [name, member] of Object.entries(value)) {
      const known = Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined;
      const place = path === "" ? name : `${path}.${name}`;
      if (known) yield* ignoredFields(known, member, place);
      else if (schema.additionalProperties === undefined) yield place;
    }
  }
}

function headerSafe(name: string): string {
  return encodeURIComponent(name.slice(0, 200)).replaceAll("%5B", "[").replaceAll("%5D", "]").replaceAll("%3A", ":");
}
