// What values cost that are read, written or copied as a whole, in units of the step budget.
import { type CelMap, type CelValue, isCelList, isCelMap, isCelUint } from "@bufbuild/cel";
import { ExpressionError } from "./errors.js";
import { MAX_TEXT_CHARS, spend } from "./fuel.js";
import { Optional } from "./optional.js";

/** Refuses a text that is too long before it is constructed, and pays for its construction. */
export function makeText(chars: number): void {
  if (chars > MAX_TEXT_CHARS) throw new ExpressionError("a text made by the expression is too large");
  spend(chars >>> 6);
}

/** The names of a map are listed to count them. */
export function paidSize({ size }: CelMap): number {
  spend(size * 2);
  return size;
}

/** Pays for sorting: a comparison takes up to 100 ns, and there are as many as items times the digits of their number. */
export function paySort(items: number): void {
  spend(items * Math.ceil(Math.log2(items + 1) * 1.5));
}

/** Pays `units` for every element of a value that is about to be written or copied as a whole. */
export function weigh(value: CelValue, units: number): void {
  spend(units);
  if (typeof value === "string" || value instanceof Uint8Array) makeText(value.length);
  else if (value instanceof Optional) weigh(value.value ?? null, units);
  else if (isCelList(value)) for (const item of value) weigh(item, units);
  else if (isCelMap(value)) {
    for (const [key, item] of value) {
      weigh(isCelUint(key) ? key.value : key, units);
      weigh(item, units);
    }
  }
}
