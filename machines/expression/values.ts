// JSON seen as CEL values without a copy: lists and maps wrap the original and convert an element when it is looked at,
// so touching one field never costs the size of all variables. Not the way back: result.ts writes CEL values as JSON.
import type { CelList, CelMap, CelUint, CelValue } from "@bufbuild/cel";
import { create } from "@bufbuild/protobuf";
import { isReflectMessage, type ReflectMessage, reflect } from "@bufbuild/protobuf/reflect";
import { type Duration, DurationSchema, type Timestamp, TimestampSchema } from "@bufbuild/protobuf/wkt";
import type { Json, JsonObject } from "../json.js";
import { spend } from "./fuel.js";

/** A point in time in a scope: the expression sees a CEL timestamp. JSON has none, so it needs a type of its own. */
export class Instant {
  constructor(readonly ms: number) {}
}

export function instant(ms: number): Instant {
  return new Instant(ms);
}

/** What a name of the scope stands for. An instant may stand directly or as a member of an object (`run.started_at`). */
export type ScopeValue = Json | Instant | { readonly [name: string]: Json | Instant };

export interface Scope {
  readonly [name: string]: ScopeValue;
}

// The brands by which the library knows its own lists and maps. It keeps them in the global symbol registry so that two
// copies of itself understand each other; the conformance test turns red if that ever changes.
const LIST = Symbol.for("@bufbuild/cel/list");
const MAP = Symbol.for("@bufbuild/cel/map");

/** `named`: the value stands for a name of the scope and not somewhere inside one. */
export function toCel(value: ScopeValue, named = false): CelValue {
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Instant) return timestamp(value.ms);
  if (Array.isArray(value)) return new JsonList(value) as unknown as CelList;
  return new JsonMap(value as JsonObject, named) as unknown as CelMap;
}

export function timestamp(ms: number): ReflectMessage {
  const seconds = Math.floor(ms / 1000);
  const nanos = Math.round((ms - seconds * 1000) * 1_000_000);
  return reflect(TimestampSchema, create(TimestampSchema, { seconds: BigInt(seconds), nanos }));
}

export function asTimestamp(value: unknown): Timestamp | undefined {
  return isReflectMessage(value, TimestampSchema) ? (value.message as Timestamp) : undefined;
}

export function asDuration(value: unknown): Duration | undefined {
  return isReflectMessage(value, DurationSchema) ? (value.message as Duration) : undefined;
}

export class JsonList {
  readonly [LIST] = true;
  constructor(readonly source: readonly Json[]) {}

  get size(): number {
    return this.source.length;
  }

  get(index: number): CelValue | undefined {
    const item = Number.isInteger(index) ? this.source[index] : undefined;
    return item === undefined ? undefined : toCel(item);
  }

  *values(): Generator<CelValue, void> {
    for (const item of this.source) yield toCel(item);
  }

  [Symbol.iterator](): Generator<CelValue, void> {
    return this.values();
  }
}

/** Own members only: `constructor` and `__proto__` of an object are missing keys unless the data really has them. */
export class JsonMap {
  readonly [MAP] = true;
  /** `source` may hold instants only in a map that stands for a name of the scope itself. */
  constructor(
    readonly source: { readonly [name: string]: Json | Instant },
    readonly mayHoldInstants = false,
  ) {}

  get size(): number {
    return Object.keys(this.source).length;
  }

  get(key: bigint | string | boolean | CelUint | number): CelValue | undefined {
    if (typeof key !== "string" || !Object.hasOwn(this.source, key)) return undefined;
    const value = this.source[key];
    return value === undefined ? undefined : toCel(value);
  }

  has(key: bigint | string | boolean | CelUint | number): boolean {
    return this.get(key) !== undefined;
  }

  keys(): ArrayIterator<string> {
    return Object.keys(this.source).values();
  }

  *entries(): Generator<[string, CelValue], void> {
    for (const key of Object.keys(this.source)) {
      const value = this.get(key);
      if (value !== undefined) yield [key, value];
    }
  }

  *values(): Generator<CelValue, void> {
    for (const [, value] of this.entries()) yield value;
  }

  forEach(visit: (value: CelValue, key: string, map: CelMap) => void): void {
    for (const [key, value] of this.entries()) visit(value, key, this as unknown as CelMap);
  }

  [Symbol.iterator](): Generator<[string, CelValue], void> {
    return this.entries();
  }
}

/**
 * A list made by `+`. The library's own chains its parts, which makes reading what `map` and `filter` collect quadratic
 * and overflows the stack at some thousand items. Like a slice in Go, a list that ends where the shared array ends
 * appends in place, any other copies.
 */
export class GrownList {
  readonly [LIST] = true;
  constructor(
    private readonly shared: CelValue[],
    readonly size: number,
  ) {}

  get(index: number): CelValue | undefined {
    return index < this.size ? this.shared[index] : undefined;
  }

  *values(): Generator<CelValue, void> {
    for (let index = 0; index < this.size; index++) yield this.shared[index] as CelValue;
  }

  [Symbol.iterator](): Generator<CelValue, void> {
    return this.values();
  }

  plus(other: CelList): GrownList {
    const append = this.shared.length === this.size;
    spend(append ? other.size : this.size + other.size);
    const shared = append ? this.shared : this.shared.slice(0, this.size);
    // The size is taken first: `other` may share the array that grows.
    for (let index = 0, count = other.size; index < count; index++) shared.push(other.get(index) as CelValue);
    return new GrownList(shared, shared.length);
  }
}

export function concat(left: CelList, right: CelList): CelList {
  const base = left instanceof GrownList ? left : new GrownList([], 0).plus(left);
  return base.plus(right) as unknown as CelList;
}
