// The graph of a workflow: what its chart and its definition become, where the nodes are, and what is drawn along the edges.
import { describe, expect, it } from "vitest";
import { stepBook } from "../../machines/index.js";
import type { StepDocument } from "../../src/console/graph/blocks.js";
import { BEGIN, edgeId, FAILED, type GraphChart, graphOf, SUCCEEDED } from "../../src/console/graph/chart.js";
import { drawnEdges, drawnNodes } from "../../src/console/graph/drawn.js";
import { firstSight, focusOf, isInView, READABLE } from "../../src/console/graph/first-sight.js";
import { type Box, layoutOf, type Point } from "../../src/console/graph/layout.js";
import { kindLine, type Look, unseen, wordOf } from "../../src/console/graph/look.js";
import { undoWay } from "../../src/console/graph/path.js";
import { EXAMPLES, exampleName, exampleProgram } from "../machines/chart/examples.js";
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
  return graphOf(program(steps as Parameters<typeof program>[0]).chart, steps, stepBook());
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

  it.each(EXAMPLES.map((file) => [exampleName(file), file]))(
    "of %s has each edge between nodes that it has",
    (_, file) => {
      const { chart, document } = exampleProgram(file);
      const made = graphOf(chart, (document as unknown as { steps: StepDocument[] }).steps, stepBook());
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

/** Whether a line between two points goes through the inside of a box. */
function crosses(from: Point, to: Point, { x, y, width, height }: Box): boolean {
  const [left, right] = [Math.min(from.x, to.x), Math.max(from.x, to.x)];
  const [top, bottom] = [Math.min(from.y, to.y), Math.max(from.y, to.y)];
  return right > x + 0.5 && left < x + width - 0.5 && bottom > y + 0.5 && top < y + height - 0.5;
}

describe("the way of an undo", () => {
  const branches = Object.fromEntries(Array.from({ length: 6 }, (_, nth) => [`b${nth}`, { next: `w${nth}` }]));
  const WIDE = [
    { id: "first", type: "noop", next: "fork" },
    { id: "fork", type: "parallel", branches, next: "join" },
    ...Array.from({ length: 6 }, (_, nth) => ({
      ...{ id: `w${nth}`, type: "noop" },
      ...(nth % 2 === 0 && { title: "A title that is so long that its box has two lines" }),
    })),
    { id: "join", type: "join", next: "last" },
    { id: "last", type: "noop" },
  ];

  it.each([
    ["blocks", BLOCKS],
    ["branches side by side", WIDE],
  ])("goes through no box of %s, between any two steps", (_, steps) => {
    const { boxes } = layoutOf(graph(steps));
    const all = [...boxes.values()];
    const hit = [...boxes].flatMap(([from, start], nth) =>
      [...boxes].flatMap(([to, end]) => {
        if (from === to) return [];
        const { points } = undoWay(start, end, all, nth);
        const lines = points.slice(1).map((point, index) => [points[index]!, point] as const);
        return lines.some(([a, b]) => all.some((box) => crosses(a, b, box))) ? [`${from} to ${to}`] : [];
      }),
    );
    expect(hit).toEqual([]);
  });
});

describe("a look", () => {
  it.each<[string, string, Look | undefined]>([
    ["wait_duration", "wait_duration", undefined],
    ["running · wait_duration", "wait_duration", { tone: "live" }],
    ["paused by an operator · noop", "noop", { tone: "paused", word: "paused by an operator" }],
    ["paused by an operator", "wait_duration", { tone: "paused", word: "paused by an operator" }],
  ])("says %s, and cuts no word", (line, type, look) => {
    expect(kindLine({ type }, look)).toBe(line);
  });

  it("has a word of its own, or that of its tone", () => {
    expect(wordOf({ tone: "failed", word: "has a problem" })).toBe("has a problem");
    expect([wordOf({ tone: "failed" }), wordOf({ tone: "idle" })]).toEqual(["failed", ""]);
  });
});

describe("the first sight of a graph", () => {
  it("is of the step inside where what holds it looks like it", () => {
    const blocks = graph(BLOCKS);
    const failed: Look = { tone: "failed" };
    expect(
      focusOf(
        blocks,
        new Map([
          ["fork", failed],
          ["inner", failed],
          ["body", failed],
        ]),
      ),
    ).toBe("body");
    expect(focusOf(blocks, new Map([["fork", failed]]))).toBe("fork");
  });

  const chain = graph(
    Array.from({ length: 19 }, (_, nth) => ({
      ...{ id: `s${nth}`, type: "noop" },
      ...(nth < 18 && { next: `s${nth + 1}` }),
    })),
  );
  const layout = layoutOf(chain);
  const frame = { width: 1_300, height: 430 };

  it("has text that can be read, and the step that matters in the middle", () => {
    const looks = new Map<string, Look>([
      ["s0", { tone: "done" }],
      ["s14", { tone: "live" }],
    ]);
    expect(focusOf(chain, looks)).toBe("s14");
    expect(focusOf(chain, new Map<string, Look>([...looks, ["s3", { tone: "failed" }]]))).toBe("s3");
    const sight = firstSight(layout, frame, "s14");
    expect(sight.zoom).toBeGreaterThanOrEqual(READABLE);
    expect(isInView(layout.boxes.get("s14")!, sight, frame)).toBe(true);
    expect(isInView(layout.boxes.get("s0")!, sight, frame)).toBe(false);
  });

  it("is the whole graph where that can be read", () => {
    const few = layoutOf(graph([{ id: "only", type: "noop" }]));
    const sight = firstSight(few, frame, "only");
    for (const box of few.boxes.values()) expect(isInView(box, sight, frame)).toBe(true);
  });

  it.each(["s0", "s9", "s18"])("shows nothing empty beyond the ends, at %s", (focus) => {
    const { y, zoom } = firstSight(layout, frame, focus);
    expect(y).toBeLessThanOrEqual(24);
    expect(y + layout.height * zoom).toBeGreaterThanOrEqual(frame.height - 25);
  });
});
