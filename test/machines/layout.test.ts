// The rules of the graph with blocks: the block of each step, and every edge that is refused, with its place and message.
import { describe, expect, it } from "vitest";
import { compileWorkflow } from "../../machines/index.js";
import { MAX_NESTING } from "../../machines/values/limits.js";
import { program, type StepDocument } from "./definitions.js";

const noop = (id: string, more: Record<string, unknown> = {}): StepDocument => ({ id, type: "noop", ...more });
const tryCatch = (id: string, inside: string, caught: string, more: Record<string, unknown> = {}): StepDocument => ({
  id,
  type: "try_catch",
  try: inside,
  catch: caught,
  ...more,
});
const loop = (id: string, body: string, more: Record<string, unknown> = {}): StepDocument => ({
  id,
  type: "while",
  condition: "false",
  body,
  ...more,
});
const each = (id: string, body: string, more: Record<string, unknown> = {}): StepDocument => ({
  id,
  type: "foreach",
  items: "[]",
  body,
  ...more,
});
const parallel = (id: string, branches: Record<string, string>, next?: string): StepDocument => ({
  id,
  type: "parallel",
  branches: Object.fromEntries(Object.entries(branches).map(([name, start]) => [name, { next: start }])),
  ...(next !== undefined && { next }),
});
const join = (id: string, more: Record<string, unknown> = {}): StepDocument => ({ id, type: "join", ...more });

/** Problems with the id of the step instead of its index: `t.try: …`. */
function problems(steps: StepDocument[], head: Record<string, unknown> = {}): string[] {
  const compiled = compileWorkflow({ id: "w", name: "w", start: steps[0]?.id, steps, ...head });
  return compiled.problems.map(({ path, message }) => {
    const at = path.replace(/^\$\.steps\[(\d+)\]/, (_, index) => steps[Number(index)]?.id ?? "?").replace("$.", "");
    return `${at}: ${message}`;
  });
}
const into = (step: string) => `the step "${step}" is in another block: an edge cannot lead into or out of a block`;
const toJoin = (step: string) =>
  `the step "${step}" is a join: only its parallel and the ends of its branches may lead to it`;

/** `step: kind of block by container [chains]`. */
function standing(steps: StepDocument[]): Record<string, string> {
  const entries = [...program(steps).layout].map(([id, { block, chains }]) => {
    const holder = block.container === undefined ? block.kind : `${block.kind} of ${block.container}`;
    return [id, chains.size > 0 ? `${holder}, caught by ${[...chains].join(" and ")}` : holder];
  });
  return Object.fromEntries(entries);
}

describe("the block of a step", () => {
  it("in the run, in a branch, in an item, in a round, in a try; a catch chain in the block of its try", () => {
    const steps = [
      tryCatch("t", "w", "c", { next: "p" }),
      loop("w", "f"),
      each("f", "x"),
      noop("x", { next: "y" }),
      noop("y", { next: "f" }),
      noop("c", { next: "c2" }),
      noop("c2", { next: "t" }),
      parallel("p", { a: "a1" }, "j"),
      noop("a1", { next: "j" }),
      join("j"),
    ];
    expect(standing(steps)).toEqual({
      t: "run",
      w: "try of t",
      f: "while of w",
      x: "item of f",
      y: "item of f",
      c: "run, caught by t",
      c2: "run, caught by t",
      p: "run",
      a1: "branch of p",
      j: "run",
    });
  });

  it("a catch chain ends where a step is reached without the catch", () => {
    const steps = [
      tryCatch("t", "x", "c", { next: "m" }),
      noop("x"),
      noop("c", { next: "m" }),
      noop("m", { next: "n" }),
      noop("n"),
    ];
    expect(standing(steps)).toMatchObject({ c: "run, caught by t", m: "run", n: "run" });
    expect(standing([tryCatch("t", "x", "m", { next: "m" }), noop("x"), noop("m")])).toMatchObject({ m: "run" });
  });

  it("a chain may be shared by several tries, and a chain within a chain ends where the outer one goes on", () => {
    const shared = [
      tryCatch("t", "x", "c", { next: "u" }),
      noop("x"),
      tryCatch("u", "y", "c"),
      noop("y"),
      noop("c", { next: "c2" }),
      noop("c2"),
    ];
    expect(standing(shared)).toMatchObject({ c: "run, caught by t and u", c2: "run, caught by t and u" });
    const nested = [
      tryCatch("t", "x", "u"),
      noop("x"),
      tryCatch("u", "y", "d", { next: "c" }),
      noop("y"),
      noop("d", { next: "c" }),
      noop("c"),
    ];
    expect(standing(nested)).toMatchObject({
      u: "run, caught by t",
      d: "run, caught by u",
      c: "run, caught by t",
    });
  });

  it("chains of chains cost no more than their steps", () => {
    const steps = Array.from({ length: 60 }, (_, n) => [
      tryCatch(`t${n}`, `x${n}`, n === 59 ? "z" : `t${n + 1}`),
      noop(`x${n}`),
    ]).flat();
    const placed = standing([...steps, noop("z")]);
    expect([placed.t0, placed.t1, placed.z]).toEqual(["run", "run, caught by t0", "run, caught by t59"]);
  });

  it("entrypoints are places to begin: in the run, also in what would be a catch chain", () => {
    const steps = [tryCatch("t", "x", "c"), noop("x"), noop("c", { next: "d" }), noop("d")];
    expect(problems(steps, { entrypoints: { late: "d" } })).toEqual([]);
    expect(problems(steps, { entrypoints: { here: "t", late: "c" } })).toEqual([]);
  });
});

describe("edges into and out of a block", () => {
  const out = (block: StepDocument, edge: Record<string, unknown>) => [
    { ...block, next: "z" },
    noop("x", edge),
    noop("c"),
    noop("z"),
  ];
  const blocks: [string, StepDocument][] = [
    ["a try", tryCatch("s", "x", "c")],
    ["a round", loop("s", "x")],
    ["an item", each("s", "x")],
  ];

  it.each(blocks)("out of %s by next, on_error, a branch or a timeout: refused at that edge", (_, block) => {
    const used = [loop("keep", "k"), noop("k")];
    expect(problems(out(block, { next: "z" }))).toContain(`x.next: ${into("z")}`);
    expect(problems(out(block, { on_error: "z" }))).toContain(`x.on_error: ${into("z")}`);
    const decision = { type: "decision", expression: "1", branches: { a: { next: "z" } } };
    expect(problems(out(block, decision))).toEqual([`x.branches.a.next: ${into("z")}`]);
    const wait = { type: "wait_for_signal", signal_name: "n", timeout_ms: 1, on_timeout: "z" };
    expect(problems([...out(block, wait), ...used])).toEqual([`x.on_timeout: ${into("z")}`]);
  });

  it.each(blocks)("to the beginning of %s: refused at that edge", (_, block) => {
    const steps = (edge: Record<string, unknown>) => [
      noop("first", { next: "s", ...edge }),
      block,
      noop("x"),
      noop("c"),
    ];
    expect(problems(steps({ on_error: "x" }))).toEqual([`first.on_error: ${into("x")}`]);
    const wait = { type: "wait_for_signal", signal_name: "n", timeout_ms: 1, on_timeout: "x" };
    expect(problems(steps(wait))).toEqual([`first.on_timeout: ${into("x")}`]);
  });

  it.each(blocks)("an entrypoint at the beginning or in the middle of %s: refused", (_, block) => {
    const steps = [block, noop("x", { next: "y" }), noop("y"), noop("c")];
    expect(problems(steps, { entrypoints: { a: "x" } })).toEqual([`entrypoints.a: ${into("x")}`]);
    expect(problems(steps, { entrypoints: { a: "y", b: "s" } })).toEqual([`entrypoints.a: ${into("y")}`]);
    expect(problems(steps, { entrypoints: { "": "s" } })).not.toEqual([]);
  });

  it("into the middle of a block: refused where the two meet", () => {
    const steps = [noop("first", { next: "s", on_error: "y" }), loop("s", "x"), noop("x", { next: "y" }), noop("y")];
    expect(problems(steps)).toEqual([`x.next: ${into("y")}`]);
  });

  it("from a branch to another, from a catch chain into a block, a catch that begins in one", () => {
    const branches = [parallel("p", { a: "a1", b: "b1" }, "j"), noop("a1", { next: "b1" }), noop("b1"), join("j")];
    expect(problems(branches)).toEqual([`a1.next: ${into("b1")}`]);
    const chain = [tryCatch("t", "x", "c"), noop("x"), noop("c", { next: "x" })];
    expect(problems(chain)).toEqual([`c.next: ${into("x")}`]);
    expect(problems([tryCatch("t", "x", "x"), noop("x")])).toEqual([`t.catch: ${into("x")}`]);
    expect(problems([tryCatch("t", "x", "b"), noop("x", { next: "w" }), loop("w", "b"), noop("b")])).toContain(
      `t.catch: ${into("b")}`,
    );
  });

  it("two blocks cannot share their steps", () => {
    expect(problems([loop("s", "x", { next: "w" }), noop("x"), loop("w", "x")])).toEqual([`w.body: ${into("x")}`]);
    expect(
      problems([
        loop("s", "x", { next: "w" }),
        noop("x", { next: "z" }),
        loop("w", "y"),
        noop("y", { next: "z" }),
        noop("z"),
      ]),
    ).toEqual([`y.next: ${into("z")}`]);
  });

  it("back to the block's own beginning, and to its container, is allowed; a block must have a step", () => {
    const inside = { type: "switch", cases: [{ when: "false", next: "x" }], default: "s" };
    for (const [, block] of blocks) expect(problems([block, { ...noop("x"), ...inside }, noop("c")])).toEqual([]);
    expect(problems([loop("s", "s")])).toEqual(["s.body: a block must have a step"]);
    expect(problems([tryCatch("s", "s", "c"), noop("c")])).toEqual(["s.try: a block must have a step"]);
    expect(problems([tryCatch("s", "x", "s"), noop("x")])).toEqual(["s.catch: a catch chain must have a step"]);
    expect(problems([loop("w", "s"), tryCatch("s", "x", "w"), noop("x")])).toEqual([
      "s.catch: a catch chain must have a step",
    ]);
    expect(problems([parallel("p", { a: "j" }, "j"), join("j")])).toEqual([
      "p.branches.a.next: a block must have a step",
    ]);
  });

  it("one wrong edge is one problem, however many chains its step stands in", () => {
    const steps = [
      loop("w", "b", { next: "t" }),
      noop("b"),
      tryCatch("t", "x", "c", { next: "u" }),
      noop("x"),
      tryCatch("u", "y", "c"),
      noop("y"),
      noop("c", { next: "b" }),
    ];
    expect(problems(steps)).toEqual([`c.next: ${into("b")}`]);
  });

  it("problems of the graph are listed with those of single steps", () => {
    const steps = [loop("s", "x", { next: "z" }), noop("x", { next: "z" }), noop("z", { when: "(" })];
    expect(problems(steps).length).toBeGreaterThan(0);
    expect(problems(steps).join()).toMatch(/z\.when/);
  });
});

describe("parallels and joins", () => {
  it("a parallel needs a join of its own, also where it cannot be reached", () => {
    const lonely = "is required: the join of the parallel";
    const none = 'the next of a parallel must be a join, and "z" is not one';
    expect(problems([parallel("p", { a: "x" }), noop("x")])).toEqual([`p.next: ${lonely}`]);
    expect(problems([parallel("p", { a: "x" }, "z"), noop("x"), noop("z")])).toEqual([`p.next: ${none}`]);
    expect(problems([noop("s"), parallel("p", { a: "x" }, "z"), noop("x"), noop("z")])).toEqual([`p.next: ${none}`]);
    const nested = [parallel("p", { a: "q" }, "j"), parallel("q", { b: "x" }, "j"), noop("x"), join("j")];
    expect(problems(nested)).toContain(
      'q.next: the join "j" belongs to the parallel around it: each parallel needs its own',
    );
  });

  it("nothing else leads to a join: no step, no entrypoint, no catch, no beginning of a block", () => {
    const fork = [parallel("p", { a: "x" }, "j"), noop("x", { next: "j" }), join("j", { next: "z" }), noop("z")];
    expect(problems(fork)).toEqual([]);
    const to = (extra: StepDocument[]) => problems([...extra, ...fork], { start: extra[0]?.id });
    expect(to([noop("s", { next: "p", on_error: "j" })])).toEqual([`s.on_error: ${toJoin("j")}`]);
    expect(
      to([{ ...noop("s", { next: "p" }), type: "decision", expression: "1", branches: { a: { next: "j" } } }]),
    ).toEqual([`s.branches.a.next: ${toJoin("j")}`]);
    expect(to([tryCatch("s", "y", "j", { next: "p" }), noop("y")])).toEqual([`s.catch: ${toJoin("j")}`]);
    expect(problems(fork, { entrypoints: { a: "j" } })).toEqual([`entrypoints.a: ${toJoin("j")}`]);
    expect(problems([loop("w", "j", { next: "p" }), ...fork], { start: "w" })).toContain(`w.body: ${into("j")}`);
    expect(problems([...fork.slice(0, 3), noop("z", { next: "j" })])).toEqual([`z.next: ${toJoin("j")}`]);
    expect(problems([join("j")])).toEqual([`start: ${toJoin("j")}`]);
  });

  it("a next from a catch chain to its own try_catch is warned about: it ends the chain", () => {
    const steps = [
      noop("before", { next: "t" }),
      tryCatch("t", "x", "c", { next: "z" }),
      noop("x", { next: "t" }),
      noop("c", { next: "c2" }),
      noop("c2", { next: "t" }),
      noop("z"),
    ];
    const { problems, warnings } = compileWorkflow({ id: "w", name: "w", start: "before", steps });
    expect([problems, warnings]).toEqual([
      [],
      [
        {
          path: "$.steps[4].next",
          message: "ends the catch chain: to try again, go to a step before the try_catch",
          code: "catch_returns",
        },
      ],
    ]);
    const again = steps.map((step) => (step.id === "c2" ? { ...step, next: "before" } : step));
    expect(compileWorkflow({ id: "w", name: "w", start: "before", steps: again }).warnings).toEqual([]);
  });

  it("an on_error of the parallel is warned about: its join's counts", () => {
    const steps = [{ ...parallel("p", { a: "x" }, "j"), on_error: "continue" }, noop("x"), join("j")];
    const { problems, warnings } = compileWorkflow({ id: "w", name: "w", start: "p", steps });
    expect([problems, warnings]).toEqual([
      [],
      [
        {
          path: "$.steps[0].on_error",
          message: "has no effect: set the on_error of its join",
          code: "on_error_ignored",
        },
      ],
    ]);
  });

  it("two parallels that never run together may share a join", () => {
    const steps = [
      { ...noop("s"), type: "switch", cases: [{ when: "true", next: "p" }], default: "q" },
      parallel("p", { a: "x" }, "j"),
      parallel("q", { b: "y" }, "j"),
      noop("x"),
      noop("y"),
      join("j"),
    ];
    expect(problems(steps)).toEqual([]);
  });
});

describe("nesting", () => {
  const nested = (depth: number) => [
    ...Array.from({ length: depth }, (_, n) => loop(`w${n}`, n === depth - 1 ? "x" : `w${n + 1}`)),
    noop("x"),
  ];

  it("blocks may be nested ten deep, and no deeper", () => {
    expect(problems(nested(MAX_NESTING))).toEqual([]);
    expect(problems(nested(MAX_NESTING + 1))).toEqual(["w10.body: blocks may be nested 10 deep"]);
  });
});
