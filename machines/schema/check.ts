// One check of a value: its budget, the place that it has reached, and what it has found. The keywords are in the files beside; they all work
// on this.
import { beginningOf, type Json, type JsonObject } from "../values/json.js";
import { pointerElement } from "../values/json-path.js";
import { ENCRYPTED, isEncrypted, isSecret, MASK, SECRET } from "../values/secret.js";

/**
 * A unit is 50 to 100 ns: part of applying a schema, a member that is looked at, 16 characters that are read. Not a clock: the same schema and value end at the
 * same place on every machine.
 */
export const BUDGET = 1_100_000;
/** Schemas that are applied to one value, each by the one before. A schema has at most 1,000 objects, so more of them go in a circle. */
const MAX_IN_PLACE = 1_000;
/**
 * Schemas that are applied inside of each other, over all levels of the value: six for each of its 200. A cold process overflows its stack
 * at 1,600 (measured), a warm one later, and the answer must not depend on that.
 */
const MAX_DEPTH = 1_200;
export const MAX_PROBLEMS = 20;
/** Units for a schema that is applied to a member or an item. A body bounds those; of schemas for one value there may be any number. */
const TO_A_PART = 2;
/** Units for one of some alternatives, which ends at the first problem. */
export const AS_ALTERNATIVE = 3;
const TO_THE_SAME = 4;
/** Units for keeping what was evaluated. */
const EVALUATED = 6;
const MAX_NAME = 200;

/** The check was given up. The message says why, as a problem of the value. */
export class Unfinished extends Error {
  override readonly name = "Unfinished";
}

const TOO_LONG = "takes too long to check against its schema";
const ENDLESS = "cannot be checked: its schema refers to itself endlessly";
export const TOO_DEEP = `cannot be checked: its schema applies schemas inside of schemas, over ${MAX_DEPTH} deep`;

/** A text that the caller does not know yet. What depends on it counts as fitting. */
export const UNKNOWN_TEXT: Json = Symbol("unknown text") as unknown as Json;

/** An encrypted value that fits. */
const ANYTHING: Json = Symbol("an encrypted value") as unknown as Json;
const OPAQUE = "is encrypted ($enc): only a schema of any value, or one with x-secret, takes it";
const MASKED = `is ${JSON.stringify(MASK)}, which a view shows in the place of a secret value: give the value itself`;

/** Cheap, because every value of a check is asked. */
function isMarked(value: Json): value is JsonObject {
  return typeof value === "object" && value !== null && (SECRET in value || ENCRYPTED in value);
}

export interface Violation {
  /** A JSON pointer below the value that was checked; empty for the value itself. */
  readonly pointer: string;
  readonly message: string;
  /** The violations under each alternative, if none fits. */
  readonly alternatives?: readonly (readonly Violation[])[];
}

/** Collects violations, the first of them. */
export class Violations {
  readonly list: Violation[] = [];

  constructor(private readonly most = MAX_PROBLEMS) {}

  get isFull(): boolean {
    return this.list.length >= this.most;
  }
}

/** A set that is a list while it is small: a check makes thousands that hold one or two names. */
class SmallSet<T> {
  private readonly list: T[] = [];
  private set: Set<T> | undefined;

  get size(): number {
    return this.list.length;
  }

  add(one: T): void {
    this.list.push(one);
    this.set?.add(one);
  }

  has(one: T): boolean {
    if (this.list.length <= 8) return this.list.includes(one);
    this.set ??= new Set(this.list);
    return this.set.has(one);
  }

  each(visit: (one: T) => void): void {
    for (const one of this.list) visit(one);
  }
}

/** The members and items of a value that some keyword has looked at, for `unevaluatedProperties` and `unevaluatedItems`. */
export class Evaluated {
  allNames = false;
  allItems = false;
  /** The items before this one. */
  upTo = 0;
  private names: SmallSet<string> | undefined;
  private items: SmallSet<number> | undefined;

  all(): void {
    this.allNames = true;
    this.allItems = true;
  }

  name(name: string): void {
    this.names ??= new SmallSet();
    this.names.add(name);
  }

  item(index: number): void {
    this.items ??= new SmallSet();
    this.items.add(index);
  }

  hasName(name: string): boolean {
    return this.allNames || this.names?.has(name) === true;
  }

  hasItem(index: number): boolean {
    return this.allItems || index < this.upTo || this.items?.has(index) === true;
  }

  /** A schema that was tried and fits. */
  take({ names, items, allNames, allItems, upTo }: Evaluated, check: Check): void {
    check.spend(2 * ((names?.size ?? 0) + (items?.size ?? 0)));
    this.allNames ||= allNames;
    this.allItems ||= allItems;
    this.upTo = Math.max(this.upTo, upTo);
    names?.each((name) => this.name(name));
    items?.each((index) => this.item(index));
  }
}

/** A schema with an address of its own. */
export interface Resource {
  readonly uri: string;
  /** The anchors by name. */
  readonly anchors: Map<string, Node>;
  readonly dynamicAnchors: Map<string, Node>;
}

/** The resources that led here, the innermost first. */
export interface Scope {
  readonly resource: Resource;
  readonly outer: Scope | undefined;
}

/** Whether the value fits. Without `found` only that is asked for, and the first violation ends it. */
export type Keyword = (
  value: Json,
  check: Check,
  found: Violations | undefined,
  evaluated: Evaluated | undefined,
) => boolean;

/** A schema that was read. */
export interface Node {
  readonly resource: Resource;
  readonly keywords: readonly Keyword[];
  /** Keywords that look at what the others have evaluated. */
  readonly unevaluated: readonly Keyword[];
  /** The schema is `false`. */
  readonly isNever: boolean;
  /** Its values are secret. */
  readonly isSecret: boolean;
}

export class Check {
  readonly path: (string | number)[] = [];
  scope: Scope | undefined;
  /** How often the outcome depended on a text that is not known. */
  guesses = 0;
  private left: number;
  /** The schemas that are applied now, each by the one before. */
  private depth = 0;
  /** Those of them that were applied to the value that is looked at. */
  private inPlace = 0;

  constructor(
    /** A member of the value that closing keywords do not see. */
    private readonly granted?: string,
    budget = BUDGET,
  ) {
    this.left = budget;
  }

  /** Throws Unfinished. */
  readonly spend = (units: number): void => {
    this.left -= units;
    if (this.left < 0) throw new Unfinished(TOO_LONG);
  };

  /**
   * Whether the value fits the schema. All the work of one schema is in this function: a check recurses through it, and each frame of the
   * stack counts.
   */
  apply(node: Node, given: Json, found?: Violations, outer?: Evaluated, units = TO_THE_SAME): boolean {
    const { resource, keywords, unevaluated } = node;
    const value = isMarked(given) ? this.behind(given, node) : given;
    if (value === undefined) return this.violation(found, OPAQUE);
    if (node.isSecret && value === MASK) return this.violation(found, MASKED);
    if (value === ANYTHING) return true;
    this.spend(units + (keywords.length >> 1));
    if (++this.inPlace > MAX_IN_PLACE) throw new Unfinished(ENDLESS);
    if (++this.depth > MAX_DEPTH) throw new Unfinished(TOO_DEEP);
    const { scope } = this;
    if (scope?.resource !== resource) this.scope = { resource, outer: scope };
    const hasUnevaluated = unevaluated.length > 0;
    if (hasUnevaluated) this.spend(EVALUATED);
    const evaluated = hasUnevaluated ? new Evaluated() : outer;
    let fits = true;
    for (let index = 0; index < keywords.length && (fits || (found && !found.isFull)); index++)
      if (!(keywords[index] as Keyword)(value, this, found, evaluated)) fits = false;
    // A schema that does not fit evaluates nothing; reporting its members would repeat the problem.
    if (hasUnevaluated && fits) {
      for (const keyword of unevaluated) if (!keyword(value, this, found, evaluated)) fits = false;
      if (fits) outer?.take(evaluated as Evaluated, this);
    }
    this.scope = scope;
    this.inPlace--;
    this.depth--;
    return fits;
  }

  /** The secret value behind its mark. An encrypted value is looked into by no schema: it fits where any value does, or a secret one. */
  private behind(marked: JsonObject, { isSecret: takesSecret, keywords }: Node): Json | typeof ANYTHING | undefined {
    if (isSecret(marked)) return marked[SECRET];
    if (!isEncrypted(marked)) return marked;
    return takesSecret || keywords.length === 0 ? ANYTHING : undefined;
  }

  /** Applies the schema to a member or an item. */
  descend(node: Node, key: string | number, value: Json, found?: Violations): boolean {
    const { inPlace } = this;
    this.inPlace = 0;
    this.path.push(key);
    const fits = this.apply(node, value, found, undefined, TO_A_PART);
    this.path.pop();
    this.inPlace = inPlace;
    return fits;
  }

  /** Reports a violation by the value that is looked at, or by a member that it lacks. */
  violation(
    found: Violations | undefined,
    message: string,
    { member, alternatives }: Pick<Violation, "alternatives"> & { readonly member?: string } = {},
  ): false {
    if (!found || found.isFull) return false;
    this.spend(25 + 2 * this.path.length);
    const place = member === undefined ? this.path : [...this.path, member];
    found.list.push({ pointer: place.map(step).join(""), message, ...(alternatives && { alternatives }) });
    return false;
  }

  /** Counts as fitting, whatever the text will be. */
  guess(): true {
    this.guesses++;
    return true;
  }

  /** Whether closing keywords do not see the member of the value that is looked at. */
  grants(name: string): boolean {
    return name === this.granted && this.path.length === 0;
  }
}

/** A step of a JSON pointer. Longer names are cut: a value may have names of a megabyte. */
const step = (key: string | number): string =>
  pointerElement(typeof key === "number" ? key : beginningOf(key, MAX_NAME));
