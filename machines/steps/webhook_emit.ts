// `webhook_emit`: sends a signed webhook. Its commit owes the message, which is delivered at least once and independent of the run.
import { naming, optional, required, text, value } from "../attribute/kinds.js";
import { postOwed } from "../messages/owed.js";
import { type Json, type JsonObject, measure } from "../values/json.js";
import { formatInstant } from "../values/time.js";
import { headers, headersOf, url, urlOf } from "./http.js";
import { failed, stepType, textOf } from "./step.js";

export const webhookEmit = stepType({
  name: "webhook_emit",
  summary: "Sends a signed webhook; the run does not wait for it.",
  attributes: {
    url: required(url, "http or https, a public address unless the operator allows another."),
    event_type: required(text, "The message's `type`."),
    payload: optional(value, "The message's `data`; {} if absent."),
    headers: optional(headers, "Name to text; null leaves a header out."),
    secret_ref: optional(naming("secret", text), "The name of the secret that signs it; the service's own if absent."),
  },
  dryRunSkips: () => true,
  enter({ attributes, scope, facts, run, plan, entry }) {
    const { secret_ref, payload } = attributes;
    const message: JsonObject = {
      type: textOf(attributes.event_type, scope, "event_type"),
      timestamp: formatInstant(facts.now),
      data: payload ? payload.render(scope) : {},
    };
    const post: JsonObject = {
      url: urlOf(attributes.url, scope) as Json,
      headers: headersOf(attributes.headers, scope) as JsonObject,
      message,
      ...(secret_ref && { secret_ref: textOf(secret_ref, scope, "secret_ref") }),
    };
    const size = measure(post);
    if (typeof size !== "number") return failed("expression_error", `the webhook${size.path} ${size.message}`);
    const { output: limit } = facts.limits;
    if (size > limit) return failed("limit_exceeded", `the webhook is over ${limit} characters of JSON`);
    if (run.dryRun) return { kind: "skipped", reason: "dry_run" };
    const id = facts.uuid(run.id, `${run.id}/${plan.id}/${entry}/webhook`);
    return { kind: "done", owed: postOwed({ run, now: facts.now }, id, "webhook", post) };
  },
});
