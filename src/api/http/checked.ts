// The outcome of checking a part of a request, and the JSON paths that name the places of faults.
import type { SagaError } from "../../errors.js";

/** In the form that Fastify takes: the value replaces what was sent. */
export type Checked = { readonly value: unknown } | { readonly error: SagaError };

/** A JSON path one step deeper. */
export function jsonPath(path: string, key: string | number): string {
  if (/^\d+$/.test(String(key))) return `${path}[${key}]`;
  return /^[A-Za-z_]\w*$/.test(String(key)) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`;
}

/** The JSON path of a JSON pointer that starts at `from`. */
export function pathOfPointer(pointer: string, from = "$"): string {
  const keys = pointer.split("/").slice(1);
  return keys.map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~")).reduce(jsonPath, from);
}
