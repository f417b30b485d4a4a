// All functions that an expression can call: the library's, each call metered, and our own rules where the library has none, is
// quadratic, does not mix kinds of numbers, counts UTF-16 units, or depends on the host.
import {
  type CelError,
  type CelFunc,
  type CelResult,
  type CelValue,
  celError,
  isCelError,
  isCelList,
  isCelMap,
} from "@bufbuild/cel";
import { CALENDAR_FUNCTIONS, calendarField } from "./calendar.js";
import { charAt, indexOf, lastIndexOf, length, paySearch, quote, substring, trim } from "./characters.js";
import { CONVERSIONS } from "./conversions.js";
import { Decimal } from "./decimal.js";
import { isPlain } from "./errors.js";
import { format } from "./format.js";
import { spend } from "./fuel.js";
import { LIST_FUNCTIONS, sortByKeys } from "./lists.js";
import { PUT, PUT_ALL, SORT_BY_KEYS } from "./macros.js";
import { MATH_FUNCTIONS } from "./mathematics.js";
import { library } from "./messages.js";
import { arithmetic, isNumber, type Operator, whole } from "./numbers.js";
import { Optional } from "./optional.js";
import { equal, order, type Relation } from "./order.js";
import { makeText, paidSize } from "./prices.js";
import { refuseEncrypted } from "./secrets.js";
import { asciiOf, join, matches, replace, splitToList } from "./text.js";
import { OPTIONAL_INDEX, OPTIONAL_MEMBER } from "./tree.js";
import { typeOf } from "./types.js";
import { concat, MadeMap } from "./values.js";

type Result = CelValue | CelError;

/** Our result of a call. Undefined: the library computes it. The target of a method is the first of `args`. */
type Rule = (args: readonly CelValue[]) => Result | undefined;

/** The cost of a failure, for which the library creates one or two Errors, even if an operator absorbs it. */
const FAILURE = 20;

const arithmeticRule =
  (operator: Operator): Rule =>
  ([left = null, right = null]) =>
    arithmetic(operator, left, right);

const orderRule =
  (relation: Relation): Rule =>
  ([left = null, right = null]) =>
    order(relation, left, right);

/** A rule for `count` texts and at most `most` whole numbers after them. */
const textRule =
  (
    count: number,
    work: (texts: readonly string[], first?: bigint, second?: bigint) => Result | undefined,
    most = 0,
  ): Rule =>
  (args) => {
    const texts = args.slice(0, count).filter((arg) => typeof arg === "string");
    const numbers = args.slice(count).map(whole);
    if (texts.length < count || numbers.length > most) return undefined;
    return numbers.every((number) => typeof number === "bigint") ? work(texts, ...numbers) : undefined;
  };

const RULES: Readonly<Record<string, Rule>> = {
  "_+_": ([left = null, right = null]) => plus(left, right),
  "_-_": arithmeticRule("_-_"),
  "_*_": arithmeticRule("_*_"),
  "_/_": arithmeticRule("_/_"),
  "_%_": arithmeticRule("_%_"),
  "-_": ([value = null]) => (value instanceof Decimal ? (value.negated() as unknown as CelValue) : undefined),
  "_<_": orderRule("_<_"),
  "_<=_": orderRule("_<=_"),
  "_>_": orderRule("_>_"),
  "_>=_": orderRule("_>=_"),
  "_==_": ([left = null, right = null]) => equal(left, right),
  "_!=_": ([left = null, right = null]) => !equal(left, right),
  "@in": ([value = null, container = null]) => contains(value, container),
  size: ([value = null, ...excess]) => {
    if (excess.length > 0) return undefined;
    if (isCelMap(value)) return BigInt(paidSize(value));
    return typeof value === "string" ? length(value) : undefined;
  },
  matches: textRule(2, ([text = "", pattern = ""]) => matches(text, pattern)),
  contains: textRule(2, ([text = "", needle = ""]) => {
    paySearch(text, needle);
    return undefined;
  }),
  charAt: textRule(1, ([text = ""], index) => (index === undefined ? undefined : charAt(text, index)), 1),
  substring: textRule(
    1,
    ([text = ""], start, end) => (start === undefined ? undefined : substring(text, start, end)),
    2,
  ),
  indexOf: textRule(2, ([text = "", needle = ""], start) => indexOf(text, needle, start), 1),
  lastIndexOf: textRule(2, ([text = "", needle = ""], start) => lastIndexOf(text, needle, start), 1),
  replace: textRule(3, ([text = "", old = "", by = ""], limit) => replace(text, old, by, limit), 1),
  split: textRule(2, ([text = "", separator = ""], limit) => splitToList(text, separator, limit), 1),
  join: ([list = null, separator = "", ...excess]) =>
    isCelList(list) && typeof separator === "string" && excess.length === 0 ? join(list, separator) : undefined,
  format: ([text = null, values = null, ...excess]) =>
    typeof text === "string" && isCelList(values) && excess.length === 0 ? format(text, values) : undefined,
  lowerAscii: textRule(1, ([text = ""]) => asciiOf(text, (run) => run.toLowerCase())),
  upperAscii: textRule(1, ([text = ""]) => asciiOf(text, (run) => run.toUpperCase())),
  "strings.quote": textRule(1, ([text = ""]) => quote(text)),
  trim: textRule(1, ([text = ""]) => trim(text)),
  ...Object.fromEntries(
    CALENDAR_FUNCTIONS.map((name): [string, Rule] => [
      name,
      ([time, zone, ...excess]) => (excess.length === 0 ? calendarField(name, time, zone) : undefined),
    ]),
  ),
  ...CONVERSIONS,
  ...Object.fromEntries(
    Object.entries(MATH_FUNCTIONS).map(([name, work]): [string, Rule] => [name, (args) => work(...args)]),
  ),
  ...LIST_FUNCTIONS,
  [PUT]: ([map = null, key = null, value = null]) => put(map, key, value),
  [PUT_ALL]: ([map = null, entries = null]) => putAll(map, entries),
  [SORT_BY_KEYS]: sortByKeys,
};

function plus(left: CelValue, right: CelValue): Result | undefined {
  if (typeof left === "string" && typeof right === "string") {
    makeText(left.length + right.length);
    return left + right;
  }
  if (left instanceof Uint8Array && right instanceof Uint8Array) {
    makeText(left.length + right.length);
    return undefined;
  }
  if (isCelList(left) && isCelList(right)) return concat(left, right);
  return arithmetic("_+_", left, right);
}

function contains(value: CelValue, container: CelValue): Result | undefined {
  if (isCelList(container)) {
    for (const item of container) if (equal(item, value)) return true;
    return false;
  }
  if (!isCelMap(container)) return undefined;
  // The library's `has` treats a null as an absent key.
  const key = value instanceof Decimal ? whole(value) : value;
  if (typeof key === "string" || typeof key === "boolean" || isNumber(key)) return container.get(key) !== undefined;
  return undefined;
}

/** Adds to the map that a loop makes, and that nothing else sees until the loop ends. */
function put(map: CelValue, key: CelValue, value: CelValue): Result | undefined {
  if (!(map instanceof MadeMap)) return undefined;
  spend(8);
  const added = map.add(key, value);
  if (added === true) return map;
  return celError(added === false ? "map key conflict" : "unsupported key type");
}

function putAll(map: CelValue, entries: CelValue): Result | undefined {
  if (!isCelMap(entries)) return celError("type mismatch: transformMapEntry makes maps");
  for (const [key, value] of entries) {
    const added = put(map, key, value);
    if (added === undefined || isCelError(added)) return added;
  }
  return map;
}

/** The function of a call: our rule first, then the library, then the library with whole doubles as ints. */
export class CallableFunction {
  private readonly rule: Rule | undefined;
  private readonly group: Pick<CelFunc, "call"> | undefined;

  constructor(readonly name: string) {
    this.rule = Object.hasOwn(RULES, name) ? RULES[name] : undefined;
    this.group = library.funcs.find(name);
  }

  /** `isMethod`: the first argument is its target. Our own rules do not care. */
  call(args: readonly CelValue[], isMethod: boolean): CelResult {
    pay(args);
    refuseEncrypted(args);
    const own = this.rule?.(args);
    if (own !== undefined) {
      if (isCelError(own)) spend(FAILURE);
      return own;
    }
    const result = this.ofLibrary(args, isMethod) ?? this.ofLibrary(args.map(whole), isMethod);
    if (result !== undefined && !isCelError(result)) return result;
    spend(FAILURE);
    if (result === undefined) return celError(noOverload(this.name, args, isMethod));
    // The library quotes the value that it could not convert. Messages must not contain payloads.
    return isPlain(result.message) ? result : celError(`invalid argument of ${this.name}()`);
  }

  private ofLibrary(args: readonly CelValue[], isMethod: boolean): CelResult | undefined {
    if (args.some(isOurs)) return undefined;
    return isMethod ? this.group?.call(0, args[0], args.slice(1)) : this.group?.call(0, undefined, [...args]);
  }
}

/** Values that the library does not know. */
function isOurs(value: CelValue): boolean {
  return value instanceof Decimal || value instanceof Optional;
}

function noOverload(name: string, args: readonly CelValue[], isMethod: boolean): string {
  const [first, ...rest] = args.map((arg) => typeOf(arg).name);
  const applied = isMethod ? `${first}.(${rest.join(", ")})` : `(${[first, ...rest].join(", ")})`;
  return `found no matching overload for '${name}' applied to '${applied}'`;
}

function pay(args: readonly CelValue[]): void {
  let units = 1;
  for (const arg of args) if (typeof arg === "string" || arg instanceof Uint8Array) units += arg.length >>> 6;
  spend(units);
}

const functions = new Map<string, CallableFunction>();
for (const name of [...Array.from(library.funcs, ({ name }) => name), ...Object.keys(RULES)])
  if (!functions.has(name)) functions.set(name, new CallableFunction(name));

/** Operators that the planner implements without a function. */
const PLANNED = [
  "_[_]",
  OPTIONAL_INDEX,
  OPTIONAL_MEMBER,
  "_?_:_",
  "_&&_",
  "_||_",
  "@not_strictly_false",
  "or",
  "orValue",
];

const namespaces = new Set(["cel.", ...[...functions.keys()].filter((name) => name.includes(".")).map(spaceOf)]);

function spaceOf(name: string): string {
  return name.slice(0, name.indexOf(".") + 1);
}

export function isFunction(name: string): boolean {
  return functions.has(name) || PLANNED.includes(name);
}

/** `math.` and the like. */
export function isNamespace(qualifier: string): boolean {
  return namespaces.has(qualifier);
}

export function functionNamed(name: string): CallableFunction | undefined {
  return functions.get(name);
}

/** The names of all functions, without operators. */
export function functionNames(): readonly string[] {
  return [...functions.keys(), "or", "orValue"].filter((name) => /^[a-zA-Z]/.test(name));
}
