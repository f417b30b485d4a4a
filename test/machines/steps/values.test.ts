// The steps that compute: end, error, noop, set_var, transform, log, assert.
import { describe, expect, it } from "vitest";
import { attribute, type Draft, failureOf, finish, metadataOf, problemsOf, rowsOf, typesOf } from "./rig.js";

const INPUTS = { n: 2, list: [1, 2], who: "Ada", big: "x".repeat(2_000) };
const outputOf = (step: Draft) => finish([step], { inputs: INPUTS }).context.output;

describe("steps that compute", () => {
  attribute("end.output", "is the run's output, of any type; null if absent, and then omitted", () => {
    expect(outputOf({ type: "end", output: { n: "${inputs.n}", text: "n=${inputs.n}" } })).toEqual({
      n: 2,
      text: "n=2",
    });
    expect(outputOf({ type: "end", output: [1, "${inputs.list}"] })).toEqual([1, [1, 2]]);
    expect(outputOf({ type: "end" })).toBeUndefined();
    expect(outputOf({ type: "end", output: null })).toBeUndefined();
    expect(failureOf(finish([{ type: "end", output: "${vars.x}" }]))).toBe(
      'expression_error: missing key "x": vars.x in steps[0].output',
    );
  });

  it("end: ends the run from anywhere, stores nothing, and has no next", () => {
    const run = finish([{ type: "end", output: 1, save_as: "x" }, { type: "noop" }]);
    expect(run.context.variables).toEqual({});
    expect(typesOf(run)).toEqual(["step.started", "step.succeeded", "run.succeeded"]);
    expect(problemsOf({ type: "end", next: "s2" }, { type: "noop" })).toEqual([
      ".next: a step of type end has no next",
    ]);
  });

  attribute("error.code, error.message, error.details", "are templates; without them the code is error", () => {
    expect(failureOf(finish([{ type: "error" }]))).toBe("error: the workflow raised an error");
    const raised: Draft = {
      type: "error",
      code: "no_${inputs.n}",
      message: "no ${inputs.who}",
      details: { n: "${inputs.n}" },
    };
    const run = finish([raised], { inputs: INPUTS });
    expect(failureOf(run)).toBe("no_2: no Ada");
    expect(run.context.ending?.error).toEqual({ code: "no_2", message: "no Ada", details: { n: 2 }, step_id: "s" });
    expect(run.rows.at(-1)?.metadata).toMatchObject({ code: "no_2", details: { n: 2 }, step_id: "s" });
    expect(failureOf(finish([{ type: "error", code: "${1}" }]))).toBe("expression_error: code must be a string");
    expect(failureOf(finish([{ type: "error", message: "${[]}" }]))).toBe("expression_error: message must be a string");
    expect(problemsOf({ type: "error", code: 1, message: {} })).toEqual([
      ".code: must be a string",
      ".message: must be a string",
    ]);
  });

  it("error: is caught by on_error, never retried, and has no next", () => {
    const run = finish([
      { type: "error", code: "mine", on_error: "s2" },
      { type: "transform", expression: "vars.s.error.code" },
    ]);
    expect(run.context.output).toBe("mine");
    expect(problemsOf({ type: "error", next: "s", retry: { max_attempts: 2, initial_backoff_ms: 1 } })).toEqual([
      ".retry: is not an attribute of the step type error",
      ".next: a step of type error has no next",
    ]);
  });

  it("noop: does nothing, and takes nothing", () => {
    const run = finish([{ type: "noop" }]);
    expect(typesOf(run, "s")).toEqual(["step.started", "step.succeeded"]);
    expect(run.context.variables).toEqual({});
    expect(metadataOf(run, "step.succeeded")).toEqual({ duration_ms: 0 });
    expect(problemsOf({ type: "noop", inputs: { x: 1 } })).toEqual([
      ".inputs.x: is not an attribute of the step type noop",
    ]);
  });

  attribute("set_var.variables", "all right-hand sides see the old values", () => {
    const swap: Draft = {
      type: "set_var",
      variables: { a: "${vars.b}", b: "${vars.a}", c: [1, "${vars.a}"], d: null },
    };
    const run = finish([swap], { variables: { a: 1, b: 2 } });
    expect(run.context.variables).toEqual({ a: 2, b: 1, c: [1, 1], d: null });
    expect(run.context.output).toBeUndefined();
    expect(problemsOf({ type: "set_var", variables: {} })).toEqual([".variables: must not be empty"]);
    expect(problemsOf({ type: "set_var", variables: { "a b": 1, constructor: 2 } })).toEqual([
      '.variables["a b"]: must be 1 to 128 of A-Z a-z 0-9 _ . : -',
      ".variables.constructor: must not be constructor",
    ]);
    expect(problemsOf({ type: "set_var", variables: [] })).toEqual([".variables: must be an object"]);
  });

  attribute("set_var.variables", "one that fails sets none", () => {
    const run = finish([{ type: "set_var", variables: { a: 1, b: "${vars.nowhere}" } }]);
    expect(failureOf(run)).toBe('expression_error: missing key "nowhere": vars.nowhere in steps[0].variables.b');
    expect(run.context.variables).toEqual({});
  });

  attribute("set_var.name, set_var.value", "go together, and stand for one variable", () => {
    expect(finish([{ type: "set_var", name: "step-1", value: { n: "${1 + 1}" } }]).context.variables).toEqual({
      "step-1": { n: 2 },
    });
    expect(finish([{ type: "set_var", name: "x", value: null }]).context.variables).toEqual({ x: null });
    const both = ": needs both name and value";
    expect(problemsOf({ type: "set_var", name: "x" })).toEqual([both]);
    expect(problemsOf({ type: "set_var", value: 1 })).toEqual([both]);
    expect(problemsOf({ type: "set_var" })).toEqual([": needs variables, or name and value"]);
    expect(problemsOf({ type: "set_var", name: "prototype", value: 1 })).toEqual([".name: must not be prototype"]);
  });

  attribute("transform.expression", "is bare CEL, and keeps its value's type", () => {
    expect(outputOf({ type: "transform", expression: "inputs.list.map(x, x * 2)" })).toEqual([2, 4]);
    expect(outputOf({ type: "transform", expression: "null" })).toBeUndefined();
    expect(finish([{ type: "transform", expression: "null" }]).context.variables).toEqual({ s: null });
    expect(failureOf(finish([{ type: "transform", expression: "1 / 0" }]))).toMatch(
      /^expression_error: .*divide by zero/,
    );
  });

  attribute("transform.template", "is a document with templates inside; one of the two is needed", () => {
    expect(outputOf({ type: "transform", template: { who: "${inputs.who}!", costs: "$${5}" } })).toEqual({
      who: "Ada!",
      costs: "${5}",
    });
    const either = [": needs either expression or template"];
    expect(problemsOf({ type: "transform" })).toEqual(either);
    expect(problemsOf({ type: "transform", expression: "1", template: 1 })).toEqual(either);
  });

  attribute("log.message, log.level, log.fields", "make an audit event of kind message", () => {
    const log: Draft = { type: "log", message: "n is ${inputs.n}", level: "warn", fields: { list: "${inputs.list}" } };
    const run = finish([log], { inputs: INPUTS });
    expect(typesOf(run, "s")).toEqual(["step.started", "log", "step.succeeded"]);
    expect(metadataOf(run, "log")).toEqual({
      kind: "message",
      level: "warn",
      message: "n is 2",
      fields: { list: [1, 2] },
    });
    expect(metadataOf(finish([{ type: "log", message: "${[1]}" }]), "log")).toEqual({
      kind: "message",
      level: "info",
      message: "[1]",
    });
    expect(problemsOf({ type: "log", level: "loud", fields: "x" })).toEqual([
      ".message: is required",
      ".level: must be one of debug, info, warn, error",
      ".fields: must be an object",
    ]);
    for (const level of ["debug", "info", "warn", "error"])
      expect(metadataOf(finish([{ type: "log", message: "m", level }]), "log")?.level).toBe(level);
    expect(failureOf(finish([{ type: "log", message: "m", fields: "${1}" }]))).toBe(
      "expression_error: fields must be an object",
    );
  });

  attribute("assert.condition", "must be truthy; the failure quotes the condition", () => {
    expect(finish([{ type: "assert", condition: "inputs.n > 1" }], { inputs: INPUTS }).state).toBe("succeeded");
    expect(finish([{ type: "assert", condition: "inputs.who" }], { inputs: INPUTS }).state).toBe("succeeded");
    expect(failureOf(finish([{ type: "assert", condition: "inputs.n > 2" }], { inputs: INPUTS }))).toBe(
      "assertion_failed: the condition does not hold: inputs.n > 2",
    );
    expect(problemsOf({ type: "assert" })).toEqual([".condition: is required"]);
  });

  attribute("assert.message, assert.code", "are templates; the code is assertion_failed by default", () => {
    const assert: Draft = {
      type: "assert",
      condition: "false",
      message: "${inputs.who} is late",
      code: "late_${inputs.n}",
    };
    expect(failureOf(finish([assert], { inputs: INPUTS }))).toBe("late_2: Ada is late");
    expect(problemsOf({ ...assert, message: 1, code: 2 })).toEqual([
      ".message: must be a string",
      ".code: must be a string",
    ]);
    expect(failureOf(finish([{ ...assert, code: "${1}" }], { inputs: INPUTS }))).toBe(
      "expression_error: code must be a string",
    );
  });

  it("now is fixed when the step is entered, and a fact of the run is in every scope", () => {
    const run = finish([
      { type: "transform", expression: "[string(now), run.id, run.workflow_id, string(run.version), run.root_id]" },
    ]);
    expect(run.context.output).toEqual(["2023-11-14T22:13:20Z", run.context.run.id, "test", "1", run.context.run.id]);
  });

  it("text from CEL escapes that Postgres cannot store fails the step", () => {
    for (const step of [
      { type: "transform", expression: "'a\\u0000b'" },
      { type: "set_var", name: "x", value: "${'\\u0000'}" },
      { type: "log", message: "${'\\u0000'}" },
      { type: "error", message: "${'\\u0000'}" },
      { type: "action", action: "shop.notify", inputs: { x: "a${'\\u0000'}" } },
      { type: "transform", expression: "{'\\u0000': 1}" },
    ])
      expect(failureOf(finish([step])), JSON.stringify(step)).toMatch(
        /^expression_error: the result contains U\+0000: .* in steps\[0\]\./,
      );
  });

  it("nested attributes: types without a payload of their own take them in inputs too, and flat wins", () => {
    expect(outputOf({ type: "transform", inputs: { expression: "inputs.n" } })).toBe(2);
    expect(outputOf({ type: "transform", expression: "1", inputs: { expression: "2" } })).toBe(1);
    expect(problemsOf({ type: "transform", inputs: { expression: "1 +", colour: 1 } })).toEqual([
      ".inputs.colour: is not an attribute of the step type transform",
      expect.stringMatching(/^\.inputs\.expression: .* \(at character \d+\)$/),
    ]);
    expect(
      rowsOf(finish([{ type: "log", inputs: { message: "nested", level: "debug" } }]), "s")[1]?.metadata,
    ).toMatchObject({
      message: "nested",
      level: "debug",
    });
  });
});
