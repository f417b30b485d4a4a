// JSON as CEL values without a copy: lists and maps wrap the original and convert an element when it is read, so reading one
// field never costs the size of all variables. result.ts converts CEL values back to JSON.
import { type CelList, type CelMap, type CelUint, type CelValue, isCelUint } from "@bufbuild/cel";
import { create } from "@bufbuild/protobuf";
import { isReflectMessage, type ReflectMessage, reflect } from "@bufbuild/protobuf/reflect";
import { type Duration, DurationSchema, type Timestamp, TimestampSchema } from "@bufbuild/protobuf/wkt";
import type { Json, JsonObject } from "../values/json.js";
import type { ReadInstant } from "../values/time.js";
import { spend } from "./fuel.js";
import { Encrypted, marked } from "./secrets.js";

/** A point in time in a scope. Expressions see a CEL timestamp, for which JSON has no type. */
export class Instant {
  constructor(readonly ms: number) {}
}

export function instant(ms: number): Instant {
  return new Instant(ms);
}

/** The value of a name in a scope. An instant may be the value itself, or a member of it (`run.started_at`). */
export type ScopeValue = Json | Instant | { readonly [name: string]: Json | Instant };

export interface Scope {
  readonly [name: string]: ScopeValue;
}

// The brands of the library's own lists and maps. They are in the global symbol registry, so that two copies of the library can
// work together. The conformance test fails if that changes.
const LIST = Symbol.for("@bufbuild/cel/list");
const MAP = Symbol.for("@bufbuild/cel/map");

/** `named`: the value is that of a name of the scope, not a part of one. */
export function toCel(value: ScopeValue, named = false): CelValue {
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Instant) return timestamp(value.ms);
  if (Array.isArray(value)) return new JsonList(value) as unknown as CelList;
  const found = marked(value as JsonObject);
  if (found) return found instanceof Encrypted ? (found as unknown as CelValue) : toCel(found.inner);
  return new JsonMap(value as JsonObject, named) as unknown as CelMap;
}

export function timestamp(ms: number): ReflectMessage {
  const seconds = Math.floor(ms / 1000);
  return toTimestamp({ seconds, nanos: Math.round((ms - seconds * 1000) * 1_000_000) });
}

export function toTimestamp({ seconds, nanos }: ReadInstant): ReflectMessage {
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

/** Own members only: `constructor` and `__proto__` are missing keys unless the data has them. */
export class JsonMap {
  readonly [MAP] = true;
  /** Only the map of a scope's name may contain instants. */
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
 * A list that an expression makes. The library's own list chains its parts at `+`: reading the results of `map` and `filter` becomes
 * quadratic and overflows the stack at some thousand items. This list works like a slice in Go: one that ends where the shared array
 * ends appends in place, any other copies.
 */
export class MadeList {
  readonly [LIST] = true;
  constructor(
    private readonly shared: CelValue[],
    readonly size = shared.length,
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

  plus(other: CelList): MadeList {
    const append = this.shared.length === this.size;
    spend(append ? other.size : this.size + other.size);
    const shared = append ? this.shared : this.shared.slice(0, this.size);
    // The size is read first: `other` may share the array that grows.
    for (let index = 0, count = other.size; index < count; index++) shared.push(other.get(index) as CelValue);
    return new MadeList(shared);
  }
}

/** The caller does not change the array any more. */
export function listOf(items: CelValue[]): CelList {
  return new MadeList(items) as unknown as CelList;
}

export function concat(left: CelList, right: CelList): CelList {
  const base = left instanceof MadeList ? left : new MadeList([]).plus(left);
  return base.plus(right) as unknown as CelList;
}

type Key = bigint | string | boolean | CelUint | number;

/** A map that an expression makes. Numbers that are equal are one key, of whatever kind they are. */
export class MadeMap {
  readonly [MAP] = true;
  private readonly members = new Map<string | bigint | boolean, readonly [Exclude<Key, number>, CelValue]>();

  get size(): number {
    return this.members.size;
  }

  /** Undefined: the key is of no kind that a map may have. False: the map has the key. */
  add(key: CelValue, value: CelValue): boolean | undefined {
    const plain = plainKey(key);
    if (plain === undefined) return undefined;
    if (this.members.has(plain)) return false;
    this.members.set(plain, [isCelUint(key) ? key : plain, value]);
    return true;
  }

  get(key: Key): CelValue | undefined {
    const plain = plainKey(key);
    return plain === undefined ? undefined : this.members.get(plain)?.[1];
  }

  has(key: Key): boolean {
    return this.get(key) !== undefined;
  }

  *keys(): Generator<Exclude<Key, number>, void> {
    for (const [key] of this.members.values()) yield key;
  }

  *values(): Generator<CelValue, void> {
    for (const [, value] of this.members.values()) yield value;
  }

  entries(): IterableIterator<readonly [Exclude<Key, number>, CelValue]> {
    return this.members.values();
  }

  forEach(visit: (value: CelValue, key: Exclude<Key, number>, map: CelMap) => void): void {
    for (const [key, value] of this.entries()) visit(value, key, this as unknown as CelMap);
  }

  [Symbol.iterator](): IterableIterator<readonly [Exclude<Key, number>, CelValue]> {
    return this.entries();
  }
}

function plainKey(key: CelValue): string | bigint | boolean | undefined {
  if (typeof key === "string" || typeof key === "bigint" || typeof key === "boolean") return key;
  if (typeof key === "number") return Number.isInteger(key) ? BigInt(key) : undefined;
  return isCelUint(key) ? key.value : undefined;
}
