// Path and query parameters: their schemas, and the strict reading of their text by these schemas. Nothing is coerced: `1e2` is not
// an integer here. Bodies are in body.ts.
import type { Static, TObject, TProperties, TSchema } from "typebox";
import * as Type from "typebox";
import {
  codePoints,
  type DispatchId,
  firstCharacters,
  isLongerThan,
  type Json,
  type JsonObject,
  jsonPath,
  MAX_INT32,
  MAX_VERSION,
  misfit,
  type RunId,
  Suggestions,
} from "../../../machines/index.js";
import { badRequest, type ErrorDetail, type SagaError } from "../../errors.js";
import { isUuid } from "../../ids.js";
import { postgresTime } from "../../store/engine/times.js";
import type { PageQuery } from "../../store/lists/page.js";

/** The outcome of checking a part of a request, in the form that Fastify takes: the value replaces what was sent. */
export type Checked = { readonly value: unknown } | { readonly error: SagaError };

/** Read in lower case. */
export const Uuid = Type.String({ format: "uuid" });
/** Ids of runs and of dispatches: a text is one once this check has passed it, in lower case. */
export const RunIdText = Type.Unsafe<RunId>({ type: "string", format: "uuid" });
export const DispatchIdText = Type.Unsafe<DispatchId>({ type: "string", format: "uuid" });
export const Id = Type.String({ pattern: misfit.ID_PATTERN, description: misfit.ID_WORDS });
export const SignalName = Type.String({
  pattern: misfit.NEW_ID_PATTERN,
  description: `${misfit.ID_WORDS}, and not . or ..`,
});
export const Flag = Type.Boolean();
export const Time = Type.String({ format: "date-time" });
export const Int = (minimum: number, maximum: number) => Type.Integer({ minimum, maximum });
export const Version = Int(1, MAX_VERSION);
export const Text = ({ min = 1, max }: { min?: number; max: number }) =>
  Type.String({ minLength: min, maxLength: max });
export const OneOf = <const T extends string>(...values: readonly T[]) =>
  Type.Unsafe<T>({ type: "string", enum: values });
/** Repeated in the URL, or separated by commas. */
export const ListOf = <const T extends string>(...values: readonly T[]) => Type.Array(OneOf(...values));

/** A parameter whose name ends in `{name}`: there may be several, each with a name of its own in its place. */
export const EachNamed = (each: TSchema) => Type.Unsafe<Readonly<Record<string, string>>>({ ...each });

/** Path parameters are all present: the route does not match without them. */
export const path = <P extends TProperties>(parameters: P) => Type.Object(parameters);
export const query = <P extends TProperties>(parameters: P) => Type.Partial(Type.Object(parameters));

export const PAGE = {
  limit: Int(1, 500),
  offset: Int(0, 1_000_000_000),
  cursor: Text({ max: 2048 }),
  count: OneOf("exact"),
};
export const PageParameters = query(PAGE);

export function pageOf({ limit = 50, offset = 0, cursor, count }: Static<typeof PageParameters>): PageQuery {
  return { limit, offset, cursor, exact: count === "exact" };
}

/** Parameters that a refusal names, and how much of each name. */
const MAX_DETAILS = 20;
const MAX_NAME = 140;

/** Stands in a parameter's name for a name that the client chooses. */
const EACH = "{name}";
const MAX_NAMED = 16;
const NAME = new RegExp(misfit.ID_PATTERN);

/** How the text of one parameter is read. */
interface Parameter {
  /** Undefined: the text does not fit. */
  read(text: string): unknown;
  /** What is wrong with a text that does not fit. */
  misfit(text: string): string;
  /** What its value is in JSON. Default: a string. */
  readonly json?: "number" | "boolean";
  readonly repeatable?: boolean;
}

interface ParameterSchema {
  readonly type?: string;
  readonly format?: string;
  readonly pattern?: string;
  readonly enum?: readonly string[];
  readonly items?: ParameterSchema;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
}

/** The check of all parameters of one part of the URL. An unknown one is refused: a filter that is dropped answers another question. */
export function parameterCheck(where: "query" | "path", { properties }: TObject): (raw: unknown) => Checked {
  const known = new KnownParameters(properties);
  return (raw) => {
    const values: Record<string, unknown> = {};
    const details: ErrorDetail[] = [];
    for (const [name, given] of Object.entries((raw ?? {}) as Readonly<Record<string, string | string[]>>)) {
      if (details.length === MAX_DETAILS) break;
      const message = known.read(name, given, values);
      if (message !== undefined) details.push({ path: `$.${where}.${firstCharacters(name, MAX_NAME)}`, message });
    }
    const [first] = details;
    return first ? { error: refusal(where, first, details) } : { value: values };
  };
}

/**
 * The same check of parameters that are the members of a JSON object, at `path`: numbers and flags are those of JSON, a list is a text or an
 * array of texts.
 */
export function memberCheck(path: string, { properties }: TObject): (members: JsonObject) => Checked {
  const known = new KnownParameters(properties, `${path} has`);
  return (members) => {
    const values: Record<string, unknown> = {};
    const details: ErrorDetail[] = [];
    for (const name of Object.keys(members)) {
      if (details.length === MAX_DETAILS) break;
      const message = known.readMember(name, members[name] as Json, values);
      if (message !== undefined) details.push({ path: jsonPath(path, firstCharacters(name, MAX_NAME)), message });
    }
    const [first] = details;
    return first
      ? { error: badRequest(`the body is not valid: ${first.path} ${first.message}`, details) }
      : { value: values };
  };
}

class KnownParameters {
  private readonly single = new Map<string, Parameter>();
  /** Parameters whose name ends in `{name}`, by the part before it. */
  private readonly named = new Map<string, Parameter>();
  private readonly names: string;

  constructor(properties: TProperties, whose = "this route has") {
    for (const [name, schema] of Object.entries(properties)) {
      if (name.endsWith(EACH)) this.named.set(name.slice(0, -EACH.length), parameter(schema));
      else this.single.set(name, parameter(schema));
    }
    const names = Object.keys(properties);
    this.names = `${whose} ${names.length === 0 ? "none" : names.join(", ")}`;
  }

  /** Like `read`, for a value that is JSON and not text. A parameter that is null counts as absent. */
  readMember(name: string, given: Json, values: Record<string, unknown>): string | undefined {
    const known = this.single.get(name) ?? this.eachOf(name)?.[1];
    if (given === null && known) return undefined;
    const { json = "string", repeatable } = known ?? {};
    const isList = repeatable && Array.isArray(given) && given.every((item) => typeof item === "string");
    const isOther = known && !isList && typeof given !== json;
    if (isOther) return misfit.wrongType(...(json === "number" ? ["integer"] : repeatable ? [json, "array"] : [json]));
    return this.read(name, isList ? (given as string[]) : String(given), values);
  }

  /** The parameter that has names of the client's choice, of which this is one, and the part of the name before the client's. */
  private eachOf(name: string): readonly [prefix: string, each: Parameter] | undefined {
    for (const named of this.named) if (name.startsWith(named[0])) return named;
    return undefined;
  }

  /** Adds the value of a parameter to the others, or says what is wrong with it. */
  read(name: string, given: string | readonly string[], values: Record<string, unknown>): string | undefined {
    const known = this.single.get(name);
    if (known) {
      values[name] = readGiven(known, given);
      return values[name] === undefined ? misfitOf(known, given) : undefined;
    }
    const named = this.eachOf(name);
    if (named) {
      const [prefix, each] = named;
      return readNamed(`${prefix}${EACH}`, name.slice(prefix.length), each, given, values);
    }
    return `is unknown${new Suggestions().for(name, this.single.keys())}: ${this.names}`;
  }
}

function readNamed(
  key: string,
  name: string,
  each: Parameter,
  given: string | readonly string[],
  values: Record<string, unknown>,
): string | undefined {
  // Any name may be given, and none of them reaches a prototype.
  const all: Record<string, unknown> = (values[key] as Record<string, unknown> | undefined) ?? Object.create(null);
  values[key] = all;
  if (!NAME.test(name)) return misfit.unlikeName(misfit.ID_PATTERN);
  if (Object.keys(all).length >= MAX_NAMED) return `is one of more than ${MAX_NAMED}`;
  all[name] = readGiven(each, given);
  return all[name] === undefined ? misfitOf(each, given) : undefined;
}

function refusal(where: string, { path, message }: ErrorDetail, details: readonly ErrorDetail[]) {
  const name = path.slice(`$.${where}.`.length);
  return badRequest(`the ${where} parameter ${name} ${message}`, details);
}

function readGiven({ read, repeatable }: Parameter, given: string | readonly string[] = ""): unknown {
  if (typeof given === "string") return read(given);
  return repeatable ? read(given.join(",")) : undefined;
}

function misfitOf({ misfit, repeatable }: Parameter, given: string | readonly string[]): string {
  if (typeof given === "string") return misfit(given);
  return repeatable ? misfit(given.join(",")) : "is given more than once";
}

function parameter(schema: ParameterSchema): Parameter {
  if (schema.type === "integer") return integer(schema);
  if (schema.type === "boolean") return FLAG;
  if (schema.items) return listOf(parameter(schema.items));
  if (schema.enum) return oneOf(schema.enum);
  if (schema.pattern) return matching(schema);
  if (schema.format === "uuid") return UUID;
  if (schema.format === "date-time") return TIME;
  return text(schema);
}

function integer({ minimum: min = 0, maximum: max = MAX_INT32 }: ParameterSchema): Parameter {
  return {
    read: (value) =>
      /^\d{1,15}$/.test(value) && Number(value) >= min && Number(value) <= max ? Number(value) : undefined,
    misfit(value) {
      if (!/^-?\d+$/.test(value)) return misfit.wrongType("integer");
      return Number(value) < min ? misfit.below(min) : misfit.above(max);
    },
    json: "number",
  };
}

const FLAG: Parameter = {
  read: (value) => (value === "true" ? true : value === "false" ? false : undefined),
  misfit: () => misfit.wrongType("boolean"),
  json: "boolean",
};

function listOf(item: Parameter): Parameter {
  return {
    read(value) {
      const items = value.split(",").map(item.read);
      return items.every((read) => read !== undefined) ? [...new Set(items)] : undefined;
    },
    misfit(value) {
      const wrong = value.split(",").find((one) => item.read(one) === undefined) ?? "";
      return `${item.misfit(wrong)}, more than one separated by commas`;
    },
    repeatable: true,
  };
}

function oneOf(values: readonly string[]): Parameter {
  return { read: (value) => values.find((known) => known === value), misfit: () => misfit.noneOf(values) };
}

function matching({ pattern = "" }: ParameterSchema): Parameter {
  const regex = new RegExp(pattern);
  return { read: (value) => (regex.test(value) ? value : undefined), misfit: () => misfit.unlike(pattern) };
}

const UUID: Parameter = {
  read: (value) => (isUuid(value) ? value.toLowerCase() : undefined),
  misfit: () => misfit.notOfFormat("uuid"),
};

const TIME: Parameter = {
  read: postgresTime,
  misfit: () => misfit.notOfFormat("date-time"),
};

const isBetween = (text: string, min: number, max: number) => !isLongerThan(text, max) && codePoints(text) >= min;

/** Decoding the URL has left nothing that Postgres cannot store, except U+0000. */
function text({ minLength: min = 0, maxLength: max = 0 }: ParameterSchema): Parameter {
  return {
    read: (value) => (isBetween(value, min, max) && !value.includes("\u0000") ? value : undefined),
    misfit(value) {
      if (value.includes("\u0000")) return "contains U+0000";
      return isLongerThan(value, max) ? misfit.tooLong(max) : misfit.tooShort(min);
    },
  };
}
