// The graph of a workflow: what its chart and its definition become, where the nodes are, and what is drawn along the edges.
import { basename } from "node:path";
import { describe, expect, it } from "vitest";
import type { StepDocument } from "../../src/console/graph/blocks.js";
import { BEGIN, edgeId, FAILED, type GraphChart, graphOf, SUCCEEDED } from "../../src/console/graph/chart.js";
import { drawnEdges, drawnNodes } from "../../src/console/graph/drawn.js";
import { layoutOf } from "../../src/console/graph/layout.js";
import { unseen } from "../../src/console/graph/look.js";
import { EXAMPLES, exampleProgram } from "../machines/chart/examples.js";
import { program } from "../machines/definitions.js";

const BLOCKS = [
  { id: "fork", type: "parallel", branches: { x: { next: "left" }, y: { next: "inner" } }, next: "join" },
  { id: "left", type: "noop" },
  { id: "inner", type: "foreach", items: "[1]", body: "body" },
  { id: "body", type: "noop" },
  { id: "join", type: "join", next: "guard" },
  { id: "guard", type: "try_catch", try: "risky", catch: "mend", next: "pick" },
  { id: "risky", type: "action", action: "shop.risky", compensation: { action: "shop.calm" }, next: "checked" },
  { id: "checked", type: "noop" },
  { id: "mend", type: "noop" },
  { id: "pick", type: "switch", cases: [{ when: "1 > 0", next: "boom" }], default: "done" },
  { id: "boom", type: "error", code: "boom" },
  { id: "done", type: "end" },
];

function graph(steps: readonly StepDocument[]): GraphChart {
  return graphOf(program(steps as Parameters<typeof program>[0]).chart, steps);
}

const edge = ({ edges }: GraphChart, from: string, to: string) => edges.find(({ id }) => id === edgeId(from, to));

describe("a graph", () => {
  const blocks = graph(BLOCKS);

  it("has a node for each step, with its type and its undo, and for the begin and the ends", () => {
    expect(blocks.nodes.map(({ id }) => id)).toEqual([BEGIN, SUCCEEDED, FAILED, ...BLOCKS.map(({ id }) => id)]);
    expect(blocks.nodes.find(({ id }) => id === "risky")).toMatchObject({ type: "action", compensation: "shop.calm" });
  });

  it("leads from a parallel and a foreach into their blocks, and back to the step that waits for them", () => {
    expect(edge(blocks, "fork", "left")).toMatchObject({ kind: "children", label: "x" });
    expect(edge(blocks, "fork", "join")).toBeUndefined();
    expect(edge(blocks, "left", "join")).toMatchObject({ kind: "return" });
    expect(edge(blocks, "inner", "body")).toMatchObject({ kind: "children", label: "each item" });
    expect(edge(blocks, "body", "inner")).toMatchObject({ kind: "return" });
    expect(edge(blocks, "inner", "join")).toMatchObject({ kind: "return" });
    expect(blocks.nodes.find(({ id }) => id === "body")?.childOf).toBe("inner");
  });

  it("names choices and errors, and keeps quiet about errors that may go outward", () => {
    expect(edge(blocks, "pick", "boom")).toMatchObject({ kind: "choice", label: "1 > 0" });
    expect(edge(blocks, "guard", "mend")).toMatchObject({ kind: "error", label: "catch" });
    expect(edge(blocks, "risky", "guard")).toMatchObject({ kind: "error", quiet: true });
    expect(edge(blocks, "checked", "guard")).toMatchObject({ kind: "return", quiet: false });
    expect(edge(blocks, "boom", FAILED)).toMatchObject({ kind: "error" });
  });

  it.each(EXAMPLES.map((file) => [basename(file), file]))(
    "of %s has each edge between nodes that it has",
    (_, file) => {
      const { chart, document } = exampleProgram(file);
      const made = graphOf(chart, (document as unknown as { steps: StepDocument[] }).steps);
      const ids = new Set(made.nodes.map(({ id }) => id));
      expect(made.edges.filter(({ from, to }) => !ids.has(from) || !ids.has(to))).toEqual([]);
      expect(new Set(made.edges.map(({ id }) => id)).size).toBe(made.edges.length);
    },
  );

  it("tells a screen reader what is not drawn: the id beside a title, more lines, the undo", () => {
    const node = { ...blocks.nodes.find(({ id }) => id === "risky")!, name: "A risk" };
    expect(unseen(node, { tone: "failed", lines: ["a", "b", "declined"] })).toBe(
      "risky, declined, undone by shop.calm",
    );
  });
});

describe("a layout", () => {
  it("puts no node over another, and what follows a block below it", () => {
    const { boxes } = layoutOf(graph(BLOCKS));
    const all = [...boxes.values()];
    const covers = all.filter((one) =>
      all.some(
        (other) =>
          other !== one &&
          one.x < other.x + other.width &&
          other.x < one.x + one.width &&
          one.y < other.y + other.height &&
          other.y < one.y + one.height,
      ),
    );
    expect(covers).toEqual([]);
    expect(boxes.get("pick")!.y).toBeGreaterThan(boxes.get("risky")!.y);
    expect(boxes.get("join")!.y).toBeGreaterThan(boxes.get("body")!.y);
  });

  it("is kept for a chart, and made anew when a draft has other steps", () => {
    const chart = graph(BLOCKS);
    expect(layoutOf(graph(BLOCKS))).toBe(layoutOf(chart));
    expect(layoutOf(graph([{ id: "only", type: "noop" }])).boxes.has("only")).toBe(true);
  });

  it("of a thousand steps has a place for each", () => {
    const steps = Array.from({ length: 1_000 }, (_, nth) => ({
      ...{ id: `s${nth}`, type: "noop" },
      ...(nth < 999 && { next: `s${nth + 1}` }),
    }));
    expect(layoutOf(graph(steps)).boxes.size).toBe(1_002);
  });
});

describe("what is drawn", () => {
  const chart = graph(BLOCKS);
  const layout = layoutOf(chart);

  it("shows the looks of nodes and of edges, and the step that is selected", () => {
    const nodes = drawnNodes(chart, layout, new Map([["left", { tone: "done" }]]), "left");
    expect(nodes.find(({ id }) => id === "left")?.data).toMatchObject({ look: { tone: "done" }, isSelected: true });
    const edges = drawnEdges(chart, layout, new Map([[edgeId("fork", "left"), "taken"]]));
    expect(edges.find(({ id }) => id === edgeId("fork", "left"))?.className).toBe("edge children taken");
  });

  it("shows the undo as arrows from where the rollback began through the undone steps, numbered", () => {
    const undo = drawnEdges(chart, layout, undefined, ["boom", "risky", "risky", "left"]);
    const arrows = undo.filter(({ type }) => type === "undo");
    expect(arrows.map(({ source, target, data }) => [source, target, data?.label])).toEqual([
      ["boom", "risky", "1"],
      ["risky", "left", "3"],
    ]);
  });

  it("leaves out a quiet edge until it is taken", () => {
    const quiet = chart.edges.find((one) => one.quiet)?.id ?? "";
    expect(drawnEdges(chart, layout).some(({ id }) => id === quiet)).toBe(false);
    expect(drawnEdges(chart, layout, new Map([[quiet, "taken"]])).some(({ id }) => id === quiet)).toBe(true);
  });
});
