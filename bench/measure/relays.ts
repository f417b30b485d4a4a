// What the nodes of the service say to each other on behalf of runs, as its metrics count it. A service without the metric, or with one
// node, says nothing.
import type { Figure } from "../result.js";

export type Relays = ReadonlyMap<string, number>;

const SAMPLE = /^saga_relayed_total\{what="([a-z]+)"\} (\S+)$/gm;

/** `page`: that of `/metrics`. */
export function relaysOn(page: string): Relays {
  return new Map([...page.matchAll(SAMPLE)].map(([, what = "", value]) => [what, Number(value)]));
}

/** Messages for each operation, by kind. */
export function relaysBetween(before: Relays, after: Relays, operations: number): Figure[] {
  return [...after].map(([what, count]) => {
    const value = (count - (before.get(what) ?? 0)) / Math.max(operations, 1);
    return { name: `relayed: ${what}`, value: Math.round(value * 1_000) / 1_000, unit: "each" };
  });
}
