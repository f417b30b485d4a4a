// `emit_event`: publishes an event. Its row rides in the run's own commit, so it is published exactly once; whoever waits for it
// is told at least once.
import { optional, required, text, value } from "../definition/attribute.js";
import { measure } from "../json.js";
import { eventHeaders, eventHeadersOf, topicFault, topicOf } from "./event.js";
import { failed, stepType } from "./step.js";

export const emitEvent = stepType({
  name: "emit_event",
  summary: "Publishes an event to whoever waits for its topic; the run does not wait for that.",
  attributes: {
    topic: required(text, "The event's topic."),
    payload: optional(value, "What the event says; {} if absent."),
    headers: optional(eventHeaders, "Name to text; null leaves a header out."),
  },
  check({ topic }, place) {
    const fault = topicFault(topic);
    if (fault !== undefined) place.at("topic").problem(fault);
  },
  enter({ attributes, scope, facts, run, plan, entry }) {
    const topic = topicOf(attributes.topic, scope);
    const headers = eventHeadersOf(attributes.headers, scope);
    const payload = attributes.payload ? attributes.payload.render(scope) : {};
    const size = measure(payload);
    if (typeof size !== "number") return failed("expression_error", `the payload${size.path} ${size.message}`);
    const { output: most } = facts.limits;
    if (size > most) return failed("limit_exceeded", `the payload is over ${most} characters of JSON`);
    if (run.dryRun) return { kind: "skipped", reason: "dry_run" };
    // An id of an event must never change: a replay publishes the same one.
    const id = facts.uuid(run.id, `${run.id}/${plan.id}/${entry}/event`);
    const { tenantId } = run;
    const event = { id, topic, headers, payload, ...(tenantId !== undefined && { tenantId }) };
    return { kind: "done", effects: [{ kind: "event.published", event }] };
  },
});
