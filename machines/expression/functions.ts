// All functions that an expression can call: the library's standard and string functions, each call metered, and our own rules
// where the library is quadratic, does not mix kinds of numbers, or depends on the host.
import {
  type CelEnv,
  type CelError,
  type CelFunc,
  type CelList,
  type CelMap,
  type CelValue,
  celEnv,
  celError,
  isCelError,
  isCelList,
  isCelMap,
  isCelUint,
} from "@bufbuild/cel";
import { strings } from "@bufbuild/cel/ext";
import { CALENDAR_FUNCTIONS, calendarField, timestampOf } from "./calendar.js";
import { isPlain } from "./errors.js";
import { spend } from "./fuel.js";
import { arithmetic, isNumber, type Operator, order, type Relation, sameNumber, whole } from "./numbers.js";
import { asciiOf, join, length, makeText, matches, paySearch, replace, splitToList } from "./text.js";
import { concat, JsonList, JsonMap } from "./values.js";

type Result = CelValue | CelError;

/** Our result of a call. Undefined: the library computes it. The target of a method is the first of `args`. */
type Rule = (args: readonly CelValue[]) => Result | undefined;

/** Called by the code that analyse.ts writes around a comprehension. No source can contain these names. */
export const TICK = "@tick";
export const RANGE = "@range";
export const COPY = "@copy";

const library = celEnv({ funcs: strings });
/** The cost of a failure, for which the library creates one or two Errors, even if an operator absorbs it. */
const FAILURE = 20;
/** The longest text that a conversion reads: `int()` of a million digits would take seconds. */
const MAX_NUMERAL_CHARS = 128;
const NUMERALS: Readonly<Record<string, RegExp>> = {
  int: /^[+-]?\d+$/,
  uint: /^\+?\d+$/,
  double: /^[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|Infinity|NaN)$/,
};

const arithmeticRule =
  (operator: Operator): Rule =>
  ([left = null, right = null]) =>
    arithmetic(operator, left, right);

const orderRule =
  (relation: Relation): Rule =>
  ([left = null, right = null]) =>
    order(relation, left, right);

const numeralRule =
  (name: string): Rule =>
  ([text]) => {
    if (typeof text !== "string") return undefined;
    spend(20);
    const known = text.length <= MAX_NUMERAL_CHARS && (NUMERALS[name]?.test(text) ?? true);
    return known ? undefined : celError(`invalid argument of ${name}()`);
  };

/** A rule for `count` texts and at most one int after them. The library refuses any other arguments. */
const textRule =
  (count: number, work: (texts: readonly string[], limit: bigint | undefined) => Result | undefined): Rule =>
  (args) => {
    const texts = args.slice(0, count).filter((arg) => typeof arg === "string");
    const limit = args[count] === undefined ? undefined : whole(args[count]);
    if (texts.length < count || args.length > count + 1) return undefined;
    return limit === undefined || typeof limit === "bigint" ? work(texts, limit) : undefined;
  };

const searchRule = (backwards: boolean) =>
  textRule(2, ([text = "", needle = ""]) => {
    paySearch(text, needle, backwards);
    return undefined;
  });

/** For functions of the library that take a text or bytes apart, in units for a character. */
const byCharacter =
  (units: number): Rule =>
  ([text]) => {
    if (typeof text === "string" || text instanceof Uint8Array) spend(text.length * units);
    return undefined;
  };

const RULES: Readonly<Record<string, Rule>> = {
  "_+_": ([left = null, right = null]) => plus(left, right),
  "_-_": arithmeticRule("_-_"),
  "_*_": arithmeticRule("_*_"),
  "_/_": arithmeticRule("_/_"),
  "_%_": arithmeticRule("_%_"),
  "_<_": orderRule("_<_"),
  "_<=_": orderRule("_<=_"),
  "_>_": orderRule("_>_"),
  "_>=_": orderRule("_>=_"),
  "_==_": ([left = null, right = null]) => equal(left, right),
  "_!=_": ([left = null, right = null]) => !equal(left, right),
  "@in": ([value = null, container = null]) => contains(value, container),
  size: ([value, ...excess]) => {
    if (excess.length > 0) return undefined;
    if (isCelMap(value)) return BigInt(paidSize(value));
    return typeof value === "string" ? length(value) : undefined;
  },
  string: ([value]) => {
    if (value instanceof Uint8Array) spend(value.length >>> 2);
    return undefined;
  },
  int: numeralRule("int"),
  uint: numeralRule("uint"),
  double: numeralRule("double"),
  duration: numeralRule("duration"),
  timestamp: ([value = null, ...excess]) => {
    const source = whole(value);
    const known = typeof source === "string" || typeof source === "bigint";
    return known && excess.length === 0 ? timestampOf(source) : undefined;
  },
  matches: textRule(2, ([text = "", pattern = ""], excess) =>
    excess === undefined ? matches(text, pattern) : undefined,
  ),
  contains: searchRule(false),
  indexOf: searchRule(false),
  lastIndexOf: searchRule(true),
  replace: textRule(3, ([text = "", old = "", by = ""], limit) => replace(text, old, by, limit)),
  split: textRule(2, ([text = "", separator = ""], limit) => splitToList(text, separator, limit)),
  join: ([list = null, separator = "", ...excess]) =>
    typeof separator === "string" && excess.length === 0 ? join(list, separator) : undefined,
  format: ([text = null, values = null]) => {
    // Each clause may create an Intl formatter (30 µs) and writes its whole value.
    if (typeof text === "string") spend(text.length + text.split("%").length * 500);
    weigh(values, 10);
    if (typeof text === "string" && /%[xX]/.test(text) && isCelList(values))
      for (const value of values) byCharacter(2)([value]);
    return undefined;
  },
  lowerAscii: textRule(1, ([text = ""]) => asciiOf(text, (run) => run.toLowerCase())),
  upperAscii: textRule(1, ([text = ""]) => asciiOf(text, (run) => run.toUpperCase())),
  "strings.quote": byCharacter(2),
  trim: byCharacter(1),
  ...Object.fromEntries(
    CALENDAR_FUNCTIONS.map((name): [string, Rule] => [
      name,
      ([time, zone, ...excess]) => (excess.length === 0 ? calendarField(name, time, zone) : undefined),
    ]),
  ),
  [TICK]: ([condition = null, weight]) => {
    if (typeof weight === "bigint") spend(Number(weight));
    return condition;
  },
  [RANGE]: ([range = null]) => {
    if (isCelList(range) || isCelMap(range)) spend(range.size);
    return range;
  },
  [COPY]: ([value = null]) => {
    weigh(value, 10);
    return value;
  },
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
  if (typeof value === "string" || typeof value === "boolean" || isNumber(value)) {
    return container.get(value) !== undefined;
  }
  return undefined;
}

function equal(left: CelValue, right: CelValue): boolean {
  spend(1);
  if (left === right) return true;
  if (isNumber(left) && isNumber(right)) return sameNumber(left, right);
  if (typeof left !== "object" || typeof right !== "object" || left === null || right === null) return false;
  if (left instanceof JsonList || left instanceof JsonMap) {
    const other: unknown = right;
    const source = other instanceof JsonList || other instanceof JsonMap ? other.source : undefined;
    if (left.source === source) return true;
  }
  if (isCelList(left)) return isCelList(right) && equalLists(left, right);
  if (isCelMap(left)) return isCelMap(right) && equalMaps(left, right);
  return library.funcs.find("_==_")?.call(0, undefined, [left, right]) === true;
}

function equalLists(left: CelList, right: CelList): boolean {
  if (left.size !== right.size) return false;
  for (let index = 0; index < left.size; index++) {
    if (!equal(left.get(index) as CelValue, right.get(index) as CelValue)) return false;
  }
  return true;
}

function equalMaps(left: CelMap, right: CelMap): boolean {
  const size = paidSize(left);
  if (size !== paidSize(right)) return false;
  for (const [key, value] of left) {
    const other = right.get(key);
    if (other === undefined || !equal(value, other)) return false;
  }
  return true;
}

/** The names of a map are listed to count them. */
function paidSize({ size }: CelMap): number {
  spend(size * 2);
  return size;
}

/** Pays `units` for every element of a value that is about to be written or copied as a whole. */
function weigh(value: CelValue, units: number): void {
  spend(units);
  if (typeof value === "string" || value instanceof Uint8Array) makeText(value.length);
  else if (isCelList(value)) for (const item of value) weigh(item, units);
  else if (isCelMap(value)) {
    for (const [key, item] of value) {
      weigh(isCelUint(key) ? key.value : key, units);
      weigh(item, units);
    }
  }
}

/** The function that the planner binds to a call: our rule first, then the library, then the library with whole doubles as ints. */
class MeteredFunction {
  private readonly rule: Rule | undefined;

  constructor(
    readonly name: string,
    private readonly group: Pick<CelFunc, "call"> | undefined,
  ) {
    this.rule = Object.hasOwn(RULES, name) ? RULES[name] : undefined;
  }

  call(id: number, target: CelValue | undefined, args: CelValue[]): Result | undefined {
    const all = target === undefined ? args : [target, ...args];
    pay(all);
    const own = this.rule?.(all);
    if (isCelError(own)) spend(FAILURE);
    if (own !== undefined) return own;
    const result = this.group?.call(id, target, args) ?? this.group?.call(id, target, args.map(whole));
    if (!isCelError(result)) return result;
    spend(FAILURE);
    if (isPlain(result.message)) return result;
    // The library quotes the value that it could not convert. Messages must not contain payloads.
    return celError(`invalid argument of ${this.name}()`, id);
  }
}

function pay(args: readonly CelValue[]): void {
  let units = 1;
  for (const arg of args) if (typeof arg === "string" || arg instanceof Uint8Array) units += arg.length >>> 6;
  spend(units);
}

const functions = new Map<string, MeteredFunction>();
for (const { name } of library.funcs) functions.set(name, new MeteredFunction(name, library.funcs.find(name)));
for (const name of [TICK, RANGE, COPY]) functions.set(name, new MeteredFunction(name, undefined));

/** Operators that the planner implements without a function. */
const PLANNED = ["_[_]", "_?_:_", "_&&_", "_||_", "@not_strictly_false"];

export function isFunction(name: string): boolean {
  return functions.has(name) || PLANNED.includes(name);
}

/**
 * The planner's environment, with a function resolver of our own, which the library's types do not allow for. The planner asks it
 * once for each call in the source, so metering costs a call at run time, but no lookup.
 */
export const environment = {
  namespace: library.namespace,
  registry: library.registry,
  variables: library.variables,
  funcs: { find: (name: string) => functions.get(name) },
} as unknown as CelEnv;
