// `emit_event`: publishes an event. Its row is part of the run's commit, so it is published exactly once and offered to waiting
// runs at least once.
import { optional, required, text, value } from "../attribute/kinds.js";
import { eventPublished } from "../messages/owed.js";
import { measure } from "../values/json.js";
import { eventHeaders, eventHeadersOf, topicFault, topicOf } from "./event.js";
import { failed, stepType } from "./step.js";

export const emitEvent = stepType({
  name: "emit_event",
  summary: "Publishes an event to the runs that wait for its topic; the run does not wait for them.",
  attributes: {
    topic: required(text, "The event's topic."),
    payload: optional(value, "The event's data; {} if absent."),
    headers: optional(eventHeaders, "Name to text; null leaves a header out."),
  },
  check({ topic }, place) {
    const fault = topicFault(topic);
    if (fault !== undefined) place.at("topic").problem(fault);
  },
  meetsOthers: () => true,
  dryRunSkips: () => true,
  enter({ attributes, scope, facts, run, plan, entry }) {
    const topic = topicOf(attributes.topic, scope);
    const headers = eventHeadersOf(attributes.headers, scope);
    const payload = attributes.payload ? attributes.payload.render(scope) : {};
    const size = measure(payload);
    if (typeof size !== "number") return failed("expression_error", `the payload${size.path} ${size.message}`);
    const { output: limit } = facts.limits;
    if (size > limit) return failed("limit_exceeded", `the payload is over ${limit} characters of JSON`);
    if (run.dryRun) return { kind: "skipped", reason: "dry_run" };
    // The form of an event's id must never change: a replay publishes the same event.
    const id = facts.uuid(run.id, `${run.id}/${plan.id}/${entry}/event`);
    const { tenantId } = run;
    const event = { id, topic, headers, payload, ...(tenantId !== undefined && { tenantId }) };
    return { kind: "done", owed: eventPublished({ run, now: facts.now }, event) };
  },
});
