// The steps about events: wait_for_event, emit_event. What two runs make of one event, and what becomes of events that nobody
// could be told of.
import { describe, expect, it } from "vitest";
import { pausedReason, Schemas, secret, wakeAt } from "../../../machines/index.js";
import { violations } from "../chain.js";
import type { Simulation } from "../simulation.js";
import { attribute, chartOf, type Draft, failureOf, finish, metadataOf, problemsOf, start, typesOf } from "./rig.js";

const hear = (more: Record<string, unknown> = {}): Draft => ({ type: "wait_for_event", topic: "sent", ...more });
const nap: Draft = { type: "wait_duration", duration_ms: 10, next: "s2" };
const TOPIC_RULE = "topic must be 1 to 255 of A-Z a-z 0-9 _ . : / -";
/** What the run has taken, in its order. */
const taken = ({ world, id }: Simulation) => [...world.taken].map((take) => take.replace(`${id}/`, ""));

describe("wait_for_event and emit_event", () => {
  attribute("wait_for_event.topic", "is a template; only an event of that topic is taken", () => {
    const run = start([hear({ topic: "order/${inputs.id}.sent" })], { inputs: { id: 7 } });
    expect([run.state, pausedReason(run.context)]).toEqual(["paused", "event"]);
    expect(metadataOf(run, "step.paused")).toEqual({ awaiting: "event", name: "order/7.sent" });
    expect(wakeAt(run.context)).toBeUndefined();
    run.publish("order/8.sent");
    expect(run.state).toBe("paused");
    run.publish("order/7.sent", { sum: 3 });
    expect(run.context.output).toEqual({ topic: "order/7.sent", headers: {}, payload: { sum: 3 } });
    expect(violations(run)).toEqual([]);
    expect(problemsOf({ type: "wait_for_event" })).toEqual([".topic: is required"]);
    expect(problemsOf(hear({ topic: "a b" }))).toEqual([`.${TOPIC_RULE.replace(" ", ": ")}`]);
    for (const topic of ["a b", "", "x".repeat(256)])
      expect(failureOf(finish([hear({ topic: `\${'${topic}'}` })]))).toBe(`expression_error: ${TOPIC_RULE}`);
  });

  attribute("wait_for_event.headers", "all of them must be the event's; values are templates and become text", () => {
    const run = start([hear({ headers: { region: "eu", n: "${inputs.n}", none: "${null}" } })], { inputs: { n: 4 } });
    const others: Record<string, string>[] = [{}, { region: "eu" }, { region: "us", n: "4" }, { n: "4" }];
    for (const headers of others) run.publish("sent", {}, headers);
    expect(run.state).toBe("paused");
    run.publish("sent", {}, { region: "eu", n: "4", more: "x" });
    expect(run.context.output).toMatchObject({ headers: { region: "eu", n: "4", more: "x" } });
    expect(problemsOf(hear({ headers: { "a b": "x" } }))).toEqual([
      '.headers["a b"]: must have a name of 1 to 128 of A-Z a-z 0-9 _ . : -',
    ]);
    expect(problemsOf(hear({ headers: 7 }))).toEqual([".headers: must be an object"]);
    for (const name of ["saga-tenant", "Saga-Tenant"])
      expect(problemsOf(hear({ headers: { [name]: "x" } }))).toEqual([
        `.headers["${name}"]: is the service's own header: it names the tenant of an event`,
      ]);
    const refused = (headers: unknown) =>
      failureOf(finish([hear({ headers: "${inputs}" })], { inputs: headers as never }));
    expect(refused({ a: [1] })).toBe("expression_error: headers.a must be a string");
    expect(refused({ "SAGA-TENANT": "x" })).toBe(
      "expression_error: headers.SAGA-TENANT is the service's own header: it names the tenant of an event",
    );
    expect(refused({ "a b": "x" })).toBe(
      "expression_error: a member of headers must have a name of 1 to 128 of A-Z a-z 0-9 _ . : -",
    );
    expect(refused({ a: "x".repeat(1_025) })).toBe("expression_error: headers.a must have at most 1024 characters");
    const many = Object.fromEntries(Array.from({ length: 33 }, (_, index) => [`h${index}`, "x"]));
    expect(refused(many)).toBe("expression_error: the headers must have at most 32 members");
  });

  attribute("wait_for_event.match", "takes an event only when truthy; sees `event` beside all else", () => {
    const match = "event.topic == 'sent' && event.headers.of == inputs.of && event.payload.n > vars.least";
    const run = start([{ type: "set_var", name: "least", value: 2, next: "s2" }, hear({ match })], {
      inputs: { of: "me" },
    });
    run.publish("sent", { n: 3 }, { of: "you" });
    run.publish("sent", { n: 2 }, { of: "me" });
    expect(run.state).toBe("paused");
    run.publish("sent", { n: 3 }, { of: "me" });
    expect(run.context.output).toMatchObject({ payload: { n: 3 } });
    expect(problemsOf(hear({ match: "event." }))[0]).toMatch(/^\.match: /);
  });

  attribute(
    "wait_for_event.match",
    "an event that it fails on is passed over and recorded; the run goes on waiting",
    () => {
      const run = start([hear({ match: "event.payload.n > 1" })]);
      const id = run.publish("sent", {});
      expect(run.state).toBe("paused");
      expect(metadataOf(run, "log")).toEqual({
        kind: "event_not_matched",
        event_id: id,
        message: 'missing key "n": event.payload.n > 1 in steps[0].match',
      });
      run.publish("sent", { n: 2 });
      expect(run.state).toBe("succeeded");

      const late = start([nap, hear({ match: "event.payload.n > 1" })]);
      for (const n of ["x", null, 0, 1, 5]) late.publish("sent", { n });
      late.elapse();
      expect(late.context.output).toMatchObject({ payload: { n: 5 } });
    },
  );

  attribute("wait_for_event.match", "an event without what it must equal is not offered to the run", () => {
    const run = start([hear({ match: "event.payload.of == inputs.of && event.payload.n > 1" })], {
      inputs: { of: "me" },
    });
    expect([...run.world.waits.values()]).toMatchObject([
      { topic: "sent", headers: {}, conditions: { entry: 1, equal: { '["payload","of"]': "me" } } },
    ]);
    run.publish("sent", {});
    run.publish("sent", { of: "you", n: 2 });
    expect(typesOf(run, "s")).toEqual(["step.started", "step.paused"]);
    const id = run.publish("sent", { of: "me" });
    expect(metadataOf(run, "log")).toEqual({
      kind: "event_not_matched",
      event_id: id,
      message: 'missing key "n": event.payload.of == inputs.of && event.payload.n > 1 in steps[0].match',
    });
    run.publish("sent", { of: "me", n: 2 });
    expect(run.context.output).toMatchObject({ payload: { of: "me", n: 2 } });
  });

  attribute("wait_for_event.match", "a hostile one ends with its budget, event by event, and is recorded", () => {
    const spendsAll = "[1,2,3,4,5,6,7,8,9,10].all(a, event.payload.all(b, event.payload.all(c, b + c >= 0)))";
    const run = start([nap, hear({ match: spendsAll, lookback: "run" })]);
    const list = Array.from({ length: 400 }, (_, index) => index);
    for (const payload of [list, [], list]) run.publish("sent", payload);
    run.elapse();
    expect(run.context.output).toMatchObject({ payload: [] });
    expect(metadataOf(run, "log", "s2")).toMatchObject({
      message: `the expression used up its step budget: ${spendsAll} in steps[1].match`,
    });
  });

  attribute("wait_for_event.payload_schema", "fails the step on another payload, and marks secret parts", () => {
    const schema = { type: "object", properties: { pin: { type: "string", "x-secret": true } }, required: ["pin"] };
    const run = start([hear({ payload_schema: schema })], { schemas: new Schemas() });
    run.publish("sent", { pin: "1234", plain: 1 });
    expect(run.context.output).toMatchObject({ payload: { pin: secret("1234"), plain: 1 } });
    const earlier = start([nap, hear({ payload_schema: schema })], { schemas: new Schemas() });
    earlier.publish("sent", { pin: 1 });
    earlier.elapse();
    expect(failureOf(earlier)).toBe("schema_mismatch: the payload: /pin must be a string");
    expect(taken(earlier)).toEqual(["event-0"]);
    expect(problemsOf(hear({ payload_schema: 1 }))).toEqual([".payload_schema: must be an object (a JSON Schema)"]);
  });

  attribute(
    "wait_for_event.lookback",
    "`run` also takes what came since the run began, the oldest first, each once",
    () => {
      const run = start([nap, hear({ next: "s3" }), hear({ next: "s4" }), hear()]);
      for (const n of [1, 2]) run.publish("sent", { n });
      run.publish("made");
      run.elapse();
      expect(taken(run)).toEqual(["event-0", "event-1"]);
      expect([run.state, run.context.step]).toEqual(["paused", "s4"]);
      expect(typesOf(run, "s2")).toEqual(["step.started", "step.succeeded"]);
      expect(problemsOf(hear({ lookback: "all" }))).toEqual([".lookback: must be one of run, none"]);
    },
  );

  attribute("wait_for_event.lookback", "`run` looks through all there is, page by page", () => {
    const run = start([nap, hear({ match: "event.payload.n == 8" })], { budget: 1, reload: true });
    for (let n = 0; n < 9; n++) run.publish("sent", { n });
    run.elapse();
    expect(run.context.output).toMatchObject({ payload: { n: 8 } });
    expect(run.rows.filter(({ type }) => type === "log")).toEqual([]);
  });

  attribute("wait_for_event.lookback", "`none` takes only what comes from then on", () => {
    const run = start([nap, hear({ lookback: "none" })]);
    const before = run.publish("sent", { n: 1 });
    run.elapse();
    expect(run.state).toBe("paused");
    // It may be told late of one that came before.
    run.command({ type: "event", eventId: before });
    expect(run.state).toBe("paused");
    run.publish("sent", { n: 2 });
    expect(run.context.output).toMatchObject({ payload: { n: 2 } });
  });

  attribute("wait_for_event.timeout_ms", "is unlimited if absent; a timeout fails with code timeout", () => {
    const run = start([hear({ timeout_ms: "${inputs.ms}" })], { inputs: { ms: 1000 } });
    expect(metadataOf(run, "step.paused")?.wakeup_at).toBe("2023-11-14T22:13:21.000Z");
    run.elapse(999);
    expect(run.state).toBe("paused");
    run.elapse(1);
    expect(failureOf(run)).toBe("timeout: the wait timed out");
    run.publish("sent");
    expect(taken(run)).toEqual([]);
    expect(problemsOf(hear({ timeout_ms: -1 }))).toEqual([".timeout_ms: must be at least 0"]);
  });

  attribute("wait_for_event.on_timeout", "fail is the default and goes the way of errors; the others give null", () => {
    const after: Draft = { type: "transform", expression: "vars.s", save_as: "seen" };
    const timed = (more: Record<string, unknown>) =>
      finish([hear({ timeout_ms: 10, ...more }), after, { type: "noop" }]);
    expect(timed({ next: "s2" }).state).toBe("failed");
    expect(timed({ on_error: "s2" }).context.variables.seen).toMatchObject({ error: { code: "timeout" } });
    expect(timed({ next: "s2", on_timeout: "continue" }).context.variables).toEqual({ s: null, seen: null });
    const elsewhere = timed({ next: "s2", on_timeout: "s3" });
    expect(elsewhere.context.variables).toEqual({ s: null });
    expect(typesOf(elsewhere, "s3")).toEqual(["step.started", "step.succeeded"]);
    expect(problemsOf(hear({ on_timeout: "nowhere" }))).toEqual(['.on_timeout: there is no step "nowhere"']);
    expect(chartOf([hear({ timeout_ms: 5, on_timeout: "s2" }), { type: "noop" }]).s).toEqual([
      "timeout -> s2",
      "run.succeeded -> succeeded",
    ]);
  });

  it("of several events that are offered out of order, the oldest is consumed", () => {
    const run = start([hear({ next: "s2" }), hear()]);
    for (const n of [1, 2]) run.world.publish({ id: `e${n}`, topic: "sent", headers: {}, payload: { n } });
    run.command({ type: "event", eventId: "e2" });
    run.command({ type: "event", eventId: "e1" });
    expect(taken(run)).toEqual(["e1", "e2"]);
    expect(run.context.output).toMatchObject({ payload: { n: 2 } });
  });

  it("an event that comes in quarantine is consumed at the release; a cancelled wait consumes none", () => {
    const run = start([hear({ match: "event.payload.n > 1" })]);
    run.command({ type: "quarantine" });
    for (const n of [1, 2]) run.publish("sent", { n });
    expect(taken(run)).toEqual([]);
    run.command({ type: "release", actor: "api" });
    expect(run.context.output).toMatchObject({ payload: { n: 2 } });
    const cancelled = start([hear()]);
    cancelled.cancel();
    cancelled.publish("sent");
    expect([cancelled.state, taken(cancelled)]).toEqual(["cancelled", []]);
  });

  it("each branch that waits takes the event, and takes it once", () => {
    const run = start([
      { type: "parallel", branches: { a: { next: "s2" }, b: { next: "s3" } }, next: "s4" },
      hear({ next: "s5" }),
      hear(),
      { type: "join" },
      hear({ timeout_ms: 10, on_timeout: "continue" }),
    ]);
    while (run.world.move());
    run.publish("sent", { n: 1 });
    run.drain();
    expect(run.state).toBe("succeeded");
    expect([...run.world.taken].map((take) => take.split("/").at(-1))).toEqual(["event-0", "event-0"]);
  });

  it("a dry run's wait takes an empty payload; a payload over the output's limit fails the step, and is used up", () => {
    const dry = finish([hear({ headers: { a: "b" } })], { identity: { dryRun: true } });
    expect(dry.context.output).toEqual({ topic: "sent", headers: { a: "b" }, payload: {} });
    const run = start([hear()]);
    run.publish("sent", "x".repeat(1_048_577));
    expect(failureOf(run)).toMatch(/^limit_exceeded/);
    expect(taken(run)).toEqual(["event-0"]);
  });

  const emit = (more: Record<string, unknown> = {}): Draft => ({ type: "emit_event", topic: "made", ...more });
  const published = (run: Simulation) => run.world.events.map(({ id: _, ...event }) => event);

  attribute("emit_event.topic", "is a template", () => {
    const run = finish([emit({ topic: "made.${inputs.n}" })], { inputs: { n: 2 } });
    expect(published(run)).toEqual([{ topic: "made.2", headers: {}, payload: {} }]);
    expect(run.context.variables).toEqual({});
    expect(problemsOf({ type: "emit_event" })).toEqual([".topic: is required"]);
    expect(problemsOf(emit({ topic: "" }))).toEqual([`.${TOPIC_RULE.replace(" ", ": ")}`]);
    expect(failureOf(finish([emit({ topic: "${'a b'}" })]))).toBe(`expression_error: ${TOPIC_RULE}`);
  });

  attribute("emit_event.payload", "is any value, {} if absent, within an output's limit", () => {
    for (const [payload, value] of [
      ["${inputs.n}", 2],
      [{ n: ["${inputs.n}"] }, { n: [2] }],
      [null, null],
    ])
      expect(published(finish([emit({ payload })], { inputs: { n: 2 } }))).toMatchObject([{ payload: value }]);
    const large = finish([emit({ payload: "${inputs.s}" })], { inputs: { s: "x".repeat(1_048_577) } });
    expect([failureOf(large), published(large)]).toEqual([
      "limit_exceeded: the payload is over 1048576 characters of JSON",
      [],
    ]);
  });

  attribute("emit_event.headers", "are templates and become text; null leaves one out", () => {
    const run = finish([emit({ headers: { n: "${inputs.n}", yes: true, none: "${null}" } })], { inputs: { n: 2 } });
    expect(published(run)).toEqual([{ topic: "made", headers: { n: "2", yes: "true" }, payload: {} }]);
    expect(failureOf(finish([emit({ headers: { a: "${[1]}" } })]))).toBe(
      "expression_error: headers.a must be a string",
    );
  });

  it("each entry publishes one event, with an id of its own, for its tenant; a dry run publishes none", () => {
    const tenantId = "01900000-0000-7000-8000-0000000000f1";
    const run = finish([{ type: "while", condition: "iteration < 3", body: "s2" }, emit({ payload: "${iteration}" })], {
      identity: { tenantId },
    });
    expect(published(run).map(({ payload, tenantId }) => [payload, tenantId])).toEqual(
      [0, 1, 2].map((n) => [n, tenantId]),
    );
    expect(new Set(run.world.events.map(({ id }) => id)).size).toBe(3);
    const dry = finish([emit()], { identity: { dryRun: true } });
    expect([published(dry), typesOf(dry, "s")]).toEqual([[], ["step.started", "step.skipped"]]);
  });

  it("a run may consume an event that it published itself", () => {
    const run = finish([emit({ payload: 7, next: "s2" }), hear({ topic: "made" })]);
    expect(run.context.output).toMatchObject({ payload: 7 });
  });
});
