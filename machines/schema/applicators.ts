// The keywords that apply other schemas, to a value itself or to its members and items. Those that judge by themselves are in assertions.ts.
import { isObject, type Json, type JsonObject } from "../values/json.js";
import * as misfit from "../values/misfit.js";
import type { Pattern } from "../values/pattern.js";
import { namesOf, quoted } from "./assertions.js";
import {
  AS_ALTERNATIVE,
  type Check,
  Evaluated,
  type Keyword,
  MAX_PROBLEMS,
  type Node,
  type Violation,
  Violations,
} from "./check.js";

/** The schema `false`. */
export const never: Keyword = (_, check, found) => check.violation(found, misfit.NOT_ALLOWED);

export interface Members {
  readonly properties: ReadonlyMap<string, Node>;
  readonly patterns: readonly { readonly pattern: Pattern; readonly node: Node }[];
  /** The schema of the members that none of the others names. */
  readonly additional?: Node;
}

/** Fewer properties are looked up in the value; of more, the value's members are. */
const FEW = 16;

/** `properties`, `patternProperties` and `additionalProperties`. */
export function members({ properties, patterns, additional }: Members): Keyword {
  const ofFew = patterns.length === 0 && !additional && properties.size <= FEW;
  return (value, check, found, evaluated) => {
    if (!isObject(value)) return true;
    let fits = true;
    if (evaluated && additional) evaluated.allNames = true;
    const names = additional ? undefined : evaluated;
    const apply = (node: Node, name: string): boolean => {
      names?.name(name);
      if (!check.descend(node, name, value[name] as Json, found)) fits = false;
      return fits || (found !== undefined && !found.isFull);
    };
    if (ofFew) {
      check.spend(properties.size >> 2);
      for (const [name, node] of properties) if (Object.hasOwn(value, name) && !apply(node, name)) return false;
      return fits;
    }
    for (const name of namesOf(value, check)) {
      const node = properties.get(name);
      if (node && !apply(node, name)) return false;
      const granted = check.grants(name);
      let isKnown = node !== undefined || granted;
      for (const one of patterns) {
        if (granted || !one.pattern.test(name, check.spend, true)) continue;
        isKnown = true;
        if (!apply(one.node, name)) return false;
      }
      if (isKnown || !additional) continue;
      if (additional.isNever) fits = check.violation(found, `must not have the member ${quoted(name)}`);
      else if (!apply(additional, name)) return false;
      if (!fits && (!found || found.isFull)) return false;
    }
    return fits;
  };
}

export function propertyNames(node: Node): Keyword {
  return (value, check, found) => {
    if (!isObject(value)) return true;
    let fits = true;
    for (const name of namesOf(value, check)) {
      if (check.grants(name)) continue;
      const faults = found && new Violations();
      if (check.apply(node, name, faults)) continue;
      fits = false;
      for (const { message } of flat(faults?.list ?? []))
        check.violation(found, `has the name ${quoted(name)}, which ${message}`);
      if (!found || found.isFull) return false;
    }
    return fits;
  };
}

/** A schema like `true`. */
const fitsAll = ({ keywords, unevaluated }: Node): boolean => keywords.length + unevaluated.length === 0;

/** `prefixItems` and `items`. */
export function items(prefix: readonly Node[], rest: Node | undefined): Keyword {
  return (value, check, found, evaluated) => {
    if (!Array.isArray(value)) return true;
    if (rest?.isNever && value.length > prefix.length)
      return check.violation(found, misfit.tooManyItems(prefix.length));
    let fits = true;
    const count = rest ? value.length : Math.min(prefix.length, value.length);
    const last = rest && !fitsAll(rest) ? count : Math.min(prefix.length, count);
    for (let index = 0; index < last; index++) {
      const node = (prefix[index] ?? rest) as Node;
      if (check.descend(node, index, value[index] as Json, found)) continue;
      fits = false;
      if (!found || found.isFull) return false;
    }
    if (evaluated) evaluated.upTo = Math.max(evaluated.upTo, count);
    return fits;
  };
}

export function contains(node: Node, least: number, most: number): Keyword {
  const message =
    most === Infinity
      ? `must have at least ${least} of the items that its schema asks for`
      : `must have at least ${least} and at most ${most} of the items that its schema asks for`;
  return (value, check, found, evaluated) => {
    if (!Array.isArray(value)) return true;
    const { guesses } = check;
    let count = 0;
    for (let index = 0; index < value.length; index++) {
      if (count >= least && most === Infinity && !evaluated) return true;
      if (!check.descend(node, index, value[index] as Json)) continue;
      count++;
      evaluated?.item(index);
    }
    return (count >= least && count <= most) || check.guesses > guesses || check.violation(found, message);
  };
}

export function allOf(nodes: readonly Node[]): Keyword {
  return (value, check, found, evaluated) => {
    let fits = true;
    for (const node of nodes) {
      if (check.apply(node, value, found, evaluated)) continue;
      fits = false;
      if (!found || found.isFull) return false;
    }
    return fits;
  };
}

/** Applies a schema that need not fit. */
function attempt(check: Check, node: Node, value: Json, evaluated: Evaluated | undefined): boolean {
  const own = evaluated && new Evaluated();
  const fits = check.apply(node, value, undefined, own, AS_ALTERNATIVE);
  if (fits && own) evaluated.take(own, check);
  return fits;
}

export function anyOf(nodes: readonly Node[]): Keyword {
  return (value, check, found, evaluated) => {
    let fits = false;
    for (const node of nodes) {
      if (attempt(check, node, value, evaluated)) fits = true;
      // The remaining alternatives matter only for unevaluated members.
      if (fits && !evaluated) return true;
    }
    return fits || noneFits(nodes, value, check, found, "must match a schema in anyOf");
  };
}

/** What is wrong under each alternative is found out when none of them fits: most that fail do so beside one that fits. */
function noneFits(
  nodes: readonly Node[],
  value: Json,
  check: Check,
  found: Violations | undefined,
  message: string,
): false {
  if (!found || found.isFull) return false;
  const each = Math.ceil(MAX_PROBLEMS / nodes.length);
  const alternatives = nodes.map((node) => {
    const faults = new Violations(each);
    check.apply(node, value, faults);
    return faults.list;
  });
  return check.violation(found, message, { alternatives });
}

export function oneOf(nodes: readonly Node[]): Keyword {
  return (value, check, found, evaluated) => {
    const { guesses } = check;
    let matches = 0;
    for (const node of nodes) {
      if (attempt(check, node, value, evaluated)) matches++;
      if (matches > 1) break;
    }
    if (matches === 1 || (matches > 1 && check.guesses > guesses)) return true;
    const message = "must match exactly one schema in oneOf";
    return matches === 0 ? noneFits(nodes, value, check, found, message) : check.violation(found, message);
  };
}

export function not(node: Node): Keyword {
  return (value, check, found) => {
    const { guesses } = check;
    return (
      !check.apply(node, value) || check.guesses > guesses || check.violation(found, "must not match the schema in not")
    );
  };
}

export function conditional(condition: Node, then: Node | undefined, otherwise: Node | undefined): Keyword {
  return (value, check, found, evaluated) => {
    if (!then && !otherwise && !evaluated) return true;
    const { guesses } = check;
    const next = attempt(check, condition, value, evaluated) ? then : otherwise;
    if (check.guesses > guesses) {
      evaluated?.all();
      return true;
    }
    return !next || check.apply(next, value, found, evaluated);
  };
}

export function dependentSchemas(nodes: ReadonlyMap<string, Node>): Keyword {
  return (value, check, found, evaluated) => {
    if (!isObject(value)) return true;
    check.spend(nodes.size >> 2);
    let fits = true;
    for (const [name, node] of nodes)
      if (Object.hasOwn(value, name) && !check.apply(node, value, found, evaluated)) fits = false;
    return fits;
  };
}

/** The target is known when the whole schema has been read. */
export function reference(target: () => Node): Keyword {
  return (value, check, found, evaluated) => check.apply(target(), value, found, evaluated);
}

/** The outermost resource on the way here that has the anchor. */
export function dynamicReference(name: string, target: () => Node): Keyword {
  return (value, check, found, evaluated) => {
    let node = target();
    for (let { scope } = check; scope; scope = scope.outer) {
      check.spend(1);
      node = scope.resource.dynamicAnchors.get(name) ?? node;
    }
    return check.apply(node, value, found, evaluated);
  };
}

export function unevaluatedProperties(node: Node): Keyword {
  return (value, check, found, evaluated) => {
    if (!isObject(value) || !evaluated || evaluated.allNames) return true;
    let fits = true;
    for (const name of namesOf(value as JsonObject, check)) {
      if (evaluated.hasName(name) || check.grants(name)) continue;
      if (node.isNever) fits = check.violation(found, `must not have the member ${quoted(name)}`);
      else if (!check.descend(node, name, value[name] as Json, found)) fits = false;
      if (!fits && (!found || found.isFull)) return false;
    }
    evaluated.allNames = true;
    return fits;
  };
}

export function unevaluatedItems(node: Node): Keyword {
  return (value, check, found, evaluated) => {
    if (!Array.isArray(value) || !evaluated || evaluated.allItems) return true;
    check.spend(value.length >> 3);
    let fits = true;
    for (let index = evaluated.upTo; index < value.length; index++) {
      if (evaluated.hasItem(index)) continue;
      if (node.isNever) fits = check.violation(found, `must not have the item ${index}`);
      else if (!check.descend(node, index, value[index] as Json, found)) fits = false;
      if (!fits && (!found || found.isFull)) return false;
    }
    evaluated.allItems = true;
    return fits;
  };
}

/** What is wrong under each alternative before what they are alternatives of. */
export function flat(found: readonly Violation[]): readonly Violation[] {
  return found.flatMap((violation) => [...(violation.alternatives ?? []).flatMap(flat), violation]);
}
