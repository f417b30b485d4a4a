// Items: rows as clients see them.
import type { JsonObject } from "../../../machines/index.js";

/** Members without a value are omitted, never null; times are RFC 3339 with milliseconds. */
export function present(members: object): JsonObject {
  const item: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(members))
    if (value !== null && value !== undefined) item[name] = textOfTime(value);
  return item as JsonObject;
}

function textOfTime(value: unknown): unknown {
  return value instanceof Date ? value.toISOString() : value;
}
