// The workloads do what their scenarios say, rehearsed without a service.
import { describe, expect, it } from "vitest";
import {
  FOREACH,
  INPUTS,
  ONE_STEP,
  PARALLEL,
  ROLLBACK,
  RULE,
  SIGNALLED,
  TEN_STEPS,
  THREE_STEPS,
  TIMED,
  type Workload,
} from "../../bench/workloads.js";
import { compileRule, type JsonObject } from "../../machines/index.js";
import { type Mocks, rehearse } from "../../src/sdk/define/testing/index.js";

const answered = { output: INPUTS };
const REFUSED = { error: { code: "refused", message: "no", retryable: false } };
const run = (workload: Workload, mocks: Mocks = {}, inputs: JsonObject = INPUTS) =>
  rehearse(workload, { inputs, mocks, startAt: new Date(0) });

describe("a workload", () => {
  it.each([
    ["one step", ONE_STEP, {}],
    ["ten steps", TEN_STEPS, {}],
    ["three steps", THREE_STEPS, { a: [answered], b: [answered], c: [answered] }],
    ["ten branches", PARALLEL, {}],
    ["a signal", SIGNALLED, { wait: [{ output: { nth: 1 } }] }],
  ] as const)("of %s succeeds", (_name, workload, mocks) => {
    expect(run(workload, mocks)).toMatchObject({ state: "succeeded" });
  });

  it("of a time waits for that time", () => {
    const { state, events } = run(TIMED, {}, { until: "1970-01-01T00:01:00.000Z" });
    expect(state).toBe("succeeded");
    expect(events.at(-1)?.recorded_at).toBe("1970-01-01T00:01:00.000Z");
  });

  it("of a foreach runs a step for each item", () => {
    expect(run(FOREACH, {}, { items: [1, 2, 3] }).variables).toMatchObject({ each: [2, 4, 6] });
  });

  it("of a rollback undoes three steps, the newest first", () => {
    const done = { output: {} };
    const mocks = {
      a: [done],
      b: [done],
      c: [done],
      d: [REFUSED],
      "a~undo": [done],
      "b~undo": [done],
      "c~undo": [done],
    };
    const { state, events } = run(ROLLBACK, mocks);
    const undone = events.filter(
      ({ event_type, metadata }) => event_type === "step.succeeded" && metadata?.phase === "compensation",
    );
    expect(state).toBe("failed");
    expect(undone.map(({ step_id }) => step_id)).toEqual(["c", "b", "a"]);
  });

  it("of a rule has a hundred rows and no problem", () => {
    expect(compileRule(RULE).problems).toEqual([]);
    expect(RULE.spec.rows).toHaveLength(100);
  });
});
