// Secret values in steps: what workers get, what a run stores, and what rows of the audit log have. The simulation checks by real schemas.
import { describe, expect, it } from "vitest";
import { type JsonObject, MASK, Schemas, secret } from "../../../machines/index.js";
import { failureOf, finish, metadataOf, problems, start } from "../steps/rig.js";

const X = { "x-secret": true };
const schemas = new Schemas();
const inputs = {
  pin: secret("canary-pin"),
  amount: secret(41_111_222),
  user: { name: "ann", token: secret("canary-token") },
};
const rowsOf = ({ rows }: { readonly rows: readonly unknown[] }) => JSON.stringify(rows);

describe("steps with secret values", () => {
  it("a worker's failure loses what it repeats of the secrets that it was given, in code and message, also before a retry", () => {
    const run = finish(
      [
        {
          type: "action",
          action: "shop.charge",
          inputs: { pin: "${inputs.pin}", amount: "${inputs.amount}" },
          retry: { max_attempts: 2, initial_backoff_ms: 0 },
        },
      ],
      {
        inputs,
        worker: () =>
          ({
            kind: "failure",
            code: "no canary-pin 41111222",
            retryable: true,
            outcomeUnknown: false,
          }) as never,
      },
    );
    expect(failureOf(run)).toBe(`no ${MASK} ${MASK}: no ${MASK} ${MASK}!`);
    expect(rowsOf(run)).not.toMatch(/canary|41111222/);
  });

  it("rows of the audit log are masked before they are cut", () => {
    const long = { text: secret("canary ".repeat(20_000)), plain: "x".repeat(70_000) };
    const run = finish(
      [
        { type: "log", message: "of ${inputs.text}", fields: "${inputs}", next: "s2" },
        { type: "transform", expression: "inputs" },
      ],
      { inputs: long },
    );
    expect(rowsOf(run)).not.toContain("canary");
    expect(metadataOf(run, "log")).toMatchObject({ message: MASK, truncated: ["fields"] });
  });

  it("an error step and an assert show a mask, and their details keep the mark", () => {
    const run = finish(
      [
        {
          type: "error",
          code: "c",
          message: "pin ${inputs.pin}",
          details: { pin: "${inputs.pin}" },
          on_error: "s2",
          save_as: "e",
        },
        {
          type: "assert",
          condition: "inputs.pin == ''",
          message: "not ${inputs.pin}",
          on_error: "continue",
          save_as: "a",
        },
      ],
      { inputs },
    );
    expect(run.context.variables).toMatchObject({
      e: { error: { code: "c", message: MASK, details: { pin: secret("canary-pin") } } },
      a: { error: { message: MASK } },
    });
    expect(rowsOf(run)).not.toContain("canary");
  });

  it.each([
    { type: "wait_duration", duration_ms: "${inputs.amount}" },
    { type: "wait_for_signal", signal_name: "${inputs.pin}" },
    { type: "emit_event", topic: "${inputs.pin}" },
    { type: "emit_event", topic: "t", headers: { h: "${inputs.pin}" } },
    { type: "metric_emit", name: "m", value: "${inputs.amount}" },
    { type: "metric_emit", name: "m", tags: { t: "${inputs.pin}" } },
    { type: "action", action: "shop.charge", concurrency: { key: "${inputs.pin}", limit: 1 } },
    { type: "collect_input", assignee: "${inputs.pin}", form_schema: {} },
    { type: "error", code: "${inputs.pin}" },
  ])("fails where a secret would be shown or looked up: %j", (step) => {
    const run = finish([step as never], { inputs });
    expect(failureOf(run)).toMatch(/^expression_error: .*is not secret, so it cannot depend on a secret value/);
    expect(rowsOf(run)).not.toContain("canary");
  });

  it("objects that are merged keep their marks, whole ones too", () => {
    const run = finish(
      [
        { type: "merge", sources: ["inputs.a", "inputs.b"], strategy: "deep", save_as: "deep", next: "s2" },
        { type: "merge", sources: ["inputs.a", "inputs.whole"], save_as: "shallow" },
      ],
      { inputs: { a: { x: secret({ k: 1 }), y: 1 }, b: { x: { l: 2 } }, whole: secret({ z: 3 }) } },
    );
    expect(run.context.variables).toEqual({
      deep: { x: secret({ k: 1, l: 2 }), y: 1 },
      shallow: secret({ x: secret({ k: 1 }), y: 1, z: 3 }),
    });
  });

  it("an operator's correction in the place of a secret is secret, and a mask keeps it", () => {
    const action = {
      type: "action",
      action: "shop.charge",
      inputs: { card: "${vars.card}" },
      on_failure: "incident",
      retry: { max_attempts: 1, initial_backoff_ms: 0 },
    };
    const corrected = (variables: JsonObject) => {
      const got: unknown[] = [];
      const run = start(
        [{ type: "set_var", name: "card", value: { number: "${inputs.pin}", year: 30 }, next: "s2" }, action],
        {
          inputs,
          worker: ({ call }) => {
            got.push(call.inputs);
            return { kind: "failure", code: "no", retryable: false, outcomeUnknown: false } as never;
          },
        },
      );
      run.drain(20);
      run.command({ type: "retry_step", variables, actor: "user:ann" } as never);
      run.drain(20);
      return got.at(-1);
    };
    expect(corrected({ card: { number: MASK, year: 31 } })).toEqual({
      card: { number: secret("canary-pin"), year: 31 },
    });
    expect(corrected({ card: { number: "new", year: 31 } })).toEqual({ card: { number: secret("new"), year: 31 } });
    expect(corrected({ card: "new" })).toEqual({ card: secret("new") });
  });

  it("an encrypted value passes through a run as it is, and a step that reads it fails", () => {
    const enc = { $enc: { v: "canary" } };
    const got: unknown[] = [];
    const run = finish(
      [
        { type: "action", action: "shop.charge", inputs: { card: "${inputs.card}", all: "${inputs}" }, next: "s2" },
        {
          type: "switch",
          cases: [{ when: "inputs.card.number == 1", next: "s3" }],
          next: "s3",
          on_error: "continue",
          save_as: "e",
        },
        { type: "end", output: { card: "${inputs.card}" } },
      ],
      {
        inputs: { card: enc },
        worker({ call }) {
          got.push(call.inputs);
          return { kind: "result", result: {} };
        },
      },
    );
    expect(got).toEqual([{ card: enc, all: { card: enc } }]);
    expect(run.context.output).toEqual({ card: enc });
    expect(run.context.variables.e).toMatchObject({
      error: { code: "expression_error", message: expect.stringContaining("encrypted") },
    });
    expect(rowsOf(run)).not.toContain("canary");
  });

  it("a concurrency key that reads a secret input is refused with the definition", () => {
    const input_schema = { properties: { pin: X, card: { properties: { number: X } }, id: {} } };
    const of = (key: string) => problems([{ id: "s", type: "noop" }], { input_schema, concurrency: { key, limit: 1 } });
    expect(of("${inputs.pin}")).toEqual([expect.stringMatching(/^\$\.concurrency\.key: .*inputs\.pin is secret/)]);
    expect(of("card ${inputs.card.number}")).toHaveLength(1);
    expect(of("${inputs.id}")).toEqual([]);
    expect(schemas.problems(input_schema)).toEqual([]);
  });
});
