// `null` for an optional attribute of a document counts as absent, except where it is a value: `save_as`, and attributes that take any value.
import { describe, expect, it } from "vitest";
import type { Attributes } from "../../machines/attribute/kinds.js";
import { COMMON } from "../../machines/definition/step.js";
import { compileRule, compileWorkflow, type JsonObject, readMocks, readTrigger } from "../../machines/index.js";
import { STEP_TYPES } from "../../machines/steps/index.js";

const HEAD = { id: "w", name: "W", start: "s" };
const step = (members: object) => ({ ...HEAD, steps: [{ id: "s", ...members }] });
const problemsOf = (document: object) => {
  const { problems, warnings } = compileWorkflow(document);
  return { problems, warnings };
};
/** The names of the attributes for which null says nothing. */
const nullable = (attributes: Attributes) =>
  Object.entries(attributes).flatMap(([name, { required, kind }]) => (required || kind.takesNull ? [] : [name]));
const nulls = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, null]));

describe("null for an optional attribute", () => {
  it.each([...STEP_TYPES.values()])("of the step type $name counts as absent", ({ name, attributes, retries }) => {
    const plain = { type: name };
    const names = [...nullable(COMMON), ...nullable(attributes), ...(retries ? ["retry"] : [])];
    expect(names.length).toBeGreaterThan(5);
    for (const each of names)
      expect([each, problemsOf(step({ ...plain, [each]: null }))]).toEqual([each, problemsOf(step(plain))]);
    expect(problemsOf(step({ ...plain, ...nulls(names) }))).toEqual(problemsOf(step(plain)));
  });

  it.each([...STEP_TYPES.values()])("of another step type counts as absent at a step of the type $name", ({ name }) => {
    const everyType = [...STEP_TYPES.values()].flatMap(({ attributes }) => Object.keys(attributes));
    const own = STEP_TYPES.get(name)?.attributes ?? {};
    const others = ["retry", ...everyType].filter((each) => !Object.hasOwn(own, each));
    const plain = { type: name };
    expect(problemsOf(step({ ...plain, ...nulls(others) }))).toEqual(problemsOf(step(plain)));
  });

  it("inside `inputs` counts as absent too, and one beside them gives way to one inside", () => {
    const inside = step({ type: "log", level: null, message: null, inputs: { message: "hello", fields: null } });
    expect(problemsOf(inside).problems).toEqual([]);
    expect(problemsOf(step({ type: "noop", inputs: null })).problems).toEqual([]);
  });

  it("of a workflow, a compensation, a retry policy or a case counts as absent", () => {
    const head = nulls([
      ...["$schema", "version", "tenant_id", "description", "entrypoints", "published", "created_at", "created_by"],
      ...[
        "input_schema",
        "timeout_ms",
        "on_failure",
        "on_undo_failure",
        "migrations",
        "concurrency",
        "rate_limit",
        "retention",
      ],
    ]);
    const policy = { max_attempts: 2, initial_backoff_ms: 10, max_backoff_ms: null, multiplier: null, jitter: null };
    const compensation = { action: "shop.refund", inputs: null };
    const pay = {
      id: "s",
      type: "action",
      action: "shop.charge",
      retry: policy,
      compensation,
      inputs: null,
      next: "t",
    };
    const choose = { id: "t", type: "switch", cases: [{ when: "true", next: "s" }], default: null };
    const document = { ...HEAD, ...head, concurrency: { key: "k", limit: 1, on_limit: null }, steps: [pay, choose] };
    const { program, problems } = compileWorkflow(document);
    expect(problems).toEqual([]);
    expect(program).toMatchObject({ version: 1, concurrency: { onLimit: "queue" }, entrypoints: { default: "s" } });
    expect(program?.timeoutMs).toBeUndefined();
    expect(program?.document, "it is kept as it was posted").toBe(document);
  });

  it("of a rule or a trigger counts as absent", () => {
    const spec = { hit_policy: "first", rows: [{ when: "true", then: { a: null } }], default_output: null };
    const names = ["id", "version", "tenant_id", "published", "created_at", "created_by"];
    const rule = compileRule({ rule_id: "r", name: "R", rule_type: "decision_table", spec, ...nulls(names) });
    expect(rule).toMatchObject({ problems: [], rule: { version: 1, rows: [{ then: { a: null } }] } });
    const config = { schedule: "0 3 * * *", ...nulls(["inputs", "overlap_policy", "catchup", "catchup_window_ms"]) };
    const trigger = readTrigger({
      ...{ trigger_type: "cron", workflow_id: "w", config },
      ...nulls(["version", "enabled", "tenant_id"]),
      ...nulls(["id", "created_at", "created_by", "next_fire_at", "last_fired_at"]),
    });
    expect(trigger).toMatchObject({
      ...{ problems: [], value: { enabled: true, rule: { config: { overlap_policy: "allow" } } } },
    });
  });

  it("of a mock counts as absent, but an output may be null", () => {
    const { program } = compileWorkflow(step({ type: "wait_for_event", topic: "t" }));
    if (!program) throw new Error("the workflow is not valid");
    const given: JsonObject = {
      s: [{ output: 1, error: null }, { output: null, error: { code: "timeout", message: null } }, { output: null }],
    };
    expect(readMocks(given, program)).toEqual({
      ...{ problems: [], mocks: { s: [{ output: 1 }, { error: { code: "timeout" } }, { output: null }] } },
    });
  });
});

describe("null", () => {
  it("is a value where any value may stand", () => {
    for (const members of [
      { type: "set_var", name: "x", value: null },
      { type: "transform", template: null },
      { type: "end", output: null },
      { type: "set_var", variables: { x: null } },
    ])
      expect(problemsOf(step(members)).problems).toEqual([]);
  });

  it("beside the other form of a step says nothing", () => {
    for (const members of [
      { type: "transform", expression: "1", template: null },
      { type: "map", items: "[1]", expression: "item", template: null },
      { type: "set_var", variables: { x: 1 }, name: null, value: null },
      { type: "http_request", url: "https://example.org", body: null },
    ])
      expect([members, problemsOf(step(members)).problems]).toEqual([members, []]);
  });

  it("of `save_as` discards the output", () => {
    const { program } = compileWorkflow(step({ type: "transform", expression: "1", save_as: null }));
    expect(program?.steps.get("s")?.saveAs).toBeNull();
  });

  it("for what is required, or for a member that is unknown, is a problem", () => {
    expect(problemsOf({ ...HEAD, name: null, steps: [{ id: "s", type: "noop" }] }).problems).toEqual([
      { path: "$.name", message: "is required" },
    ]);
    expect(problemsOf(step({ type: "noop", colour: null })).problems).toMatchObject([{ path: "$.steps[0].colour" }]);
  });
});
