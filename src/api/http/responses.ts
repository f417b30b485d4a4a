// Responses in the OpenAPI document. They are documentation, not a filter: answers are sent as they were built.
import type { Resource } from "../schemas.js";

export const ref = (name: Resource) => ({ $ref: `${name}#` });

/** One resource, as the description says. */
export const one = (description: string, name: Resource) => ({ description, ...ref(name) });

export const page = (description: string, name: Resource) => ({
  description,
  type: "object",
  required: ["items", "total", "limit", "offset"],
  properties: {
    items: { type: "array", items: ref(name) },
    total: { type: "integer" },
    total_is_lower_bound: { type: "boolean", description: "There are at least this many." },
    truncated: { type: "boolean", description: "The page ended before its limit, at 8 MiB." },
    next_offset: { type: "integer", description: "Of a truncated page: where the next one begins." },
    limit: { type: "integer" },
    offset: { type: "integer" },
    next_cursor: { type: "string", description: "Present if there are more items." },
  },
});

/** An object with these members, of which these may be absent. */
export function object(description: string, properties: object, optional: readonly string[] = []) {
  const required = Object.keys(properties).filter((name) => !optional.includes(name));
  return { description, type: "object", required, properties };
}

/** An answer without a body. */
export const empty = (description: string) => ({ description, type: "null" });

const MEANING: Readonly<Record<number, string>> = {
  400: "Malformed or not valid; `details` names the places.",
  403: "The credential does not allow it, or a browser says that another site asks, which is not allowed.",
  404: "There is no such resource.",
  409: "It conflicts with what is stored.",
  413: "The body is too large.",
  415: "The body is not application/json, or has a Content-Encoding.",
  421: "The header Host names another host.",
  422: "Well formed, but refused by a schema or by its content.",
  429: "Too many wait for a slot of the run's concurrency key, or for its turn under its rate limit, already, or as on every route.",
  426: "The route is a WebSocket.",
  500: "An internal error.",
  501: "The service is composed without what the route needs.",
  503: "Load is shed, the store does not answer, or the outcome is not known yet: send it again.",
};

/** What any route may answer: a foreign site or host is refused before a route is looked for. */
const EVERYWHERE = [403, 421, 500, 503];

/** What any route may answer that is not public, beside those. */
export const ACCESS_REFUSALS = {
  401: "The credential is missing or not accepted.",
  429: "Too many requests with this credential, or too many refused credentials from this address.",
};

/** The responses of a route: its own, its errors, and those of all routes. */
export function responses(own: Readonly<Record<number, object>>, ...errors: readonly number[]) {
  const faults = [...errors, ...EVERYWHERE].map((status) => [
    status,
    { description: MEANING[status], ...ref("Error") },
  ]);
  return { ...Object.fromEntries(faults), ...own };
}
