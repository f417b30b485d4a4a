// The scope of a fork as rows: small variables in its manifest, large ones by the hash of their content. A family has each content once, so a
// fork writes what is new and not what it sees (law 15): an item that forks again refers to the values of its parents.
import { createHash } from "node:crypto";
import type { Json, JsonObject, Row } from "../../machines/index.js";

/** Characters. A shorter value, or manifest, is not worth a row of its own. */
const SMALL = 512;

/**
 * The manifest, {own: {name: value}, shared: {name: hash}}, and the values that it refers to. A storage format. `holder`: the run at the top of the
 * family: its starting inputs are those of the scope, and the family shares kept values.
 */
export function keptScope(
  scope: Pick<Row<"scope">, "run_id" | "entry" | "holder">,
  variables: JsonObject,
): { readonly scope: Row<"scope">; readonly values: readonly Row<"scope_value">[] } {
  const own: JsonObject = {};
  const shared: Record<string, string> = {};
  const values = new Map<string, Json>();
  for (const [name, value] of Object.entries(variables)) {
    const text = JSON.stringify(value);
    if (text.length <= SMALL) define(own, name, value);
    else define(shared, name, keep(values, text, value));
  }
  const manifest = { own, shared };
  const text = JSON.stringify(manifest);
  const { run_id, holder } = scope;
  return {
    scope:
      text.length <= SMALL
        ? { ...scope, manifest, manifest_hash: undefined }
        : { ...scope, manifest: undefined, manifest_hash: keep(values, text, manifest) },
    values: [...values].map(([hash, value]) => ({ run_id, holder, hash, value })),
  };
}

function keep(values: Map<string, Json>, text: string, value: Json): string {
  const hash = contentHash(text);
  values.set(hash, value);
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
