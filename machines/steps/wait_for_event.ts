// `wait_for_event`: waits for an event of a topic, or consumes one that was published since the run started. Several runs may
// consume the same event, each of them once.
import { defaulted, expression, handler, number, oneOf, optional, required, text } from "../attribute/kinds.js";
import type { Template } from "../expression/index.js";
import type { Facts } from "../messages/fact.js";
import { eventTaken } from "../messages/owed.js";
import { LONGEST_WAIT_MS } from "../values/time.js";
import { type EventWait, eventHeaders, eventHeadersOf, eventValue, pick, topicFault, topicOf } from "./event.js";
import { durationOf, stepType } from "./step.js";
import { nextOrTimeout, timeoutEdges } from "./wait_for_signal.js";
import { written } from "./words.js";

const eventOf = ({ topic }: { topic: Template }) => `an event of the topic ${written(topic)}`;

export const waitForEvent = stepType({
  name: "wait_for_event",
  summary:
    "Waits for an event, or consumes the oldest one since the start of the run that the run has not consumed yet.",
  attributes: {
    topic: required(text, "The event's topic."),
    headers: optional(eventHeaders, "Name to text: the event must have all of these, with these values."),
    match: optional(expression, "An event matches only if truthy; sees `event` {topic, headers, payload}."),
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
  errors: "`timeout`",
  pauses: true,
  meetsOthers: () => true,
  mock: { output: "any", failures: "timeout" },
  check({ topic }, place) {
    const fault = topicFault(topic);
    if (fault !== undefined) place.at("topic").problem(fault);
  },
  edges: (attributes) => timeoutEdges(attributes, eventOf(attributes)),
  nextWhen: (attributes) => nextOrTimeout(attributes, eventOf(attributes)),
  enter({ attributes, scope, facts, run }) {
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
      if (found)
        return { kind: "done", output: eventValue(found), owed: eventTaken({ run, now: facts.now }, found.id) };
    }
    const wait: EventWait = {
      ...{ kind: "event", topic, headers, look: true },
      ...(since !== undefined && { since }),
      ...(timeout !== undefined && { dueAt: facts.now + timeout }),
    };
    return { kind: "wait", awaiting: "event", name: topic, wait };
  },
});
