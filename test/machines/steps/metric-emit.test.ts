// metric_emit: the audit event that it leaves. How /metrics shows it: test/metrics/workflow-metrics.test.ts.
import { describe, expect, it } from "vitest";
import { attribute, type Draft, failureOf, finish, metadataOf, problemsOf, rowsOf, typesOf } from "./rig.js";

const INPUTS = { n: 2, shop: "north", list: [1] };
const emit = (more: Record<string, unknown> = {}): Draft => ({ type: "metric_emit", name: "orders", ...more });
const emitted = (more?: Record<string, unknown>) => metadataOf(finish([emit(more)], { inputs: INPUTS }), "metric");
const failed = (more: Record<string, unknown>) => failureOf(finish([emit(more)], { inputs: INPUTS }));

describe("metric_emit", () => {
  attribute("metric_emit.name", "is a template of 1 to 128 characters", () => {
    expect(emitted()).toEqual({ name: "orders", kind: "counter", value: 1, tags: {} });
    expect(emitted({ name: "orders.${inputs.shop}" })?.name).toBe("orders.north");
    expect(problemsOf({ type: "metric_emit" })).toEqual([".name: is required"]);
    const rule = "must have 1 to 128 characters";
    expect(problemsOf(emit({ name: "" }))).toEqual([`.name: ${rule}`]);
    expect(problemsOf(emit({ name: "x".repeat(129) }))).toEqual([`.name: ${rule}`]);
    expect(failed({ name: "${''}" })).toBe(`expression_error: name ${rule}`);
    expect(failed({ name: "${1}" })).toBe("expression_error: name must be a string");
  });

  attribute("metric_emit.value", "is 1 by default, a number or one whole template", () => {
    expect(emitted({ value: 2.5 })?.value).toBe(2.5);
    expect(emitted({ value: "${inputs.n * 2}" })?.value).toBe(4);
    expect(emitted({ value: -1, kind: "gauge" })?.value).toBe(-1);
    for (const value of ["${decimal('19.90') * 3}", "${optional.of(decimal('59.7'))}"])
      expect(emitted({ value })?.value, "a decimal is a number where one is asked for").toBe(59.7);
    expect(failed({ value: "${inputs.shop}" })).toBe("expression_error: value must be a number");
    expect(failed({ value: "${'2'}" })).toBe("expression_error: value must be a number");
    expect(problemsOf(emit({ value: "2" }))).toEqual([".value: must be a number"]);
    expect(problemsOf(emit({ value: [] }))).toEqual([".value: must be a number"]);
  });

  attribute("metric_emit.kind", "is a counter by default; a counter never falls", () => {
    for (const kind of ["counter", "gauge", "histogram"]) expect(emitted({ kind })?.kind).toBe(kind);
    expect(problemsOf(emit({ kind: "summary" }))).toEqual([".kind: must be one of counter, gauge, histogram"]);
    const rule = "must not be negative: a counter only grows";
    expect(problemsOf(emit({ value: -1 }))).toEqual([`.value: ${rule}`]);
    expect(failed({ value: "${-inputs.n}" })).toBe(`expression_error: value ${rule}`);
  });

  attribute("metric_emit.tags", "are texts, at most sixteen", () => {
    const tags = { shop: "${inputs.shop}", n: "${inputs.n}", ok: true };
    expect(emitted({ tags })?.tags).toEqual({ shop: "north", n: "2", ok: "true" });
    expect(failed({ tags: { list: "${inputs.list}" } })).toBe(
      "expression_error: the values of tags must be strings, numbers or booleans",
    );
    expect(failed({ tags: { none: null } })).toMatch(/^expression_error: the values of tags/);
    expect(problemsOf(emit({ tags: ["a"] }))).toEqual([".tags: must be an object"]);
    const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`t${index}`, 1]));
    expect(Object.keys(emitted({ tags: many(16) })?.tags ?? {})).toHaveLength(16);
    expect(failed({ tags: many(17) })).toBe("limit_exceeded: the metric orders has over 16 tags");
  });

  it("metric_emit: one row between the step's start and its success; every entry has its own", () => {
    expect(typesOf(finish([emit()]), "s")).toEqual(["step.started", "metric", "step.succeeded"]);
    const twice = finish([
      emit({ next: "s2" }),
      { type: "set_var", name: "x", value: "${has(vars.x) ? 2 : 1}", next: "s3" },
      { type: "switch", cases: [{ when: "vars.x == 1", next: "s" }], default: "s4" },
      { type: "end" },
    ]);
    expect(rowsOf(twice, "s").filter(({ type }) => type === "metric")).toHaveLength(2);
  });

  it("metric_emit: a dry run's says that it is one", () => {
    const run = finish([emit()], { identity: { dryRun: true } });
    expect(metadataOf(run, "metric")).toEqual({ name: "orders", kind: "counter", value: 1, tags: {}, dry_run: true });
  });
});
