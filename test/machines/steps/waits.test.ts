// The steps that wait: wait_duration, wait_until, wait_for_signal.
import { describe, expect, it } from "vitest";
import { pausedReason, Schemas, secret, wakeAt } from "../../../machines/index.js";
import { START } from "../simulation.js";
import {
  attribute,
  chartOf,
  type Draft,
  failureOf,
  finish,
  metadataOf,
  prepare,
  problemsOf,
  start,
  typesOf,
} from "./rig.js";

const TEN_YEARS = 10 * 366 * 86_400_000;
const dueIn = (step: Draft, inputs = {}) => {
  const wake = wakeAt(start([step], { inputs }).context);
  return typeof wake === "number" ? wake - START : wake;
};

describe("steps that wait", () => {
  attribute("wait_duration.duration_ms", "is milliseconds, written or computed, up to ten years", () => {
    expect(dueIn({ type: "wait_duration", duration_ms: 1500 })).toBe(1500);
    expect(dueIn({ type: "wait_duration", duration_ms: "${inputs.seconds * 1000}" }, { seconds: 2 })).toBe(2000);
    expect(dueIn({ type: "wait_duration", duration_ms: "${0.2}" })).toBe(1);
    expect(finish([{ type: "wait_duration", duration_ms: 0 }]).rows.map(({ type }) => type)).not.toContain(
      "step.paused",
    );
    expect(problemsOf({ type: "wait_duration", duration_ms: -1 })).toEqual([".duration_ms: must be at least 0"]);
    expect(problemsOf({ type: "wait_duration", duration_ms: TEN_YEARS + 1 })).toEqual([
      `.duration_ms: must be at most ${TEN_YEARS}`,
    ]);
    expect(problemsOf({ type: "wait_duration", duration_ms: "10" })).toEqual([".duration_ms: must be a number"]);
    for (const computed of ["${-1}", "${'10'}"])
      expect(failureOf(finish([{ type: "wait_duration", duration_ms: computed }]))).toBe(
        "expression_error: duration_ms must be a number of at least 0",
      );
    expect(failureOf(finish([{ type: "wait_duration", duration_ms: "${1.0e300}" }]))).toBe(
      "expression_error: duration_ms is longer than ten years",
    );
  });

  const NO_DURATION = "is not an ISO 8601 duration of weeks, days, hours, minutes and seconds, such as P1DT12H";

  attribute("wait_duration.duration", "is ISO 8601 or a CEL duration; one of the two is needed", () => {
    expect(dueIn({ type: "wait_duration", duration: "PT1M30S" })).toBe(90_000);
    expect(dueIn({ type: "wait_duration", duration: "${duration('2s')}" })).toBe(2000);
    expect(dueIn({ type: "wait_duration", duration: "PT${inputs.n}H" }, { n: 2 })).toBe(7_200_000);
    for (const whole of ["PT${inputs.n * 1.0}H", "${'PT' + string(inputs.n) + 'H'}", "PT${double(inputs.n)}H"])
      expect(dueIn({ type: "wait_duration", duration: whole }, { n: 2 }), whole).toBe(7_200_000);
    expect(dueIn({ type: "wait_duration", duration: "PT1,5S" })).toBe(1500);
    expect(dueIn({ type: "wait_duration", duration: "P0Y0M0DT${inputs.n / 4}S" }, { n: 2 })).toBe(500);
    expect(problemsOf({ type: "wait_duration", duration: "P3661D" })).toEqual([".duration: is longer than ten years"]);
    expect(problemsOf({ type: "wait_duration", duration: "1 hour" })).toEqual([`.duration: ${NO_DURATION}`]);
    expect(problemsOf({ type: "wait_duration", duration: "P1Y" })).toEqual([`.duration: ${NO_DURATION}`]);
    const either = [": needs either duration_ms or duration"];
    expect(problemsOf({ type: "wait_duration" })).toEqual(either);
    expect(problemsOf({ type: "wait_duration", duration_ms: 1, duration: "PT1S" })).toEqual(either);
    for (const computed of ["${'soon'}", "${-1}"])
      expect(failureOf(finish([{ type: "wait_duration", duration: computed }]))).toBe(
        `expression_error: duration ${NO_DURATION}`,
      );
    expect(failureOf(finish([{ type: "wait_duration", duration: "${'P9999999W'}" }]))).toBe(
      "expression_error: duration is longer than ten years",
    );
  });

  attribute("wait_until.until", "is RFC 3339 or a CEL timestamp; the past is now", () => {
    const at = "2023-11-15T00:00:00+01:00";
    expect(dueIn({ type: "wait_until", until: at })).toBe(Date.parse(at) - START);
    expect(dueIn({ type: "wait_until", until: "${now + duration('1h')}" })).toBe(3_600_000);
    expect(dueIn({ type: "wait_until", until: "${inputs.at}" }, { at })).toBe(Date.parse(at) - START);
    expect(dueIn({ type: "wait_until", until: "2023-12-31T23:59:60Z" })).toBe(Date.UTC(2024, 0, 1) - START);
    const past = finish([{ type: "wait_until", until: "2001-01-01T00:00:00Z" }]);
    expect(typesOf(past)).toEqual(["step.started", "step.succeeded", "run.succeeded"]);
    expect(problemsOf({ type: "wait_until" })).toEqual([".until: is required"]);
    for (const until of ["tomorrow", "2023-02-30T00:00:00Z", "2023-11-15"])
      expect(problemsOf({ type: "wait_until", until })).toEqual([".until: is not an RFC 3339 time"]);
    expect(failureOf(finish([{ type: "wait_until", until: "${'tomorrow'}" }]))).toBe(
      "expression_error: until is not an RFC 3339 time",
    );
    expect(failureOf(finish([{ type: "wait_until", until: "9999-01-01T00:00:00Z" }]))).toBe(
      "expression_error: the wait is longer than ten years",
    );
  });

  it("a timer fires at its time, never early, and is recorded with its wake-up", () => {
    const run = start([{ type: "wait_duration", duration_ms: 1000 }]);
    expect([run.state, pausedReason(run.context)]).toEqual(["paused", "timer"]);
    expect(metadataOf(run, "step.paused")).toEqual({ awaiting: "timer", wakeup_at: "2023-11-14T22:13:21.000Z" });
    run.elapse(999);
    expect(run.state).toBe("paused");
    run.elapse(1);
    expect(run.state).toBe("succeeded");
    expect(metadataOf(run, "step.succeeded")).toEqual({ duration_ms: 1000 });
  });

  const hold = (more: Record<string, unknown> = {}): Draft => ({ type: "wait_for_signal", signal_name: "go", ...more });

  attribute("wait_for_signal.signal_name", "is a template; only a signal of that name is taken", () => {
    const run = start([hold({ signal_name: "order-${inputs.id}.paid" })], { inputs: { id: 7 } });
    expect([run.state, pausedReason(run.context)]).toEqual(["paused", "signal"]);
    expect(metadataOf(run, "step.paused")).toEqual({ awaiting: "signal", name: "order-7.paid" });
    expect(wakeAt(run.context)).toBeUndefined();
    expect(run.signal("paid")).toMatchObject({ matched: false });
    expect(run.signal("order-7.paid", { sum: 3 })).toMatchObject({ matched: true });
    expect(run.context.output).toEqual({ sum: 3 });
    expect(metadataOf(run, "step.succeeded")).toEqual({ output: { sum: 3 }, duration_ms: 0 });
    expect(problemsOf({ type: "wait_for_signal" })).toEqual([".signal_name: is required"]);
    for (const name of ["a b", "", "x".repeat(129)])
      expect(failureOf(finish([hold({ signal_name: `\${'${name}'}` })]))).toBe(
        "expression_error: signal_name must be 1 to 128 of A-Z a-z 0-9 _ . : -",
      );
  });

  attribute("wait_for_signal.signal_name", "a recorded signal is taken at once, the oldest first, each once", () => {
    const run = start([
      { type: "wait_duration", duration_ms: 10, next: "s2" },
      hold({ next: "s3" }),
      hold({ next: "s4" }),
      hold(),
    ]);
    for (const n of [1, 2]) run.signal("go", { n });
    run.signal("stop");
    run.elapse();
    expect(run.context.variables).toEqual({ s2: { n: 1 }, s3: { n: 2 } });
    expect([run.state, run.context.step]).toEqual(["paused", "s4"]);
    expect(run.context.unconsumedSignals).toBe(1);
    expect(typesOf(run, "s2")).toEqual(["step.started", "step.succeeded"]);
  });

  attribute("wait_for_signal.payload_schema", "fails the step on another payload, and marks secret parts", () => {
    const payload_schema = { type: "object", properties: { pin: { type: "string", "x-secret": true } } };
    const schemas = new Schemas();
    const run = start([hold({ payload_schema })], { schemas });
    run.signal("go", { pin: "1234", plain: 1 });
    expect(run.context.output).toEqual({ pin: secret("1234"), plain: 1 });
    const early = prepare([{ type: "noop", next: "s2" }, hold({ payload_schema })], { schemas });
    early.signal("go", { pin: 1 });
    early.advance();
    expect(failureOf(early)).toBe("schema_mismatch: the payload: /pin must be a string");
    expect(problemsOf(hold({ payload_schema: "x" }))).toEqual([".payload_schema: must be an object (a JSON Schema)"]);
  });

  attribute("wait_for_signal.timeout_ms", "is unlimited if absent; a timeout fails with code timeout", () => {
    const run = start([hold({ timeout_ms: 1000 })]);
    expect(metadataOf(run, "step.paused")?.wakeup_at).toBe("2023-11-14T22:13:21.000Z");
    run.elapse(999);
    expect(run.state).toBe("paused");
    run.elapse(1);
    expect(failureOf(run)).toBe("timeout: the wait timed out");
    expect(dueIn(hold({ timeout_ms: "${inputs.ms}" }), { ms: 5 })).toBe(5);
    expect(problemsOf(hold({ timeout_ms: -1 }))).toEqual([".timeout_ms: must be at least 0"]);
    expect(problemsOf(hold({ timeout_ms: TEN_YEARS + 1 }))).toEqual([`.timeout_ms: must be at most ${TEN_YEARS}`]);
    expect(failureOf(finish([hold({ timeout_ms: "${1.0e300}" })]))).toBe(
      "expression_error: timeout_ms is longer than ten years",
    );
  });

  attribute(
    "wait_for_signal.on_timeout",
    "fail is the default and goes the way of errors; the others give null",
    () => {
      const after: Draft = { type: "transform", expression: "vars.s", save_as: "seen" };
      const timed = (more: Record<string, unknown>) =>
        finish([hold({ timeout_ms: 10, ...more }), after, { type: "noop" }]);
      expect(timed({ next: "s2" }).state).toBe("failed");
      expect(timed({ next: "s2", on_timeout: "fail" }).state).toBe("failed");
      expect(timed({ on_error: "s2" }).context.variables.seen).toMatchObject({ error: { code: "timeout" } });
      expect(timed({ next: "s2", on_timeout: "continue" }).context.variables).toEqual({ s: null, seen: null });
      const elsewhere = timed({ next: "s2", on_timeout: "s3" });
      expect(elsewhere.context.variables).toEqual({ s: null });
      expect(typesOf(elsewhere, "s3")).toEqual(["step.started", "step.succeeded"]);
      expect(metadataOf(elsewhere, "step.succeeded")).toEqual({ output: null, duration_ms: 10 });
      expect(problemsOf(hold({ on_timeout: "nowhere" }))).toEqual(['.on_timeout: there is no step "nowhere"']);
      expect(problemsOf(hold({ on_timeout: false }))).toEqual([".on_timeout: must be a string"]);
    },
  );

  it("the chart has the edge of the timeout", () => {
    const chart = (hurry: Draft) => chartOf([hurry, { type: "noop" }]).s;
    expect(chart(hold({ timeout_ms: 5, on_timeout: "s2" }))).toEqual(["timeout -> s2", "run.succeeded -> succeeded"]);
    expect(chart(hold({ on_timeout: "s2" }))).toEqual(["run.succeeded -> succeeded"]);
  });

  it("a dry run's signal wait takes an empty payload", () => {
    const run = finish([hold()], { identity: { dryRun: true } });
    expect(run.context.output).toEqual({});
  });

  it("a payload over the output's limit fails the step, and the signal is used up", () => {
    const run = start([hold()]);
    expect(run.signal("go", "x".repeat(1_048_577))).toMatchObject({ matched: true });
    expect(failureOf(run)).toMatch(/^limit_exceeded/);
    expect(run.signals.map(({ consumed }) => consumed)).toEqual([true]);
  });
});
