// Query and path parameters, read strictly: what is no number is no number. Their documentation comes from the same
// declaration. Bodies are read in body.ts.
import { type ErrorDetail, SagaError } from "../errors.js";
import { isUuid } from "../ids.js";
import type { PageQuery } from "../store/page.js";

interface Param<T> {
  readonly schema: Readonly<Record<string, unknown>>;
  /** May be repeated. */
  readonly many?: boolean;
  /** Undefined: refused, because it must be `expected`. */
  read(text: string): T | undefined;
  readonly expected: string;
}

type Params = Readonly<Record<string, Param<unknown>>>;
type Values<P extends Params> = { readonly [K in keyof P]?: P[K] extends Param<infer T> ? T : never };

export interface ParamReader<V> {
  /** For the OpenAPI document. */
  readonly schema: object;
  /** Throws 400 with every parameter at fault. Parameters it does not know are passed over. */
  read(raw: unknown): V;
}

export const ID_PATTERN = "^[A-Za-z0-9_.:-]{1,128}$";
export const MAX_INT32 = 2_147_483_647;

export const uuid: Param<string> = {
  schema: { type: "string", format: "uuid" },
  read: (value) => (isUuid(value) ? value.toLowerCase() : undefined),
  expected: "a UUID",
};

export const id: Param<string> = {
  schema: { type: "string", pattern: ID_PATTERN },
  read: (value) => (new RegExp(ID_PATTERN).test(value) ? value : undefined),
  expected: "1 to 128 of the characters A-Z a-z 0-9 _ . : -",
};

/** What Postgres can store of it was decided by decoding the URL, but for U+0000. */
export function text(bounds: { min?: number; max: number }): Param<string> {
  const { min = 1, max } = bounds;
  return {
    schema: { type: "string", minLength: min, maxLength: max },
    read: (value) => (value.length >= min && value.length <= max && !value.includes("\u0000") ? value : undefined),
    expected: `a text of ${min} to ${max} characters`,
  };
}

export function integer(min: number, max: number): Param<number> {
  return {
    schema: { type: "integer", minimum: min, maximum: max },
    read: (value) =>
      /^\d{1,15}$/.test(value) && Number(value) >= min && Number(value) <= max ? Number(value) : undefined,
    expected: `an integer from ${min} to ${max}`,
  };
}

export const flag: Param<boolean> = {
  schema: { type: "boolean" },
  read: (value) => (value === "true" ? true : value === "false" ? false : undefined),
  expected: "true or false",
};

const RFC3339 = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)$/;

export const time: Param<string> = {
  schema: { type: "string", format: "date-time" },
  read: (value) => (RFC3339.test(value) && isDate(value) ? value : undefined),
  expected: "an RFC 3339 time",
};

/** `Date` takes 31 February for a day in March; Postgres does not take it at all. */
function isDate(value: string): boolean {
  const day = value.slice(0, 10);
  const noon = new Date(`${day}T12:00:00Z`);
  return !Number.isNaN(Date.parse(value)) && noon.toISOString().startsWith(day) && !day.startsWith("0000");
}

export function oneOf<const T extends string>(...values: readonly T[]): Param<T> {
  return {
    schema: { type: "string", enum: values },
    read: (value) => values.find((known) => known === value),
    expected: `one of ${values.join(", ")}`,
  };
}

/** Repeated or separated by commas. */
export function listOf<const T extends string>(...values: readonly T[]): Param<readonly T[]> {
  const one = oneOf(...values);
  return {
    schema: { type: "array", items: one.schema },
    many: true,
    read: (value) => {
      const read = value.split(",").map(one.read);
      return read.every((item) => item !== undefined) ? [...new Set(read)] : undefined;
    },
    expected: `${one.expected}, more than one separated by commas`,
  };
}

export const PAGE = {
  limit: integer(1, 500),
  offset: integer(0, 1_000_000_000),
  cursor: text({ max: 2048 }),
};

export function pageOf(query: Values<typeof PAGE>): PageQuery {
  return { limit: query.limit ?? 50, offset: query.offset ?? 0, cursor: query.cursor };
}

export function queryReader<P extends Params>(params: P): ParamReader<Values<P>> {
  return { schema: schemaOf(params, []), read: (raw) => readAll("query", params, raw) };
}

/** Path parameters are all there: the route would not have matched without them. */
export function pathReader<P extends Params>(params: P): ParamReader<Required<Values<P>>> {
  const read = (raw: unknown) => readAll("path", params, raw) as Required<Values<P>>;
  return { schema: schemaOf(params, Object.keys(params)), read };
}

function schemaOf(params: Params, required: readonly string[]): object {
  const properties = Object.fromEntries(Object.entries(params).map(([name, { schema }]) => [name, schema]));
  return { type: "object", properties, ...(required.length > 0 && { required }) };
}

function readAll<P extends Params>(where: "query" | "path", params: P, raw: unknown): Values<P> {
  const given = Object.entries((raw ?? {}) as Record<string, string | string[]>);
  const details: ErrorDetail[] = [];
  const values: Record<string, unknown> = {};
  for (const [name, value] of given) {
    const param = Object.hasOwn(params, name) ? params[name] : undefined;
    if (!param) continue;
    const joined = Array.isArray(value) ? (param.many ? value.join(",") : undefined) : value;
    const read = joined === undefined ? undefined : param.read(joined);
    if (read === undefined) details.push({ path: `$.${where}.${name}`, message: `must be ${param.expected}` });
    values[name] = read;
  }
  const [first] = details;
  if (!first) return values as Values<P>;
  const name = first.path.slice(first.path.lastIndexOf(".") + 1);
  throw new SagaError(400, "bad_request", `the ${where} parameter ${name} ${first.message}`, details);
}
