// The story of a run, told from the audit rows that the machine itself writes: each moment, its looks, the timeline and the variables.
import { describe, expect, it } from "vitest";
import type { JsonObject, Program } from "../../machines/index.js";
import { stepBook } from "../../machines/index.js";
import type { StepDocument } from "../../src/console/graph/blocks.js";
import { BEGIN, edgeId, graphOf, SUCCEEDED } from "../../src/console/graph/chart.js";
import { stateName } from "../../src/console/parts/state-words.js";
import { placeOf } from "../../src/console/story/below.js";
import { changesOf } from "../../src/console/story/changes.js";
import { looksOf } from "../../src/console/story/looks.js";
import type { Row } from "../../src/console/story/rows.js";
import { Spans } from "../../src/console/story/spans.js";
import { Story } from "../../src/console/story/story.js";
import { rowWords } from "../../src/console/story/words.js";
import { EXAMPLE_INPUTS, EXAMPLES, exampleName, exampleProgram, play } from "../machines/chart/examples.js";
import { program } from "../machines/definitions.js";
import type { Simulation } from "../machines/simulation.js";

const rowsOf = ({ rows }: Pick<Simulation, "rows">): Row[] =>
  rows.map(({ type, stepId, attempt, from, to, actor, metadata, at }, nth) => ({
    ...{ seq: nth + 1, event_type: type, attempt, from_state: from, to_state: to, actor },
    ...{ step_id: stepId, metadata, recorded_at: new Date(at).toISOString() },
  }));

const stepsOf = ({ document }: Program) => (document as unknown as { steps: StepDocument[] }).steps;

function told(compiled: Program, inputs: JsonObject = {}) {
  const run = play(compiled, inputs);
  const rows = rowsOf(run);
  const story = new Story(compiled.chart);
  story.append(rows);
  return { run, rows, story, chart: graphOf(compiled.chart, stepsOf(compiled), stepBook()) };
}

const FAILS = program([
  { id: "a", type: "action", action: "shop.a", compensation: { action: "shop.undo_a" }, next: "fork" },
  { id: "fork", type: "parallel", branches: { x: { next: "left" }, y: { next: "right" } }, next: "join" },
  { id: "left", type: "action", action: "shop.b", compensation: { action: "shop.undo_b" } },
  { id: "right", type: "noop" },
  { id: "join", type: "join", next: "loop" },
  { id: "loop", type: "while", condition: "iteration < 2", body: "round", next: "boom" },
  { id: "round", type: "noop" },
  { id: "boom", type: "error", code: "boom" },
]);

describe("a story", () => {
  const { rows, story, chart } = told(FAILS);
  const seqOf = (type: string, step: string) =>
    rows.find((row) => row.event_type === type && row.step_id === step)!.seq;

  it("knows the moment after each row: the step, its visits and the state", () => {
    expect(story.after(0)).toMatchObject({ count: 0, state: "pending" });
    expect(story.after(1)).toMatchObject({ count: 1, state: "running", step: "a" });
    expect(story.after(seqOf("step.dispatched", "a")).steps.get("a")).toMatchObject({
      standing: "running",
      attempts: 1,
    });
    expect(story.now.steps.get("round")).toMatchObject({ visits: 2, standing: "done" });
    expect(story.now.steps.get("boom")).toMatchObject({ standing: "failed", error: { code: "boom" } });
    expect(story.now.state).toBe("failed");
  });

  it("lists what was undone in its order, the newest first, from the step where the rollback began", () => {
    const [rollback] = story.now.rollbacks;
    expect(rollback).toMatchObject({ from: "boom", undos: [{ step: "left" }, { step: "a" }] });
    expect(rollback?.undos[0]?.childRunId).toBeDefined();
    const { undoWay, looks } = looksOf(chart, story.now);
    expect(undoWay).toEqual(["boom", "left", "a"]);
    expect(looks.get("a")).toMatchObject({ tone: "undone", badge: "↶ 2" });
    expect(looks.get("boom")).toMatchObject({ tone: "failed", lines: ["boom"] });
  });

  it("shows a step that is being undone until its undo is answered", () => {
    const undo = rows.findIndex(
      ({ step_id, metadata }) => step_id === "a" && (metadata as JsonObject | undefined)?.phase === "compensation",
    );
    expect(looksOf(chart, story.after(undo + 1)).looks.get("a")).toMatchObject({ tone: "undoing" });
    expect(looksOf(chart, story.after(undo)).looks.get("a")).toMatchObject({ tone: "done" });
  });

  it("takes the edges of the graph, those into the branches and back from a round among them", () => {
    const { edgeLooks } = looksOf(chart, story.now);
    for (const [from, to] of [
      [BEGIN, "a"],
      ["a", "fork"],
      ["fork", "left"],
      ["fork", "right"],
      ["loop", "round"],
      ["round", "loop"],
    ] as const)
      expect(edgeLooks.get(edgeId(from, to)), `${from} to ${to}`).toBe("taken");
    expect(looksOf(chart, story.after(1)).edgeLooks.has(edgeId("a", "fork"))).toBe(false);
  });

  it("is the same whether rows come one by one, twice, or all at once", () => {
    const slowly = new Story(FAILS.chart);
    for (const row of rows) slowly.append([...rows.slice(0, row.seq)]);
    expect(slowly.now).toEqual(story.now);
    for (const { seq } of rows) expect(slowly.after(seq)).toEqual(story.after(seq));
  });

  it("folds children into counts on their container and on the steps where they stand", () => {
    const counts = [
      { parent_step_id: "fork", parent_branch_id: "x", state: "running", current_step: "left", count: 1 },
      { parent_step_id: "fork", parent_branch_id: "y", state: "succeeded", count: 1 },
    ];
    const { looks } = looksOf(chart, story.after(seqOf("step.started", "join")), { counts, incidents: [] });
    expect(looks.get("fork")?.lines?.[0]).toBe("branches: 1 running, 1 succeeded");
    expect(looks.get("left")).toMatchObject({ tone: "live", badge: "1" });
  });

  it("shows in red the step that a child stands at with an incident, and the step that the child belongs to", () => {
    const counts = [
      { parent_step_id: "fork", state: "paused", paused_reason: "incident", current_step: "left", count: 2 },
      { parent_step_id: "fork", state: "paused", paused_reason: "signal", current_step: "left", count: 3 },
      { parent_step_id: "fork", state: "running", current_step: "right", count: 1 },
    ];
    const { looks } = looksOf(chart, story.after(seqOf("step.started", "join")), { counts, incidents: [] });
    expect(looks.get("fork")).toMatchObject({
      ...{ tone: "failed", word: "2 incidents below" },
      lines: ["branches: 2 at an incident, 1 running, 3 waiting"],
    });
    expect(looks.get("left")).toEqual({
      ...{ tone: "failed", word: "at an incident", badge: "5", lines: ["2 at an incident, 3 waiting"] },
    });
    expect(looks.get("right")).toMatchObject({ tone: "live", word: "running" });
  });

  it("shows an incident of a child's child, of which the counts say nothing, at each step that leads to it", () => {
    const counts = [
      { parent_step_id: "fork", state: "paused", paused_reason: "children", current_step: "right", count: 1 },
    ];
    const incidents = [{ through: ["fork", "right"], at: "left" }];
    const { looks } = looksOf(chart, story.after(seqOf("step.started", "join")), { counts, incidents });
    expect(looks.get("right")?.lines).toBeUndefined();
    for (const step of ["fork", "right"])
      expect(looks.get(step), step).toMatchObject({ tone: "failed", word: "1 incident below" });
    expect(looks.get("left")).toMatchObject({ tone: "failed", word: "at an incident", badge: "1" });
  });

  it("leaves the steps of its graph alone where a sub-saga stands at a step of the same name", () => {
    const counts = [
      { parent_step_id: "boom", state: "paused", paused_reason: "signal", current_step: "left", count: 1 },
    ];
    expect(looksOf(chart, story.after(1), { counts, incidents: [] }).looks.has("left")).toBe(false);
  });

  it.each(EXAMPLES.map((file) => [exampleName(file), file]))("of %s ends as the run did", (_, file) => {
    const { run, story, chart } = told(exampleProgram(file), EXAMPLE_INPUTS);
    expect(story.now.state).toBe(run.state);
    const { edgeLooks, looks } = looksOf(chart, story.now);
    expect([...edgeLooks.keys()].filter((id) => !chart.edges.some((edge) => edge.id === id))).toEqual([]);
    if (run.state === "succeeded") expect(looks.get(SUCCEEDED)).toEqual({ tone: "done" });
  });
});

const row = (seq: number, event_type: string, step_id: string, metadata: JsonObject = {}, at = seq * 1_000): Row => ({
  ...{ seq, event_type, step_id, metadata, attempt: 1, actor: "coordinator" },
  ...{ from_state: "running", to_state: "running", recorded_at: new Date(at).toISOString() },
});

describe("a run that waits", () => {
  const chart = graphOf(FAILS.chart, stepsOf(FAILS), stepBook());
  const lookAfter = (...rows: readonly Row[]) => {
    const story = new Story(undefined);
    story.append(rows);
    return looksOf(chart, story.now).looks.get("a");
  };
  const began = row(1, "step.started", "a");
  const waits = row(2, "step.paused", "a", { awaiting: "signal" });
  const log = (seq: number, kind: string) => row(seq, "log", "a", { kind });

  it.each(["signal", "event", "user_task", "timer", "children", "concurrency", "rate_limit"])(
    "for its %s looks in the graph as its state does",
    (awaiting) => {
      const { word, more } = stateName("paused", awaiting);
      const look = lookAfter(began, row(2, "step.paused", "a", { awaiting }));
      expect(look).toMatchObject({ tone: "waiting", word, lines: [more] });
      expect(stateName("paused", awaiting).tone).toBe("waiting");
    },
  );

  it("to try again, or for a person at an incident, looks in the graph as its state does", () => {
    const retry = row(2, "step.failed", "a", { code: "down", will_retry: true });
    expect(lookAfter(began, retry)).toMatchObject({
      tone: "waiting",
      word: "waiting",
      lines: ["to try again", "down"],
    });
    const incident = row(2, "step.failed", "a", { code: "down", incident: true });
    expect(lookAfter(began, incident)).toMatchObject({ tone: "failed", word: "at an incident", lines: ["down"] });
  });

  it("in quarantine, or for an operator, looks so in the graph until it is let go", () => {
    expect(lookAfter(began, waits, log(3, "quarantine"))).toMatchObject({ tone: "failed", word: "in quarantine" });
    expect(lookAfter(began, waits, log(3, "pause"))).toMatchObject({ tone: "paused", word: "paused by an operator" });
    const both = [began, waits, log(3, "pause"), log(4, "quarantine"), log(5, "release")];
    expect(lookAfter(...both)).toMatchObject({ tone: "paused" });
    expect(lookAfter(...both, log(6, "resume"))).toMatchObject({ tone: "waiting", word: "waiting" });
    expect(lookAfter(began, waits, log(3, "quarantine"), log(4, "cancel"))).toMatchObject({ tone: "waiting" });
  });

  it("has the time at an incident, in quarantine and on hold in its timeline", () => {
    const spans = new Spans();
    spans.append([began, waits, log(3, "pause"), log(5, "resume"), log(6, "quarantine")]);
    const words = () => spans.all.map(({ kind, words, from, to }) => [kind, words, from, to]);
    expect(words().slice(2)).toEqual([
      ["halt", "paused by an operator", 3_000, 5_000],
      ["incident", "in quarantine", 6_000, undefined],
    ]);
    const stands = new Spans();
    stands.append([
      began,
      row(2, "step.dispatched", "a"),
      row(3, "step.failed", "a", { code: "down", incident: true }),
    ]);
    expect(stands.all.at(-1)).toMatchObject({ kind: "incident", words: "at an incident: down", from: 3_000 });
    expect(stands.all.find(({ kind }) => kind === "step")?.to).toBeUndefined();
    stands.append([row(9, "step.dispatched", "a")]);
    expect(stands.all.find(({ kind }) => kind === "incident")?.to).toBe(9_000);
  });

  it("cuts a step off when it ends, which then neither waits nor was skipped", () => {
    const cancelled = { ...row(3, "run.cancelled", "a"), to_state: "cancelled" };
    expect(lookAfter(began, waits, cancelled)).toMatchObject({ tone: "skipped", word: "cut off" });
  });
});

describe("an incident below a run", () => {
  const branch = {
    id: "b",
    parent_run_id: "root",
    parent_step_id: "fork",
    parent_branch_id: "x",
    current_step: "each",
  };
  const item = { id: "i", parent_run_id: "b", parent_step_id: "each", parent_branch_id: "3", current_step: "pack" };
  const sub = { id: "s", parent_run_id: "b", parent_step_id: "ship", current_step: "pay" };
  const deep = { id: "d", parent_run_id: "s", parent_step_id: "fork", parent_branch_id: "y", current_step: "pack" };
  const members = new Map([branch, item, sub].map((one) => [one.id, one]));

  it("is seen at the steps of the graph that lead to it, and where it stands", () => {
    expect(placeOf("root", branch)).toEqual({ through: ["fork"], at: "each" });
    expect(placeOf("root", item, members)).toEqual({ through: ["fork", "each"], at: "pack" });
    expect(placeOf("b", item, members)).toEqual({ through: ["each"], at: "pack" });
  });

  it("of a sub-saga stands at a step of another graph", () => {
    expect(placeOf("root", sub, members)).toEqual({ through: ["fork", "ship"] });
    expect(placeOf("root", deep, members)).toEqual({ through: ["fork", "ship"] });
  });

  it("is seen nowhere while a run between is not known", () => {
    expect(placeOf("root", item)).toBeUndefined();
  });
});

/** The rows as the machine writes them, for more rounds than a run without a store gets to. */
const ROUNDS: readonly Row[] = [
  row(1, "step.started", "loop"),
  ...Array.from({ length: 1_800 }, (_, nth) =>
    row(nth + 2, nth % 2 === 0 ? "step.started" : "step.succeeded", "round"),
  ),
];

describe("a long story", () => {
  const rounds = program([
    { id: "loop", type: "while", condition: "iteration < 900", body: "round", max_iterations: 1_000 },
    { id: "round", type: "noop" },
  ]);

  it("is folded from a checkpoint at any moment", () => {
    const story = new Story(rounds.chart);
    story.append(ROUNDS);
    expect(story.now.steps.get("round")?.visits).toBe(900);
    for (const count of [0, 1, 255, 256, 257, 1_000, ROUNDS.length]) {
      const other = new Story(rounds.chart);
      other.append(ROUNDS.slice(0, count));
      expect(story.after(count)).toEqual(other.now);
    }
  });

  it("finds the row of a number, also where old rows were deleted", () => {
    const story = new Story(rounds.chart);
    story.append(ROUNDS.filter(({ seq }) => seq > 10 && seq !== 20));
    expect([story.countAt(5), story.countAt(11), story.countAt(21)]).toEqual([0, 1, 10]);
  });
});

describe("a timeline", () => {
  it("has a span for the wait for a worker, each attempt, each backoff and each undo", () => {
    const spans = new Spans();
    spans.append([
      row(1, "step.started", "pay"),
      row(2, "step.dispatched", "pay"),
      row(3, "step.failed", "pay", { code: "down", will_retry: true }),
      row(4, "step.dispatched", "pay"),
      row(5, "step.succeeded", "pay"),
      row(6, "step.started", "pay", { phase: "compensation" }),
      row(7, "step.dispatched", "pay", { phase: "compensation" }),
    ]);
    expect(spans.all.map(({ kind, from, to, ended }) => [kind, from, to, ended])).toEqual([
      ["step", 1_000, 5_000, "done"],
      ["queue", 1_000, 2_000, undefined],
      ["attempt", 2_000, 3_000, "failed"],
      ["retry", 3_000, 4_000, undefined],
      ["attempt", 4_000, 5_000, "done"],
      ["undo", 6_000, undefined, undefined],
      ["queue", 6_000, 7_000, undefined],
      ["attempt", 7_000, undefined, undefined],
    ]);
  });

  it("ends every span with the run", () => {
    const spans = new Spans();
    spans.append([row(1, "step.started", "wait"), row(2, "step.paused", "wait", { awaiting: "signal", name: "go" })]);
    expect(spans.all.map(({ words, to }) => [words, to])).toEqual([
      ["wait", undefined],
      ["waits for a signal: go", undefined],
    ]);
    spans.append([row(3, "run.cancelled", "wait")]);
    expect(spans.all.every(({ to }) => to === 3_000)).toBe(true);
  });
});

describe("the variables", () => {
  const documents = new Map<string, StepDocument>(
    [
      { id: "plain", type: "transform" },
      { id: "named", type: "transform", save_as: "total" },
      { id: "dropped", type: "transform", save_as: null },
      { id: "set", type: "set_var", variables: { x: 1, y: 2 } },
      { id: "risky", type: "action", on_error: "continue" },
    ].map((document) => [document.id, document]),
  );
  const names = (one: Row) =>
    changesOf(one, documents, stepBook()).map(({ name, value, isKnown }) => [name, value, isKnown]);

  it("get the output of a step under its id, or under its save_as, or not at all", () => {
    expect(names(row(1, "step.succeeded", "plain", { output: 3 }))).toEqual([["plain", 3, true]]);
    expect(names(row(1, "step.succeeded", "named", { output: 3 }))).toEqual([["total", 3, true]]);
    expect(names(row(1, "step.succeeded", "dropped", { output: 3 }))).toEqual([]);
  });

  it("are known by name only where no row has the value", () => {
    expect(names(row(1, "step.succeeded", "set"))).toEqual([
      ["x", undefined, false],
      ["y", undefined, false],
    ]);
    expect(names(row(1, "log", "plain", { kind: "retry_step", variables: ["total"] }))).toEqual([
      ["total", undefined, false],
    ]);
  });

  it("hold the error of a step after which the run goes on", () => {
    const error = { code: "down", message: "m", step_id: "risky" };
    expect(names(row(1, "step.failed", "risky", { code: "down", message: "m" }))).toEqual([["risky", { error }, true]]);
  });

  it("do not change by an undo", () => {
    expect(names(row(1, "step.succeeded", "plain", { output: 3, phase: "compensation" }))).toEqual([]);
  });
});

describe("words", () => {
  it("say what a row is about", () => {
    expect(rowWords(row(1, "step.failed", "pay", { code: "down", will_retry: true }))).toBe(
      "pay: failed with down, is tried again",
    );
    expect(rowWords(row(1, "step.succeeded", "pay", { phase: "compensation" }))).toBe("pay: undone");
    expect(rowWords(row(1, "step.paused", "ask", { awaiting: "signal", name: "ok" }))).toBe(
      "ask: waits for a signal: ok",
    );
  });
});
