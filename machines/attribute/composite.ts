// Kinds that are made of others (lists, records, shapes), and the reading of declared attributes. kinds.ts has the plain kinds.
import { isObject, type Json, type JsonObject } from "../values/json.js";
import * as misfit from "../values/misfit.js";
import { Budget } from "./budget.js";
import { type Attribute, type Attributes, given, type Kind, mentionsOf, type Parsed } from "./kinds.js";
import { EACH, type Mention, NAMES } from "./mention.js";
import { Place } from "./problem.js";
import { writtenObject } from "./written.js";

export type PartOf<A extends Attributes> = { readonly [K in keyof A]?: Parsed<A>[K] | undefined };

/** Declared attributes as they were read, with what is left of faulty ones: an optional one is absent then, or has its default. */
export interface ReadAttributes<A extends Attributes> {
  readonly parsed: PartOf<A>;
  /** No attribute has a problem. */
  readonly valid: boolean;
  /** Something is left of every required attribute. */
  readonly complete: boolean;
}

type Member = { readonly raw: Json | undefined; readonly place: Place };

/** Reads the declared attributes with `get`, and reports problems at their places. Undefined if there are any. */
export function parseAttributes<A extends Attributes>(
  attributes: A,
  get: (name: string) => Member,
): Parsed<A> | undefined {
  const { parsed, valid } = readAttributes(attributes, get);
  return valid ? (parsed as Parsed<A>) : undefined;
}

export function readAttributes<A extends Attributes>(attributes: A, get: (name: string) => Member): ReadAttributes<A> {
  const parsed: Record<string, unknown> = {};
  let [valid, complete] = [true, true];
  for (const [name, attribute] of Object.entries(attributes)) {
    const { raw: found, place } = get(name);
    const known = given(found, attribute);
    const raw = known === undefined ? attribute.fallback : known;
    if (raw === undefined && !attribute.required) continue;
    parsed[name] = raw === undefined ? place.problem(misfit.REQUIRED) : attribute.kind.parse(raw, place);
    if (parsed[name] !== undefined) continue;
    valid = false;
    parsed[name] = leftOf(attribute, raw);
    if (attribute.required && parsed[name] === undefined) complete = false;
  }
  return { parsed: parsed as PartOf<A>, valid, complete };
}

const muted = () => Place.of("", { budget: new Budget() });
/** Reads without reporting, on a budget of its own for each document. */
let MUTE = muted();

/** Before a document is read. */
export function beginSalvage(): void {
  MUTE = muted();
}

function leftOf({ kind, fallback }: Attribute<unknown>, raw: Json | undefined): unknown {
  const left = raw === undefined ? undefined : kind.salvage?.(raw);
  return left ?? (fallback === undefined ? undefined : kind.parse(fallback, MUTE));
}

function valueLeft<T>(kind: Kind<T>, raw: Json): T | undefined {
  return kind.parse(raw, MUTE) ?? kind.salvage?.(raw);
}

export function list<T>(item: Kind<T>, bounds: { min?: number; max: number }): Kind<readonly T[]> {
  return {
    name: `list of ${item.name}`,
    written: { type: "array", items: item.written ?? {}, minItems: bounds.min ?? 0, maxItems: bounds.max },
    mentions: inEach(item),
    parse(raw, place) {
      if (!Array.isArray(raw)) return place.problem(misfit.wrongType("array"));
      if (raw.length > bounds.max) return place.problem(misfit.tooManyItems(bounds.max));
      if (raw.length < (bounds.min ?? 0)) return place.problem(misfit.tooFewItems(bounds.min ?? 0));
      return whole(raw.map((entry: Json, index) => item.parse(entry, place.at(index))));
    },
    salvage: (raw) =>
      Array.isArray(raw) ? raw.slice(0, bounds.max).flatMap((entry) => valueLeft(item, entry) ?? []) : [],
  };
}

const inEach = ({ mentions = [] }: Kind<unknown>): readonly Mention[] =>
  mentions.map((mention) => ({ ...mention, path: [EACH, ...mention.path] }));

export function record<T>(
  item: Kind<T>,
  key: Kind<string>,
  bounds: { min?: number; max: number },
): Kind<Readonly<Record<string, T>>> {
  return {
    name: `object of ${item.name}`,
    written: {
      type: "object",
      ...(key.written && { propertyNames: key.written }),
      additionalProperties: item.written ?? {},
      minProperties: bounds.min ?? 0,
      maxProperties: bounds.max,
    },
    mentions: [...(key.mentions ?? []).map((mention) => ({ ...mention, path: [NAMES] })), ...inEach(item)],
    parse(raw, place) {
      if (!isObject(raw)) return place.problem(misfit.wrongType("object"));
      const names = Object.keys(raw);
      if (names.length > bounds.max) return place.problem(misfit.tooManyMembers(bounds.max));
      if (names.length < (bounds.min ?? 0)) return place.problem("must not be empty");
      const parsed = names.map((name) => {
        const at = place.at(name);
        const known = key.parse(name, at);
        const parsedEntry = item.parse(raw[name] as Json, at);
        return known === undefined || parsedEntry === undefined ? undefined : ([known, parsedEntry] as const);
      });
      const valid = whole(parsed);
      return valid && Object.fromEntries(valid);
    },
    salvage(raw) {
      const names = isObject(raw) ? Object.keys(raw).slice(0, bounds.max) : [];
      const left = names.map(
        (name) => [key.parse(name, MUTE), valueLeft(item, (raw as JsonObject)[name] as Json)] as const,
      );
      return Object.fromEntries(left.filter(([name, entry]) => name !== undefined && entry !== undefined)) as Record<
        string,
        T
      >;
    },
  };
}

/** An object of declared attributes. Others are refused. */
export function shape<A extends Attributes>(name: string, attributes: A): Kind<Parsed<A>> {
  return {
    name,
    written: writtenObject(attributes),
    mentions: mentionsOf(attributes),
    parse(raw, place) {
      if (!isObject(raw)) return place.problem(misfit.wrongType("object"));
      refuseUnknown(raw, attributes, place);
      return parseAttributes(attributes, (key) => ({ raw: own(raw, key), place: place.at(key) }));
    },
    salvage(raw) {
      if (!isObject(raw)) return undefined;
      const { parsed, complete } = readAttributes(attributes, (key) => ({ raw: own(raw, key), place: MUTE }));
      return complete ? (parsed as Parsed<A>) : undefined;
    },
  };
}

/** An object without the declared members that say no more than their absence: null where it is no value, defaults, empty objects. */
export function normalForm(attributes: Attributes, raw: JsonObject): JsonObject {
  const saysMore = ([name, value]: [string, Json]) => {
    const attribute = own(attributes as unknown as JsonObject, name) as unknown as Attribute<unknown> | undefined;
    if (!attribute) return true;
    const isEmpty = isObject(value) && Object.keys(value).length === 0;
    return given(value, attribute) !== undefined && value !== attribute.fallback && !isEmpty;
  };
  return Object.fromEntries(Object.entries(raw).filter(saysMore));
}

/** An own member of an object. */
export function own(object: JsonObject, key: string): Json | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

export function refuseUnknown(raw: JsonObject, known: object, place: Place): void {
  const unknown = Object.keys(raw).filter((key) => !Object.hasOwn(known, key));
  place.problems(unknown, (key) => place.at(key).problem(`is unknown${place.suggest(key, Object.keys(known))}`));
}

function whole<T>(items: readonly (T | undefined)[]): readonly T[] | undefined {
  return items.every((item) => item !== undefined) ? (items as readonly T[]) : undefined;
}
