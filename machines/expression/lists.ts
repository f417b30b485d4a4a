// The functions of lists: cel-go's extensions `lists` and `sets`, and the sums and extremes that it leaves to macros.
import { type CelList, type CelResult, type CelValue, celError, isCelError, isCelList, isCelUint } from "@bufbuild/cel";
import { reverse } from "./characters.js";
import { spend } from "./fuel.js";
import { extremeOf } from "./mathematics.js";
import { library } from "./messages.js";
import { arithmetic, isNumber, whole } from "./numbers.js";
import { Optional } from "./optional.js";
import { compare, DistinctValues } from "./order.js";
import { paySort } from "./prices.js";
import { asDuration, listOf } from "./values.js";

type ListFunction = (args: readonly CelValue[]) => CelResult | undefined;

const MAX_FLATTEN = 100n;

/** A function of a list and at most `count` whole numbers after it. */
const onList =
  (work: (list: CelList, numbers: readonly bigint[]) => CelResult | undefined, count = 0): ListFunction =>
  ([list = null, ...rest]) => {
    const numbers = rest.map(whole).filter((value) => typeof value === "bigint");
    return isCelList(list) && numbers.length === rest.length && rest.length <= count ? work(list, numbers) : undefined;
  };

const onLists =
  (work: (left: CelList, right: CelList) => CelResult | undefined): ListFunction =>
  ([left = null, right = null, ...more]) =>
    isCelList(left) && isCelList(right) && more.length === 0 ? work(left, right) : undefined;

/** The sum of numbers, decimals or durations. That of an empty list is 0. */
function sum(list: CelList): CelResult {
  let total: CelValue | undefined;
  for (const item of list) {
    spend(2);
    if (!isNumber(item) && !asDuration(item)) return celError("sum(): an item is no number and no duration");
    const next = total === undefined ? item : (arithmetic("_+_", total, item) ?? inLibrary(total, item));
    if (next === undefined) return celError("sum(): the items are of different types");
    if (isCelError(next)) return next;
    total = next;
  }
  return total ?? 0n;
}

/** The sum of two uints or two durations, which the library adds. */
function inLibrary(left: CelValue, right: CelValue): CelResult | undefined {
  const known = [left, right].every((value) => isCelUint(value) || asDuration(value));
  return known ? library.funcs.find("_+_")?.call(0, undefined, [left, right]) : undefined;
}

const extreme = (name: string, wanted: 1 | -1) => onList((list) => extremeOf(name, list, wanted, () => true));

/** Stable. `keys`: what the items are sorted by. */
function sorted(name: string, list: CelList, keys: CelList): CelResult {
  const [first] = keys;
  const pairs: { readonly item: CelValue; readonly key: CelValue }[] = [];
  for (let index = 0; index < keys.size; index++) {
    const key = keys.get(index) as CelValue;
    if (compare(first as CelValue, key) === undefined)
      return celError(`${name}(): what it sorts by has no order, or is of different types`);
    pairs.push({ item: list.get(index) as CelValue, key });
  }
  paySort(pairs.length);
  spend(pairs.length * 4);
  pairs.sort((left, right) => compare(left.key, right.key) || 0);
  return listOf(pairs.map(({ item }) => item));
}

function distinct(list: CelList): CelResult {
  const known = new DistinctValues();
  return listOf(Array.from(list).filter((item) => known.add(item)));
}

function slice(list: CelList, [start = 0n, end = BigInt(list.size)]: readonly bigint[]): CelResult {
  if (start < 0n || end > BigInt(list.size)) return celError("slice(): the index is outside of the list");
  if (start > end) return celError("slice(): the end is before the start");
  spend(Number(end - start) * 2);
  const items: CelValue[] = [];
  for (let index = Number(start); index < Number(end); index++) items.push(list.get(index) as CelValue);
  return listOf(items);
}

function flatten(list: CelList, depth: bigint): CelResult {
  if (depth < 0n || depth > MAX_FLATTEN) return celError(`flatten(): a depth is from 0 to ${MAX_FLATTEN}`);
  const items: CelValue[] = [];
  const add = (from: CelList, left: bigint) => {
    spend(4 + from.size * 4);
    for (const item of from) {
      if (left > 0n && isCelList(item)) add(item, left - 1n);
      else items.push(item);
    }
  };
  add(list, depth);
  return listOf(items);
}

function reversed(list: CelList): CelResult {
  spend(list.size * 3);
  return listOf(Array.from(list).reverse());
}

function range(count: bigint): CelResult {
  spend(count > 0n ? Number(count) * 3 : 0);
  return listOf(Array.from({ length: Math.max(0, Number(count)) }, (_, index) => BigInt(index)));
}

/** The values of those that have one. */
function unwrapped(list: CelList): CelResult | undefined {
  const items: CelValue[] = [];
  spend(list.size * 3);
  for (const item of list) {
    if (!(item instanceof Optional)) return undefined;
    if (item.value !== undefined) items.push(item.value);
  }
  return listOf(items);
}

/** Whether each item of the second is in the first. */
function includes(all: CelList, some: CelList): boolean {
  const known = DistinctValues.of(all);
  for (const item of some) if (!known.has(item)) return false;
  return true;
}

export const LIST_FUNCTIONS: Readonly<Record<string, ListFunction>> = {
  sum: onList(sum),
  min: extreme("min", -1),
  max: extreme("max", 1),
  sort: onList((list) => sorted("sort", list, list)),
  distinct: onList(distinct),
  slice: onList((list, bounds) => (bounds.length === 0 ? undefined : slice(list, bounds)), 2),
  flatten: onList((list, [depth = 1n]) => flatten(list, depth), 1),
  reverse: (args) => {
    const [text, ...more] = args;
    return typeof text === "string" && more.length === 0 ? reverse(text) : onList(reversed)(args);
  },
  first: onList((list) => Optional.of(list.get(0))),
  last: onList((list) => Optional.of(list.get(list.size - 1))),
  "lists.range": ([count = null, ...more]) => {
    const number = whole(count);
    return typeof number === "bigint" && more.length === 0 ? range(number) : undefined;
  },
  unwrapOpt: onList(unwrapped),
  "optional.unwrap": onList(unwrapped),
  "sets.contains": onLists(includes),
  "sets.equivalent": onLists((left, right) => includes(left, right) && includes(right, left)),
  "sets.intersects": onLists((left, right) => {
    const known = DistinctValues.of(left);
    for (const item of right) if (known.has(item)) return true;
    return false;
  }),
};

/** `list.sortBy(x, key)`: the macro maps the list to its keys. */
export const sortByKeys = onLists((list, keys) => (list.size === keys.size ? sorted("sortBy", list, keys) : undefined));
