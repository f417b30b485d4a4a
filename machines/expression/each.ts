// Evaluates an expression or a template for every item of a list, on one step budget. For steps that iterate over a list;
// evaluate.ts plans CEL's own loops.
import type { Json } from "../values/json.js";
import { ExpressionError } from "./errors.js";
import { isExhausted, spend, withFuel } from "./fuel.js";
import type { Scope } from "./values.js";

/** The cost of a round besides the nodes of the expression: its scope, its bindings and its result. */
const ROUND = 30;

/** Calls `one` for each item, with `item` and `index` in its scope. Each round pays before it runs. Throws ExpressionError. */
export function forEachItem<T>(
  items: readonly Json[],
  scope: Scope,
  { weight }: { readonly weight: number },
  one: (round: Scope) => T,
): T[] {
  return withFuel(() =>
    items.map((item, index) => {
      spend(ROUND + weight);
      return one({ ...scope, item, index });
    }),
  );
}

export interface Search<T> {
  readonly found?: T;
  /** The number of items that are done with. Fewer than all if an item was found, or the budget ran out. */
  readonly tried: number;
  /** The first item whose test failed, and why. The item is done with. */
  readonly fault?: { readonly item: T; readonly message: string };
}

/**
 * The first item that passes, with one step budget for all tests. An item whose test throws does not pass. An item at which the
 * budget runs out is tried again with a full budget; only an item that exhausts a full budget by itself is at fault.
 */
export function firstItem<T>(items: readonly T[], weight: number, test: (item: T) => boolean): Search<T> {
  return withFuel(() => {
    let fault: Search<T>["fault"];
    for (const [index, item] of items.entries()) {
      try {
        spend(ROUND + weight);
        if (test(item)) return { found: item, tried: index + 1, fault };
      } catch (error) {
        if (!(error instanceof ExpressionError)) throw error;
        if (isExhausted() && index > 0) return { tried: index, fault };
        fault ??= { item, message: error.message };
        if (isExhausted()) return { tried: 1, fault };
      }
    }
    return { tried: items.length, fault };
  });
}
