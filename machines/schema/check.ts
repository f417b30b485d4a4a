// One check of a value: its budget, the place that it has reached, and what it has found. The keywords are in the files beside; they all work
// on this.
import { beginningOf, type Json } from "../values/json.js";
import { pointerElement } from "../values/json-path.js";

/**
 * A unit is about 50 ns: a schema applied to a value, a keyword, a member that is looked at, 32 characters that are read. Not a clock: the same schema and value end at the
 * same place on every machine.
 */
export const BUDGET = 300_000;
/** Schemas that are applied to one value, each by the one before. A schema has at most 1,000 objects, so more of them go in a circle. */
const MAX_STILL = 1_000;
const MAX_PROBLEMS = 20;
const MAX_NAME = 200;

/** The budget is used up. */
export class OutOfBudget extends Error {
  override readonly name = "OutOfBudget";
}

/** The schema refers to itself without descending into the value. */
export class Endless extends Error {
  override readonly name = "Endless";
}

/** A text that the caller does not know yet. What depends on it counts as fitting. */
export const UNKNOWN_TEXT: Json = Symbol("unknown text") as unknown as Json;

export interface Misfit {
  /** A JSON pointer below the value that was checked; empty for the value itself. */
  readonly pointer: string;
  readonly message: string;
  /** The member that `required` misses. */
  readonly missing?: string;
  /** What is wrong under each alternative, where none fits. */
  readonly alternatives?: readonly (readonly Misfit[])[];
}

/** Collects misfits, the first of them. */
export class Misfits {
  readonly list: Misfit[] = [];

  get isFull(): boolean {
    return this.list.length >= MAX_PROBLEMS;
  }
}

/** The members and items of a value that some keyword has looked at, for `unevaluatedProperties` and `unevaluatedItems`. */
export class Evaluated {
  allNames = false;
  allItems = false;
  /** The items before this one. */
  upTo = 0;
  private names: Set<string> | undefined;
  private items: Set<number> | undefined;

  all(): void {
    this.allNames = true;
    this.allItems = true;
  }

  name(name: string): void {
    this.names ??= new Set();
    this.names.add(name);
  }

  item(index: number): void {
    this.items ??= new Set();
    this.items.add(index);
  }

  hasName(name: string): boolean {
    return this.allNames || this.names?.has(name) === true;
  }

  hasItem(index: number): boolean {
    return this.allItems || index < this.upTo || this.items?.has(index) === true;
  }

  /** A schema that was tried and fits. */
  take(other: Evaluated, check: Check): void {
    const { names = [], items = [] } = other;
    check.spend(2 * ((other.names?.size ?? 0) + (other.items?.size ?? 0)));
    this.allNames ||= other.allNames;
    this.allItems ||= other.allItems;
    this.upTo = Math.max(this.upTo, other.upTo);
    for (const name of names) this.name(name);
    for (const index of items) this.item(index);
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

/** Whether the value fits. Without `found` only that is asked for, and the first misfit ends the check. */
export type Keyword = (
  value: Json,
  check: Check,
  found: Misfits | undefined,
  evaluated: Evaluated | undefined,
) => boolean;

/** A schema that was read. */
export interface Node {
  readonly resource: Resource;
  readonly keywords: readonly Keyword[];
  /** Keywords that look at what the others have evaluated. */
  readonly reviews: readonly Keyword[];
  /** The schema is `false`. */
  readonly isNever: boolean;
}

export class Check {
  readonly path: (string | number)[] = [];
  scope: Scope | undefined;
  /** How often the outcome depended on a text that is not known. */
  guesses = 0;
  private left: number;
  private still = 0;

  constructor(
    /** A member of the value that closing keywords do not see. */
    private readonly granted?: string,
    budget = BUDGET,
  ) {
    this.left = budget;
  }

  /** Throws OutOfBudget. */
  readonly spend = (units: number): void => {
    this.left -= units;
    if (this.left < 0) throw new OutOfBudget("the check used up its budget");
  };

  /** Whether the value fits the schema. */
  apply(node: Node, value: Json, found?: Misfits, outer?: Evaluated): boolean {
    const { resource, keywords, reviews } = node;
    this.spend(2 + (keywords.length >> 1));
    if (++this.still > MAX_STILL) throw new Endless("the schema refers to itself endlessly");
    const { scope } = this;
    if (scope?.resource !== resource) this.scope = { resource, outer: scope };
    const fits =
      reviews.length > 0 ? this.reviewed(node, value, found, outer) : this.all(keywords, value, found, outer);
    this.scope = scope;
    this.still--;
    return fits;
  }

  /** Applies one more schema to the value that is looked at. Unlike members, which a body bounds, of these there may be any number. */
  applyToo(node: Node, value: Json, found?: Misfits, evaluated?: Evaluated): boolean {
    this.spend(2);
    return this.apply(node, value, found, evaluated);
  }

  /** Applies the schema to a member or an item. */
  descend(node: Node, key: string | number, value: Json, found?: Misfits): boolean {
    const { still } = this;
    this.still = 0;
    this.path.push(key);
    const fits = this.apply(node, value, found);
    this.path.pop();
    this.still = still;
    return fits;
  }

  /** Reports a misfit of the value that is looked at. */
  misfit(found: Misfits | undefined, message: string, more?: Pick<Misfit, "missing" | "alternatives">): false {
    if (!found || found.isFull) return false;
    this.spend(10 + 2 * this.path.length);
    found.list.push({ pointer: this.path.map(step).join(""), message, ...more });
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

  private all(
    keywords: readonly Keyword[],
    value: Json,
    found: Misfits | undefined,
    evaluated: Evaluated | undefined,
  ): boolean {
    let fits = true;
    for (const keyword of keywords) {
      if (keyword(value, this, found, evaluated)) continue;
      fits = false;
      if (!found || found.isFull) break;
    }
    return fits;
  }

  /** What did not fit has evaluated nothing, so its members would be misfits a second time. */
  private reviewed(
    { keywords, reviews }: Node,
    value: Json,
    found: Misfits | undefined,
    outer: Evaluated | undefined,
  ): boolean {
    this.spend(2);
    const evaluated = new Evaluated();
    const fits = this.all(keywords, value, found, evaluated) && this.all(reviews, value, found, evaluated);
    if (fits) outer?.take(evaluated, this);
    return fits;
  }
}

/** One step of a JSON pointer. Longer names are cut: a value may have names of a megabyte. */
const step = (key: string | number): string =>
  pointerElement(typeof key === "number" ? key : beginningOf(key, MAX_NAME));
