// What the pages of workflows draw from: differences of versions, rehearsals, sketches, figures, what a form sends. No browser and no service.
import { describe, expect, it } from "vitest";
import { stepBook } from "../../machines/index.js";
import { edgeId, type GraphChart, SUCCEEDED } from "../../src/console/graph/chart.js";
import { stepNames } from "../../src/console/graph/names.js";
import { difference, isSame } from "../../src/console/workflows/difference.js";
import { rates, successRate, sum } from "../../src/console/workflows/figures.js";
import { mockable, withMock } from "../../src/console/workflows/mocks.js";
import { drawn, type Happened, type Rehearsed } from "../../src/console/workflows/rehearsal.js";
import { remarked, sketch, stepAt } from "../../src/console/workflows/sketch.js";
import { labelsOf, startBody } from "../../src/console/workflows/start.js";

describe("the difference of two versions", () => {
  const step = (id: string, more: object = {}) => ({ id, type: "noop", ...more });
  const document = (steps: readonly object[], more: object = {}) => ({ id: "order", name: "An order", steps, ...more });

  it("has the steps that were added, removed and changed, with the members that changed", () => {
    const before = document([step("a", { next: "b", retry: { max_attempts: 3, jitter: true } }), step("b"), step("c")]);
    const after = document([step("c"), step("a", { next: "d", retry: { max_attempts: 5, jitter: true } }), step("d")]);
    const { added, removed, changed, members } = difference(before, after);
    expect([added, removed].map((steps) => steps.map(({ id }) => id))).toEqual([["d"], ["b"]]);
    expect(changed).toEqual([
      {
        id: "a",
        changes: [
          { path: "$.next", before: "b", after: "d" },
          { path: "$.retry.max_attempts", before: 3, after: 5 },
        ],
      },
    ]);
    expect(members).toEqual([]);
  });

  it("says what is absent in one of them, and compares lists of one length by place", () => {
    const before = document([step("a", { cases: [{ when: "x", next: "b" }], when: "old", "odd-name": 1 })]);
    const after = document([step("a", { cases: [{ when: "y", next: "b" }], title: "new" })], { timeout_ms: 5 });
    const { changed, members } = difference(before, after);
    expect(changed[0]?.changes).toEqual([
      { path: "$.cases[0].when", before: "x", after: "y" },
      { path: "$.when", before: "old" },
      { path: '$["odd-name"]', before: 1 },
      { path: "$.title", after: "new" },
    ]);
    expect(members).toEqual([{ path: "$.timeout_ms", after: 5 }]);
  });

  it("is none between versions that differ in storage, the order of steps or the order of members", () => {
    const stored = { version: 1, published: true, created_at: "2026-01-01T00:00:00.000Z" };
    const before = document([step("a", { inputs: { x: 1, y: [1, { z: 2 }] } }), step("b")], stored);
    const after = document([step("b"), { inputs: { y: [1, { z: 2 }], x: 1 }, type: "noop", id: "a" }], { version: 2 });
    expect(isSame(difference(before, after))).toBe(true);
  });
});

const chartOf = (ids: readonly string[], ways: readonly (readonly [string, string])[], holds: readonly string[] = []) =>
  ({
    key: "order 1",
    nodes: ids.map((id) => ({
      ...{ id, kind: "step", name: id, type: "noop", about: "" },
      ...(holds.includes(id) && { holds: "rounds" }),
    })),
    edges: ways.map(([from, to]) => ({
      id: edgeId(from, to),
      from,
      to,
      kind: "way",
      label: "",
      about: "",
      quiet: false,
    })),
  }) as GraphChart;

let seq = 0;
const event = (step_id: string, event_type: string, more: Partial<Happened> = {}): Happened => ({
  ...{ seq: ++seq, run_id: "r", workflow_id: "order", step_id, attempt: 0, event_type, recorded_at: "" },
  ...more,
});
const undo = { metadata: { phase: "compensation" } };
const rehearsed = (events: readonly Happened[], more: Partial<Rehearsed> = {}): Rehearsed => ({
  ...{ state: "succeeded", variables: {}, requires_manual_review: false, events },
  ...more,
});

describe("a rehearsal", () => {
  const chart = chartOf(
    ["a", "b", "c"],
    [
      ["a", "b"],
      ["b", "c"],
      ["a", "c"],
      ["b", SUCCEEDED],
    ],
  );

  it("shows the steps that it reached, the ways that it took, and its end", () => {
    const events = ["a", "b"].flatMap((id) => [event(id, "step.started"), event(id, "step.succeeded")]);
    const { looks, edgeLooks, undoWay } = drawn(rehearsed(events), chart);
    expect([...looks].map(([id, { tone }]) => [id, tone])).toEqual([
      ["a", "done"],
      ["b", "done"],
    ]);
    expect([...edgeLooks.keys()]).toEqual([edgeId("a", "b"), edgeId("b", SUCCEEDED)]);
    expect(undoWay).toEqual([]);
  });

  it("shows the error at its step, how often it was tried, and the undo in its order", () => {
    const failed = { metadata: { code: "busy", message: "later" } };
    const events = [
      ...[event("a", "step.started"), event("a", "step.succeeded"), event("b", "step.started")],
      ...[event("b", "step.failed", { attempt: 1, ...failed }), event("b", "step.failed", { attempt: 2, ...failed })],
      ...[event("a", "step.started", undo), event("a", "step.succeeded", { attempt: 2, ...undo })],
    ];
    const error = { code: "busy", message: "later", step_id: "b" };
    const { looks, undoWay } = drawn(rehearsed(events, { state: "failed", error }), chart);
    expect(looks.get("b")).toEqual({ tone: "failed", lines: ["2 attempts", "busy: later", "the run failed here"] });
    expect(looks.get("a")?.tone).toBe("undone");
    expect(undoWay).toEqual(["b", "a"]);
  });

  it("shows a step as done when a later attempt succeeded, as failed when its undo failed, and counts its entries", () => {
    const events = [
      ...[
        event("a", "step.started"),
        event("a", "step.failed", { attempt: 1 }),
        event("a", "step.succeeded", { attempt: 2 }),
      ],
      ...[
        event("b", "step.started"),
        event("b", "step.succeeded"),
        event("b", "step.started"),
        event("b", "step.succeeded"),
      ],
      event("c", "step.skipped"),
    ];
    const { looks } = drawn(rehearsed(events), chart);
    expect(looks.get("a")).toEqual({ tone: "done", lines: ["2 attempts"] });
    expect(looks.get("b")).toEqual({ tone: "done", badge: "2×" });
    expect(looks.get("c")?.tone).toBe("skipped");
    const broken = [...events, event("b", "step.failed", { metadata: { phase: "compensation", code: "closed" } })];
    expect(drawn(rehearsed(broken), chart).looks.get("b")).toMatchObject({
      tone: "failed",
      lines: ["closed", "the undo failed"],
    });
  });

  it("leaves out the steps of a sub-saga, and goes on after a loop where the loop does", () => {
    const loop = chartOf(
      ["loop", "body", "after"],
      [
        ["loop", "body"],
        ["loop", "after"],
      ],
      ["loop"],
    );
    const events = [
      ...[event("loop", "step.started"), event("body", "step.started"), event("after", "step.started")],
      event("body", "step.failed", { workflow_id: "other", run_id: "child" }),
    ];
    const { looks, edgeLooks } = drawn(rehearsed(events, { state: "failed" }), loop);
    expect(looks.get("body")?.tone).not.toBe("failed");
    expect([...edgeLooks.keys()]).toEqual([edgeId("loop", "body"), edgeId("loop", "after")]);
  });
});

describe("the sketch of a definition", () => {
  const document = {
    ...{ id: "x", start: "a" },
    steps: [
      { id: "a", type: "switch", cases: [{ when: "inputs.x > 1", next: "b" }], default: "c" },
      { id: "b", type: "parallel", branches: { left: { next: "c" } }, next: "nowhere", on_error: "c" },
      { id: "c", type: "foreach", inputs: { body: "a" }, compensation: { action: "shop.undo" } },
      { type: "noop" },
      "no step",
    ],
  };

  it("has the ways that lead to a step, right or wrong as it is, and a node for what has no id", () => {
    const { nodes, edges } = sketch(document, stepBook());
    expect(nodes.map(({ id }) => id)).toEqual(["(begin)", "a", "b", "c", "step 4", "step 5"]);
    expect(nodes[3]?.compensation).toBe("shop.undo");
    expect(edges.map(({ id, kind, label }) => [id, kind, label])).toEqual([
      ["(begin) > a", "way", ""],
      ["a > b", "choice", "inputs.x > 1"],
      ["a > c", "choice", "default"],
      ["b > c", "error", "on_error · left"],
      ["c > a", "choice", "body"],
    ]);
  });

  it("shows problems at their steps, before warnings", () => {
    const errors = [
      { path: "$.steps[1].next", message: 'there is no step "nowhere"' },
      { path: "$.name", message: "is required" },
    ];
    const looks = remarked(document, errors, [
      { path: "$.steps[1]", message: "cannot be reached" },
      { path: "$.steps[3]", message: "cannot be reached" },
    ]);
    expect([...looks.keys()].sort()).toEqual(["b", "step 4"]);
    expect(looks.get("b")).toEqual({
      tone: "failed",
      word: "has a problem",
      badge: "1 problem",
      lines: ['next there is no step "nowhere"'],
    });
    expect(looks.get("step 4")?.badge).toBe("1 warning");
    expect(stepAt(document, "$.steps[2].compensation.action")).toBe("c");
    expect(stepAt(document, "$.start")).toBeUndefined();
  });
});

describe("the name of a step of a version", () => {
  it("is its title, or its id where the title needs the values of a run", () => {
    const steps = [{ id: "a", title: "Pay it" }, { id: "b", title: "Pay ${inputs.price}" }, { id: "c" }];
    expect([...stepNames(steps).values()]).toEqual(["Pay it", "b", "c"]);
  });
});

describe("figures", () => {
  const bucket = { at: "2026-01-01T00:00:00.000Z", succeeded: 6, failed: 2, cancelled: 1 };

  it("are rates a minute, sums, and a share that leaves cancelled runs out", () => {
    expect(rates([bucket], 120_000, "succeeded")).toEqual([3]);
    expect(sum([bucket, bucket])).toEqual({ succeeded: 12, failed: 4, cancelled: 2 });
    expect(successRate(bucket)).toBe(0.75);
    expect(successRate({ succeeded: 0, failed: 0, cancelled: 3 })).toBeUndefined();
  });
});

describe("a start form", () => {
  const options = {
    entrypoint: "",
    businessKey: "",
    onConflict: "",
    priority: "",
    fairnessKey: "",
    labels: "",
    dryRun: false,
  };

  it("sends what was filled in, and nothing else", () => {
    const workflow = { id: "order", version: 2 };
    expect(startBody(workflow, { a: 1 }, options)).toEqual({ workflow_id: "order", version: 2, inputs: { a: 1 } });
    const all = {
      entrypoint: "late",
      businessKey: "k",
      onConflict: "return",
      priority: "5",
      fairnessKey: "shop-7",
      labels: "region = eu\n\nurl=a=b",
      dryRun: true,
    };
    expect(startBody(workflow, {}, all)).toMatchObject({
      ...{
        entrypoint: "late",
        business_key: "k",
        on_conflict: "return",
        priority: 5,
        fairness_key: "shop-7",
        labels: { region: "eu", url: "a=b" },
        dry_run: true,
      },
    });
  });

  it("says which line is no label", () => {
    expect(labelsOf("region=eu\nnorth").fault).toBe('"north" is no label: write name=value.');
  });
});

describe("mocks", () => {
  it("are offered for the steps that take one, and keep those of other steps", () => {
    const steps = [
      { id: "a", type: "action" },
      { id: "b", type: "noop" },
      { id: "c", type: "sub_saga" },
    ];
    expect(mockable(steps, stepBook())).toEqual(["a", "c"]);
    expect(JSON.parse(withMock({ a: [1] }, "c", [2]))).toEqual({ a: [1], c: [2] });
  });
});
