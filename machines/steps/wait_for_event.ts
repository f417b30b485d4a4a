// `wait_for_event`: waits for an event of a topic, or consumes one that was published since the run started. Several runs may
// consume the same event, each of them once.
import { defaulted, expression, handler, number, oneOf, optional, required, schema, text } from "../attribute/kinds.js";
import type { Template } from "../expression/index.js";
import type { Facts } from "../messages/fact.js";
import { eventTaken } from "../messages/owed.js";
import { isObject, type JsonObject } from "../values/json.js";
import { LONGEST_WAIT_MS } from "../values/time.js";
import { type EventWait, eventHeaders, eventHeadersOf, eventValue, pick, topicFault, topicOf } from "./event.js";
import { received } from "./payload.js";
import { durationOf, millis, stepType } from "./step.js";
import { nextOrTimeout, timeoutEdges, unusedTimeout } from "./wait_for_signal.js";
import { written } from "./words.js";

const EVENT_SCHEMA: JsonObject = {
  type: "object",
  required: ["topic", "headers", "payload"],
  properties: { topic: { type: "string" }, headers: { type: "object" }, payload: {} },
  additionalProperties: false,
};

const eventOf = ({ topic }: { topic: Template }) => `an event of the topic ${written(topic)}`;

export const waitForEvent = stepType({
  name: "wait_for_event",
  summary:
    "Waits for an event, or consumes the oldest one since the start of the run that the run has not consumed yet.",
  attributes: {
    topic: required(text, "The event's topic."),
    headers: optional(eventHeaders, "Name to text: the event must have all of these, with these values."),
    match: optional(expression, "An event matches only if truthy; sees `event` {topic, headers, payload}."),
    payload_schema: optional(
      schema,
      "The JSON Schema of the payload; another payload fails the step. `x-secret` marks secret parts.",
    ),
    lookback: defaulted(
      oneOf("run", "none"),
      "run",
      "`run`: also events since the start of the run. `none`: only events from now on.",
    ),
    timeout_ms: optional(number({ min: 0, max: LONGEST_WAIT_MS }), "The time to wait; unlimited if absent."),
    on_timeout: defaulted(
      handler,
      "fail",
      "`fail` (code `timeout`), `continue` with a null output, or the step to go to.",
    ),
  },
  output: "{topic, headers, payload}; null after a timeout with `continue` or a step",
  errors: "`timeout`, `schema_mismatch`",
  pauses: true,
  meetsOthers: () => true,
  mock: { output: "any", failures: "timeout", given: (event) => (isObject(event) ? (event.payload ?? null) : null) },
  check({ topic }, place) {
    const fault = topicFault(topic);
    if (fault !== undefined) place.at("topic").problem(fault);
  },
  edges: (attributes) => timeoutEdges(attributes, eventOf(attributes)),
  codes: ({ payload_schema }) => ["timeout", ...(payload_schema ? ["schema_mismatch"] : [])],
  times: ({ timeout_ms }) => (timeout_ms === undefined ? {} : { timeout_ms: millis(timeout_ms) }),
  waitsForGood: ({ timeout_ms }) => timeout_ms === undefined,
  doubts: ({ timeout_ms, on_timeout }) => unusedTimeout(timeout_ms, on_timeout),
  outputSchema: ({ on_timeout }) => (on_timeout === "fail" ? EVENT_SCHEMA : undefined),
  nextWhen: (attributes) => nextOrTimeout(attributes, eventOf(attributes)),
  enter({ attributes, plan, scope, facts, run }) {
    const { match, timeout_ms, lookback } = attributes;
    const topic = topicOf(attributes.topic, scope);
    const headers = eventHeadersOf(attributes.headers, scope);
    if (run.dryRun) return { kind: "done", output: { topic, headers, payload: {} } };
    const timeout = timeout_ms === undefined ? undefined : durationOf(timeout_ms, scope, "timeout_ms");
    let since: Facts["moment"];
    if (lookback === "none") {
      since = facts.moment;
      if (since === undefined) return { kind: "need", need: { kind: "moment" } };
    } else {
      if (facts.events === undefined) return { kind: "need", need: { kind: "events", topic, headers } };
      const { found } = pick(facts.events.page, match, scope);
      if (found) {
        const owed = eventTaken({ run, now: facts.now }, found.id);
        const got = received(plan, found.payload, facts);
        if ("error" in got) return { kind: "failed", error: got.error, owed };
        return { kind: "done", output: eventValue({ ...found, payload: got.payload }), owed };
      }
    }
    const wait: EventWait = {
      ...{ kind: "event", topic, headers, look: true },
      ...(since !== undefined && { since }),
      ...(timeout !== undefined && { dueAt: facts.now + timeout }),
    };
    return { kind: "wait", awaiting: "event", name: topic, wait };
  },
});
