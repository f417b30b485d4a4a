// The scope of a fork as rows: small variables in its manifest, large ones by the hash of their content. A family has each content once, so a
// fork writes what is new and not what it sees (law 15): an item that forks again refers to the values of its parents.
import { createHash } from "node:crypto";
import type { JsonObject } from "../../machines/index.js";
import type { ScopeRow } from "../store/commit/rows.js";

/** Characters. A shorter value, or manifest, is not worth a row of its own. */
const SMALL = 512;

/** The manifest, {own: {name: value}, shared: {name: hash}}, and the values that it refers to. A storage format. */
export function keptScope(variables: JsonObject): Pick<ScopeRow, "manifest" | "values"> {
  const own: JsonObject = {};
  const shared: Record<string, string> = {};
  const values = new Map<string, string>();
  for (const [name, value] of Object.entries(variables)) {
    const text = JSON.stringify(value);
    if (text.length <= SMALL) define(own, name, value);
    else define(shared, name, keep(values, text));
  }
  const text = JSON.stringify({ own, shared });
  const manifest = text.length <= SMALL ? text : { hash: keep(values, text) };
  return { manifest, values: [...values].map(([hash, value]) => ({ hash, value })) };
}

function keep(values: Map<string, string>, text: string): string {
  const hash = contentHash(text);
  values.set(hash, text);
  return hash;
}

/** 128 bits of SHA-256, in a column of type uuid. Must never change: releases that run side by side share values by it. */
function contentHash(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 32);
}

/** An assignment to `__proto__` would set the prototype. */
function define<T>(target: Record<string, T>, name: string, value: T): void {
  Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true });
}
