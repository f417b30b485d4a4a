// The limits of a run: step entries, outputs, variables, audit metadata, and values that can be stored.
// @module-tag both
import { describe, expect, it } from "vitest";
import { type JsonObject, measure, STANDARD_DEFINITION_LIMITS, STANDARD_RUN_LIMITS } from "../../machines/index.js";
import { long } from "../harness/long.js";
import { RUN_ID } from "./simulation.js";
import { type Draft, failureOf, finish, metadataOf, rowsOf, start, typesOf } from "./steps/rig.js";

/** A string whose JSON text has `size` characters. */
const text = (size: number) => "x".repeat(size - 2);
const MIB = 1_048_576;
const MAX_VARIABLES = 8 * MIB;

describe("the limits of a run", () => {
  it("the numbers are the contract's", () => {
    expect(STANDARD_RUN_LIMITS).toEqual({ entries: 100_000, output: MIB, variables: 8 * MIB, metadata: 65_536 });
    expect(STANDARD_DEFINITION_LIMITS).toEqual({ steps: 1_000, branches: 100 });
  });

  it("a step entry over the limit fails the run, whatever on_error says", () => {
    const entries = long(2_000, 20_000);
    const loop: Draft[] = [{ type: "noop", next: "s2" }, { type: "noop", next: "s", on_error: "s3" }, { type: "noop" }];
    const run = start(loop, { entries: 2 * entries, budget: 64, identity: { id: RUN_ID }, limits: { entries } });
    expect(failureOf(run)).toBe(`limit_exceeded: the run has entered ${entries} steps`);
    expect(run.context.entries).toBe(entries + 1);
    expect(run.rows.slice(-3).map(({ type, stepId }) => [type, stepId])).toEqual([
      ["step.started", "s"],
      ["step.failed", "s"],
      ["run.failed", undefined],
    ]);
  });

  it("an output of 1 MiB passes, one character more fails the step with limit_exceeded", () => {
    const give = (size: number, more = {}) =>
      finish([{ type: "transform", expression: "inputs.big", ...more }, { type: "noop" }], {
        inputs: { big: text(size) },
      });
    expect(give(MIB).state).toBe("succeeded");
    expect(failureOf(give(MIB + 1))).toBe(`limit_exceeded: the output is over ${MIB} characters of JSON`);
    expect(failureOf(give(MIB + 1, { save_as: null }))).toMatch(/^limit_exceeded/);
    const caught = give(MIB + 1, { on_error: "s2" });
    expect(caught.context.variables).toMatchObject({ s: { error: { code: "limit_exceeded" } } });
  });

  it("the run's output has the limit of an output", () => {
    const run = finish([{ type: "end", output: "${inputs.big}" }], { inputs: { big: text(MIB + 1) } });
    expect(failureOf(run)).toMatch(/^limit_exceeded/);
  });

  it("variables of 8 MiB pass, more of them fail the step that would set them; old values make room", () => {
    const big = text(MIB);
    // Besides the value: its name in quotes, a colon, a comma, and the braces around all variables.
    const overhead = (name: string) => name.length + 4;
    const names = ["a", "b", "c", "d", "e", "f", "g"];
    const full = MAX_VARIABLES - 2 - names.length * (MIB + overhead("a")) - overhead("h");
    const variables: JsonObject = Object.fromEntries(names.map((name) => [name, big]));
    const set = (size: number) =>
      finish([{ type: "set_var", name: "h", value: "${inputs.h}" }], { variables, inputs: { h: text(size) } });
    expect(measure({ ...variables, h: text(full) })).toBe(MAX_VARIABLES);
    expect(set(full).state).toBe("succeeded");
    expect(failureOf(set(full + 1))).toBe(
      `limit_exceeded: the run's variables are over ${MAX_VARIABLES} characters of JSON`,
    );
    const replaced = finish(
      [
        { type: "set_var", variables: { a: 1, h: "${inputs.h}" }, next: "s2" },
        { type: "set_var", name: "a", value: "${inputs.h}" },
      ],
      { variables, inputs: { h: text(MIB) } },
    );
    expect(replaced.state, "the second step puts a back: eight of 1 MiB and their names are too much").toBe("failed");
    expect(typesOf(replaced, "s")).toEqual(["step.started", "step.succeeded"]);
  });

  it("the size that is counted is the size that is there, also after a reload", () => {
    const run = finish(
      [
        { type: "set_var", variables: { x: [1, 2, 3], y: "text" }, next: "s2" },
        { type: "set_var", variables: { x: "short" }, next: "s3" },
        { type: "error", on_error: "continue" },
      ],
      { reload: true },
    );
    expect(run.context.variablesSize).toBe(measure(run.context.variables));
  });

  it("an error's details have the limit of an output: what is over it is that failure, without the details", () => {
    const raise = (size: number, more = {}) =>
      finish([{ type: "error", code: "mine", details: "${inputs.big}", ...more }, { type: "noop" }], {
        inputs: { big: text(size) },
      });
    expect(failureOf(raise(1_000))).toMatch(/^mine/);
    expect(failureOf(raise(MIB + 1))).toMatch(/^limit_exceeded: the output is over/);
    expect(raise(MIB + 1, { on_error: "s2" }).context.variables).toEqual({
      s: {
        error: {
          code: "limit_exceeded",
          message: `the output is over ${MIB} characters of JSON`,
          step_id: "s",
        },
      },
    });
  });

  it("errors that are stored again and again cannot outgrow the variables' limit", () => {
    const steps: Draft[] = Array.from({ length: 12 }, (_, index) => ({
      type: "error",
      details: "${inputs.big}",
      on_error: `s${index + 2}`,
    }));
    const run = finish([...steps, { type: "noop" }], { inputs: { big: text(900_000) } });
    expect(run.context.variablesSize).toBeLessThanOrEqual(MAX_VARIABLES);
    expect(run.context.variables.s12).toMatchObject({ error: { code: "limit_exceeded" } });
  });

  it("audit metadata over 64 KiB is cut to an excerpt, and flagged by name", () => {
    const run = finish([{ type: "transform", expression: "inputs.big" }], { inputs: { big: text(100_000) } });
    const metadata = metadataOf(run, "step.succeeded");
    expect(metadata?.truncated).toEqual(["output"]);
    expect(String(metadata?.output)).toMatch(/^"xxxx/);
    expect(JSON.stringify(metadata).length).toBeLessThanOrEqual(65_536);
    expect(run.context.output, "only the audit row is cut").toBe(text(100_000));
  });

  it("audit metadata under 64 KiB is whole; a cut never splits a character, and quotes do not make it grow over the limit", () => {
    const whole = finish([{ type: "transform", expression: "inputs.big" }], { inputs: { big: text(60_000) } });
    expect(metadataOf(whole, "step.succeeded")).toEqual({ output: text(60_000), duration_ms: 0 });
    for (const big of ["\u{1F600}".repeat(50_000), `a${"\u{1F600}".repeat(50_000)}`, '"\\'.repeat(40_000)]) {
      const run = finish([{ type: "log", message: "m", fields: { big: "${inputs.big}" } }], { inputs: { big } });
      const metadata = rowsOf(run, "s").find(({ type }) => type === "log")?.metadata;
      expect(metadata?.truncated).toEqual(["fields"]);
      expect(typeof measure(metadata)).toBe("number");
      expect(JSON.stringify(metadata).length).toBeLessThanOrEqual(65_536);
    }
  });

  it("a worker's result that cannot be stored fails the step, and is undone", () => {
    const run = finish([{ type: "action", action: "shop.charge", compensation: { action: "shop.refund" } }], {
      worker: ({ call }) => ({ kind: "result", result: { text: call.phase === "forward" ? "a\u0000" : "" } }),
    });
    expect(failureOf(run)).toBe("expression_error: the output.text contains U+0000");
    expect(run.undo.map(({ state }) => state)).toEqual(["done"]);
  });

  it("the limits are parameters", () => {
    const loop: Draft[] = [
      { type: "noop", next: "s2" },
      { type: "noop", next: "s" },
    ];
    expect(failureOf(start(loop, { limits: { entries: 3 } }))).toBe("limit_exceeded: the run has entered 3 steps");
    const set: Draft = { type: "transform", expression: "'0123456789'" };
    expect(failureOf(finish([set], { limits: { output: 11 } }))).toBe(
      "limit_exceeded: the output is over 11 characters of JSON",
    );
    expect(failureOf(finish([set], { limits: { variables: 18 } }))).toMatch(/^limit_exceeded: the run's variables/);
    expect(metadataOf(finish([set], { limits: { metadata: 36 } }), "step.succeeded")?.truncated).toEqual(["output"]);
  });
});
