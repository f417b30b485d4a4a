// `http_request`: one HTTP request that the service itself makes. It is a call like that of an action: decide/ treats its
// attempts, its backoff and its undo in the same way. This file evaluates the request.
import { list } from "../attribute/composite.js";
import {
  defaulted,
  flag,
  type Kind,
  naming,
  number,
  object,
  oneOf,
  optional,
  required,
  schema,
  text,
  value,
} from "../attribute/kinds.js";
import { asText, ExpressionError } from "../expression/index.js";
import { type Json, type JsonObject, measure } from "../values/json.js";
import { completeRetry } from "../values/retry.js";
import { holdsSecret, isSecret, MASK, SECRET, type SecretText, spread } from "../values/secret.js";
import { LONGEST_WAIT_MS } from "../values/time.js";
import { cappedBackoff, resolveRetry } from "./action.js";
import { headers, headersOf, plainText, url, urlOf } from "./http.js";
import { durationOf, failed, isNull, millis, objectOf, stepType, textOf } from "./step.js";

/** The longest attempt: a request holds one of the node's slots until it is answered. */
const LONGEST_ATTEMPT_MS = 600_000;

const BODILESS: ReadonlySet<string> = new Set(["GET", "HEAD"]);

const expectedStatus: Kind<number | string> = {
  name: "status | class",
  written: {
    anyOf: [
      { type: "integer", minimum: 200, maximum: 599 },
      { type: "string", pattern: "^[2-5]xx$" },
    ],
  },
  parse(raw, place) {
    if (typeof raw === "string" && /^[2-5]xx$/.test(raw)) return raw;
    if (typeof raw === "number" && Number.isInteger(raw) && raw >= 200 && raw <= 599) return raw;
    return place.problem("must be a status from 200 to 599, or a class such as 2xx");
  },
};

export const httpRequest = stepType({
  name: "http_request",
  summary: "Makes an HTTP request from the service itself.",
  attributes: {
    url: required(url, "http or https, a public address unless the operator allows another."),
    method: defaulted(oneOf("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"), "GET", "The method."),
    headers: optional(headers, "Name to text; null leaves a header out."),
    query: optional(object, "Added to the query of the URL; a list repeats its name, null leaves it out."),
    body: optional(value, "A string is sent as it is, any other value as JSON; not with GET and HEAD."),
    timeout_ms: defaulted(
      number({ min: 1, max: LONGEST_WAIT_MS }),
      30_000,
      "Per attempt, with all its redirects; at most 600000.",
    ),
    expected_status: defaulted(list(expectedStatus, { min: 1, max: 100 }), ["2xx"], "What counts as a success."),
    output_schema: optional(
      schema,
      "The JSON Schema of the output; another response fails the step. `x-secret` marks secret parts.",
    ),
    follow_redirects: defaulted(flag, false, "Follow up to five; each address is checked anew."),
    secret_ref: optional(naming("secret", text), "The name of a secret that the service adds as a header."),
  },
  output: "{status, headers, body}",
  errors: "`http_<status>`, `http_network`, `timeout`, `schema_mismatch`, `limit_exceeded`, `not_found`",
  retries: true,
  effectful: true,
  mock: {
    output: "object",
    failures: "any",
    answer: (given) => ({ status: 200, headers: {}, body: null, ...(given as JsonObject) }),
  },
  outputSchema: () => ({
    type: "object",
    required: ["status", "headers", "body"],
    properties: { status: { type: "integer" }, headers: { type: "object" }, body: {} },
    additionalProperties: false,
  }),
  times: ({ timeout_ms }) => ({ timeout_ms: millis(timeout_ms) }),
  doubts: (_, { plan }) => cappedBackoff(plan),
  dryRunSkips: () => true,
  check({ method, body, timeout_ms: timeout }, place) {
    if (body && !isNull(body) && BODILESS.has(method)) place.at("body").problem(`a ${method} has no body`);
    if (typeof timeout === "number" && timeout > LONGEST_ATTEMPT_MS)
      place.at("timeout_ms").problem(`must be at most ${LONGEST_ATTEMPT_MS}`);
  },
  enter({ attributes, scope, facts, run, plan }) {
    const { method, body, expected_status, follow_redirects, secret_ref } = attributes;
    const address = urlOf(attributes.url, scope);
    const target = withQuery(address, spread(objectOf(attributes.query, scope, "query")) as JsonObject);
    const request = {
      method,
      url: target,
      headers: headersOf(attributes.headers, scope),
      ...(body && !BODILESS.has(method) && { body: body.render(scope) }),
      expectedStatus: expected_status,
      followRedirects: follow_redirects,
      ...(secret_ref && { secretRef: textOf(secret_ref, scope, "secret_ref") }),
    };
    const size = measure(request);
    if (typeof size !== "number") return failed("expression_error", `the request${size.path} ${size.message}`);
    const { output: limit } = facts.limits;
    if (size > limit) return failed("limit_exceeded", `the request is over ${limit} characters of JSON`);
    const timeoutMs = durationOf(attributes.timeout_ms, scope, "timeout_ms", 1);
    if (timeoutMs > LONGEST_ATTEMPT_MS)
      return failed("limit_exceeded", `timeout_ms is over ${LONGEST_ATTEMPT_MS}, the most for an http_request`);
    const retry = plan.retry ? resolveRetry(plan.retry, scope) : completeRetry(undefined);
    if (run.dryRun) return { kind: "skipped", reason: "dry_run", output: {} };
    const whom = { service: "http_request", action: hostOf(address), version: 0, transport: "request" } as const;
    const workflowId = run.workflowId;
    return { kind: "call", call: { ...whom, workflowId, inputs: {}, request, timeoutMs, retry } };
  },
});

/** Secret if any part of it is. */
function withQuery(url: SecretText, query: JsonObject): SecretText {
  const target = targetOf(plainText(url) ?? "", query);
  return isSecret(url as Json) || holdsSecret(query) ? { [SECRET]: target } : target;
}

function targetOf(url: string, query: JsonObject): string {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    [spread(value)]
      .flat()
      .flatMap((item: Json) => (item === null ? [] : [`${encoded(name)}=${encoded(asText(item))}`])),
  );
  // A fragment is never sent.
  const [address = ""] = url.split("#");
  if (pairs.length === 0) return address;
  const joint = !address.includes("?") ? "?" : /[?&]$/.test(address) ? "" : "&";
  return `${address}${joint}${pairs.join("&")}`;
}

function encoded(text: string): string {
  if (typeof measure(text) !== "number") throw new ExpressionError("query has text that cannot be encoded");
  return encodeURIComponent(text);
}

/** Requests are queued fairly by host; those to a secret URL together. */
function hostOf(url: SecretText): string {
  if (typeof url !== "string") return MASK;
  return /^https?:\/\/([^/?#\\]*)/i.exec(url)?.[1]?.toLowerCase() ?? "";
}
