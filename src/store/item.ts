// Items: rows as clients see them.
import type { JsonObject } from "../../machines/index.js";

/** Members without a value are omitted, never null; times are RFC 3339 with milliseconds. */
export function present(members: object): JsonObject {
  const valued = Object.entries(members).filter(([, value]) => value !== null && value !== undefined);
  return Object.fromEntries(valued.map(([name, value]) => [name, textOfTime(value)])) as JsonObject;
}

function textOfTime(value: unknown): unknown {
  return value instanceof Date ? value.toISOString() : value;
}
