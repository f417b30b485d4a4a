// `wait_for_event`: pauses the run until an event of a topic comes, or takes one that came since the run began. Any number of
// runs may take the same event, each of them once.
import { defaulted, expression, number, oneOf, optional, required, text } from "../definition/attribute.js";
import { LONGEST_WAIT_MS } from "../time.js";
import { type EventWait, eventHeaders, eventHeadersOf, eventValue, pick, topicFault, topicOf } from "./event.js";
import { durationOf, stepType } from "./step.js";
import { onTimeout, timeoutEdges } from "./wait_for_signal.js";

export const waitForEvent = stepType({
  name: "wait_for_event",
  summary: "Waits for an event, or takes the oldest that came since the run began and that the run has not taken yet.",
  attributes: {
    topic: required(text, "The event's topic."),
    headers: optional(eventHeaders, "Name to text: the event must have all of these, with these values."),
    match: optional(expression, "Takes an event only when truthy; sees `event` {topic, headers, payload}."),
    lookback: defaulted(
      oneOf("run", "none"),
      "run",
      "`run`: also what came since the run began. `none`: only what comes from now on.",
    ),
    timeout_ms: optional(number({ min: 0, max: LONGEST_WAIT_MS }), "How long to wait; for ever if absent."),
    on_timeout: defaulted(
      onTimeout,
      "fail",
      "`fail` (code `timeout`), `continue` with a null output, or the step to go to.",
    ),
  },
  output: "{topic, headers, payload}; null after a timeout that goes on",
  pauses: true,
  check({ topic }, place) {
    const fault = topicFault(topic);
    if (fault !== undefined) place.at("topic").problem(fault);
  },
  edges: ({ on_timeout }) => timeoutEdges(on_timeout),
  enter({ attributes, scope, facts, run }) {
    const { match, timeout_ms, lookback } = attributes;
    const topic = topicOf(attributes.topic, scope);
    const headers = eventHeadersOf(attributes.headers, scope);
    if (run.dryRun) return { kind: "done", output: { topic, headers, payload: {} } };
    const timeout = timeout_ms === undefined ? undefined : durationOf(timeout_ms, scope, "timeout_ms");
    let since: string | undefined;
    if (lookback === "none") {
      since = facts.newestEvent;
      if (since === undefined) return { kind: "need", need: { kind: "newest_event", topic } };
    } else {
      if (facts.events === undefined) return { kind: "need", need: { kind: "events", topic, headers } };
      const { found } = pick(facts.events.page, match, scope);
      if (found) return { kind: "done", output: eventValue(found), effects: [{ kind: "event.taken", id: found.id }] };
    }
    const wait: EventWait = {
      ...{ kind: "event", topic, headers, look: true },
      ...(since !== undefined && { since }),
      ...(timeout !== undefined && { dueAt: facts.now + timeout }),
    };
    return { kind: "wait", awaiting: "event", name: topic, wait };
  },
});
