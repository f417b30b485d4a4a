// The JSON Schemas of documents, for editors: they are fresh, take what the compiler takes, and refuse what it refuses for its shape alone.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv } from "ajv";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compileRule, compileWorkflow, readTrigger } from "../../machines/index.js";
import { STEP_TYPES } from "../../machines/steps/index.js";
import { EXAMPLES } from "../machines/chart/examples.js";
import { documents } from "../machines/definitions.js";
import { editorSchemas } from "./generated.js";

const SCHEMAS = editorSchemas();
const ajv = new Ajv({ strict: false, allErrors: true });
const [workflow, rule, trigger] = ["workflow", "rule", "trigger"].map((name) =>
  ajv.compile(SCHEMAS[`${name}.schema.json`] ?? {}),
) as [ReturnType<typeof ajv.compile>, ReturnType<typeof ajv.compile>, ReturnType<typeof ajv.compile>];

const problemsOf = (validate: typeof workflow, document: unknown) =>
  validate(document) ? [] : (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);

const DOCS = join(import.meta.dirname, "../../docs/schemas");
const step = (more: object) => ({ id: "w", name: "W", start: "a", steps: [{ id: "a", ...more }] });
const head = (more: object) => ({ ...step({ type: "noop" }), ...more });

describe("the JSON Schemas in docs/schemas", () => {
  it("are what `npm run docs` writes", () => {
    expect(readdirSync(DOCS).sort()).toEqual(Object.keys(SCHEMAS).sort());
    for (const [name, schema] of Object.entries(SCHEMAS))
      expect(JSON.parse(readFileSync(join(DOCS, name), "utf8"))).toEqual(JSON.parse(JSON.stringify(schema)));
  });

  it("describe every attribute of every step type", () => {
    const { definitions } = SCHEMAS["workflow.schema.json"] as {
      definitions: Record<string, { properties: Record<string, { description?: string }> }>;
    };
    for (const { name, attributes } of STEP_TYPES.values())
      for (const attribute of Object.keys(attributes))
        expect(definitions[`step_${name}`]?.properties[attribute]?.description, `${name}.${attribute}`).toBeTruthy();
  });
});

describe("what the compiler takes, the schema takes:", () => {
  it("every example", () => {
    const triggers = EXAMPLES.flatMap((file) => {
      const folder = join(file, "..");
      return readdirSync(folder)
        .filter((name) => name.endsWith(".trigger.json"))
        .map((name) => join(folder, name));
    });
    expect(triggers.length).toBeGreaterThan(1);
    const read = (file: string): unknown => JSON.parse(readFileSync(file, "utf8"));
    expect(EXAMPLES.flatMap((file) => problemsOf(workflow, read(file)))).toEqual([]);
    expect(triggers.flatMap((file) => problemsOf(trigger, read(file)))).toEqual([]);
  });

  const takes = (numRuns: number) =>
    fc.assert(
      fc.property(documents, ({ steps, head: more }) => {
        const document = { id: "w", name: "W", start: steps[0]?.id, steps, ...more };
        if (compileWorkflow(document).program) expect(problemsOf(workflow, document)).toEqual([]);
      }),
      { numRuns },
    );
  it("50 random definitions", () => takes(50));
  it("500 random definitions", { tags: "long" }, () => takes(500));

  it.each([
    ["attributes inside inputs", step({ type: "transform", inputs: { expression: "1" } })],
    ["required attributes inside inputs", step({ type: "filter", inputs: { items: "[1]", condition: "true" } })],
    ["required attributes in both places", step({ type: "filter", items: "[1]", inputs: { condition: "true" } })],
    ["null for attributes of other types", step({ type: "noop", topic: null, retry: null, inputs: null, next: null })],
    ["a templated number", step({ type: "wait_duration", duration_ms: "${inputs.ms}" })],
    ["a templated object", step({ type: "log", message: "é 🎉", fields: "${vars}" })],
    ["an output that is discarded", step({ type: "transform", expression: "1", save_as: null })],
    ["null as a value", step({ type: "set_var", name: "x", value: null })],
    [
      "retention by state",
      head({ retention: { days: 1, succeeded_days: 36_500, failed_days: null, cancelled_days: 7 } }),
    ],
    ["$schema, and what the service sets", head({ $schema: "./x.json", created_at: "2026-01-01", published: true })],
  ])("%s", (_, document) => {
    expect(compileWorkflow(document).problems).toEqual([]);
    expect(problemsOf(workflow, document)).toEqual([]);
  });
});

describe("what the compiler refuses for its shape, the schema refuses:", () => {
  it.each([
    ["an unknown member of the document", head({ stpes: [] })],
    ["a document without a name", { ...step({ type: "noop" }), name: undefined }],
    ["a document without steps", head({ steps: [] })],
    ["a version of 0", head({ version: 0 })],
    ["an unknown policy", head({ on_failure: "retry" })],
    ["a key of concurrency that is missing", head({ concurrency: { limit: 1 } })],
    ["a retention of no days", head({ retention: { days: 0 } })],
    ["a retention of half a day", head({ retention: { failed_days: 0.5 } })],
    ["a retention of a state that is no end", head({ retention: { paused_days: 1 } })],
    ["a step without a type", step({})],
    ["a step without an id", { ...step({}), steps: [{ type: "noop" }] }],
    ["an id with a blank", { ...step({}), steps: [{ id: "a b", type: "noop" }] }],
    ["an unknown type", step({ type: "noob" })],
    ["an attribute of another type", step({ type: "noop", topic: "x" })],
    ["a misspelt attribute", step({ type: "log", mesage: "x", message: "x" })],
    ["a misspelt attribute inside inputs", step({ type: "log", inputs: { mesage: "x", message: "x" } })],
    ["a required attribute that is missing", step({ type: "log" })],
    ["a required attribute that is null", step({ type: "log", message: null })],
    ["a number for an expression", step({ type: "transform", expression: 1 })],
    ["an object for a text", step({ type: "log", message: {} })],
    ["a text for an object", step({ type: "log", message: "x", fields: "none" })],
    ["a text for a number", step({ type: "wait_duration", duration_ms: "1000" })],
    ["a negative time", step({ type: "wait_duration", duration_ms: -1 })],
    [
      "a broken number of attempts",
      step({ type: "action", action: "a.b", retry: { max_attempts: 1.5, initial_backoff_ms: 1 } }),
    ],
    ["no attempts", step({ type: "action", action: "a.b", retry: { max_attempts: 0, initial_backoff_ms: 1 } })],
    ["a retry policy without a backoff", step({ type: "action", action: "a.b", retry: { max_attempts: 2 } })],
    ["a retry of a step that takes none", step({ type: "noop", retry: { max_attempts: 2, initial_backoff_ms: 1 } })],
    ["a compensation without an action", step({ type: "action", action: "a.b", compensation: {} })],
    ["a word that is none of the enum", step({ type: "log", message: "x", level: "loud" })],
    ["a next of a step that has none", step({ type: "end", next: "a" })],
    ["branches that are empty", step({ type: "decision", expression: "1", branches: {} })],
    ["a branch without a next", step({ type: "decision", expression: "1", branches: { a: {} } })],
    ["a list that is none", step({ type: "merge", sources: "x" })],
    ["a status out of range", step({ type: "http_request", url: "https://a.example", expected_status: [99] })],
  ])("%s", (_, document) => {
    expect(compileWorkflow(JSON.parse(JSON.stringify(document))).problems.length).toBeGreaterThan(0);
    expect(problemsOf(workflow, JSON.parse(JSON.stringify(document)))).not.toEqual([]);
  });

  const spec = { hit_policy: "first", rows: [{ when: "true", then: {} }] };
  const table = { rule_id: "r", name: "R", rule_type: "decision_table", spec };
  const cron = { trigger_type: "cron", workflow_id: "w", config: { schedule: "0 3 * * *" } };
  it("of a rule and of a trigger", () => {
    expect([problemsOf(rule, table), compileRule(table).problems]).toEqual([[], []]);
    expect([problemsOf(trigger, cron), readTrigger(cron).problems]).toEqual([[], []]);
    const rules = [
      { ...table, rows: [] },
      { ...table, spec: { ...spec, rows: [{ when: 1, then: {} }] } },
    ];
    for (const faulty of rules) {
      expect(compileRule(faulty).problems).not.toEqual([]);
      expect(problemsOf(rule, faulty)).not.toEqual([]);
    }
    const triggers = [
      { ...cron, trigger_type: "timer" },
      { ...cron, config: {} },
      { ...cron, trigger_type: "record_transition" },
      { ...cron, config: { ...cron.config, overlap_policy: "queue" } },
    ];
    for (const faulty of triggers) {
      expect(readTrigger(faulty).problems).not.toEqual([]);
      expect(problemsOf(trigger, faulty)).not.toEqual([]);
    }
  });
});
