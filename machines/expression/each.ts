// One expression or template for every item of a list, on one step budget. Not CEL's own loops: those are rewritten by
// analyse.ts; this is for steps that go through a list themselves.
import type { Json } from "../json.js";
import { ExpressionError } from "./errors.js";
import { burn, isSpent, spend } from "./fuel.js";
import type { Scope } from "./values.js";

/** A scope, its bindings, a plan begun and its result written: what a round takes beside the expression's own nodes. */
const ROUND = 30;

/** `one` for each item, with `item` and `index` in its scope. Each round pays before it runs. Throws ExpressionError. */
export function forEachItem<T>(
  items: readonly Json[],
  scope: Scope,
  { weight }: { readonly weight: number },
  one: (round: Scope) => T,
): T[] {
  return burn(() =>
    items.map((item, index) => {
      spend(ROUND + weight);
      return one({ ...scope, item, index });
    }),
  );
}

export interface Search<T> {
  readonly found?: T;
  /** How many items were looked at for good: fewer than there are where one was found, or the budget ran out. */
  readonly tried: number;
  /** The first item that could not be tested, and why. It counts as looked at. */
  readonly fault?: { readonly item: T; readonly message: string };
}

/**
 * The first item that passes, all tests on one step budget. An item whose test throws does not pass. Where the budget ends on
 * the way, the item is to be tried again on a full one; only an item that uses up a full budget alone is at fault itself.
 */
export function firstItem<T>(items: readonly T[], weight: number, test: (item: T) => boolean): Search<T> {
  return burn(() => {
    let fault: Search<T>["fault"];
    for (const [index, item] of items.entries()) {
      try {
        spend(ROUND + weight);
        if (test(item)) return { found: item, tried: index + 1, fault };
      } catch (error) {
        if (!(error instanceof ExpressionError)) throw error;
        if (isSpent() && index > 0) return { tried: index, fault };
        fault ??= { item, message: error.message };
        if (isSpent()) return { tried: 1, fault };
      }
    }
    return { tried: items.length, fault };
  });
}
