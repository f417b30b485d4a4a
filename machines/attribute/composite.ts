// Kinds that are made of others (lists, records, shapes), and the reading of declared attributes. kinds.ts has the plain kinds.
import { isObject, type Json, type JsonObject } from "../values/json.js";
import type { Attributes, Kind, Parsed } from "./kinds.js";
import type { Place } from "./problem.js";

/** Reads the declared attributes with `get`, and reports problems at their places. Undefined if there are any. */
export function parseAttributes<A extends Attributes>(
  attributes: A,
  get: (name: string) => { raw: Json | undefined; place: Place },
): Parsed<A> | undefined {
  const parsed: Record<string, unknown> = {};
  let valid = true;
  for (const [name, attribute] of Object.entries(attributes)) {
    const { raw = attribute.fallback, place } = get(name);
    if (raw === undefined) {
      if (attribute.required) valid = Boolean(place.problem("is required"));
      continue;
    }
    parsed[name] = attribute.kind.parse(raw, place);
    if (parsed[name] === undefined) valid = false;
  }
  return valid ? (parsed as Parsed<A>) : undefined;
}

export function list<T>(item: Kind<T>, bounds: { min?: number; max: number }): Kind<readonly T[]> {
  return {
    name: `list of ${item.name}`,
    parse(raw, place) {
      if (!Array.isArray(raw)) return place.problem("must be a list");
      if (raw.length > bounds.max) return place.problem(`must have at most ${bounds.max} items`);
      if (raw.length < (bounds.min ?? 0)) return place.problem(`must have at least ${bounds.min} items`);
      return whole(raw.map((entry: Json, index) => item.parse(entry, place.at(index))));
    },
  };
}

export function record<T>(
  item: Kind<T>,
  key: Kind<string>,
  bounds: { min?: number; max: number },
): Kind<Readonly<Record<string, T>>> {
  return {
    name: `object of ${item.name}`,
    parse(raw, place) {
      if (!isObject(raw)) return place.problem("must be an object");
      const entries = Object.entries(raw);
      if (entries.length > bounds.max) return place.problem(`must have at most ${bounds.max} members`);
      if (entries.length < (bounds.min ?? 0)) return place.problem("must not be empty");
      const parsed = entries.map(([name, entry]) => {
        const known = key.parse(name, place.at(name));
        const parsedEntry = item.parse(entry, place.at(name));
        return known === undefined || parsedEntry === undefined ? undefined : ([known, parsedEntry] as const);
      });
      const valid = whole(parsed);
      return valid && Object.fromEntries(valid);
    },
  };
}

/** An object of declared attributes. Others are refused. */
export function shape<A extends Attributes>(name: string, attributes: A): Kind<Parsed<A>> {
  return {
    name,
    parse(raw, place) {
      if (!isObject(raw)) return place.problem("must be an object");
      refuseUnknown(raw, attributes, place);
      return parseAttributes(attributes, (key) => ({ raw: own(raw, key), place: place.at(key) }));
    },
  };
}

/** An own member of an object. */
export function own(object: JsonObject, key: string): Json | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

export function refuseUnknown(raw: JsonObject, known: object, place: Place): void {
  for (const key of Object.keys(raw)) if (!Object.hasOwn(known, key)) place.at(key).problem("is unknown");
}

function whole<T>(items: readonly (T | undefined)[]): readonly T[] | undefined {
  return items.every((item) => item !== undefined) ? (items as readonly T[]) : undefined;
}
