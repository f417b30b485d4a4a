// Two step types that no release has, each declared here and nowhere else. All that the service, its documents and its console say and do about a
// step type must follow from its declaration.
import { readdirSync, readFileSync } from "node:fs";
import { join, sep } from "node:path";
import { describe, expect, it } from "vitest";
import {
  defaulted,
  handler,
  localName,
  number,
  optional,
  required,
  stepId,
  text,
  variableName,
} from "../../../machines/attribute/kinds.js";
import {
  type CompileOptions,
  compileWorkflow,
  explain,
  type JsonObject,
  Rehearsal,
  readMocks,
  Schemas,
  stepBook,
} from "../../../machines/index.js";
import { STEP_TYPES, stepTypes } from "../../../machines/steps/index.js";
import { numberOf, stepType, textOf } from "../../../machines/steps/step.js";
import { timeoutEdges } from "../../../machines/steps/wait_for_signal.js";
import type { StepDocument } from "../../../src/console/graph/blocks.js";
import { BEGIN, edgeId, graphOf } from "../../../src/console/graph/chart.js";
import { drawnEdges, drawnNodes } from "../../../src/console/graph/drawn.js";
import { layoutOf } from "../../../src/console/graph/layout.js";
import { nextWords } from "../../../src/console/run/next-words.js";
import { changesOf } from "../../../src/console/story/changes.js";
import { mockable } from "../../../src/console/workflows/mocks.js";
import { sketch } from "../../../src/console/workflows/sketch.js";
import { InspectedChart } from "../../../src/inspect/charts.js";
import { openApiDocument, withTables } from "../../docs/generated.js";
import { Simulation, START } from "../simulation.js";

/** Waits for the signal `ballot.<of>`, which a person may decide. */
const ballot = stepType({
  name: "ballot",
  summary: "Waits for the outcome of a ballot.",
  attributes: {
    of: required(text, "The name of the ballot."),
    counted: defaulted(variableName, "votes", "The variable of the count."),
    timeout_ms: optional(number({ min: 0 }), "The time to wait; unlimited if absent."),
    on_timeout: defaulted(handler, "fail", "`fail`, `continue`, or the step to go to."),
  },
  output: "the count",
  errors: "`timeout`",
  pauses: true,
  effectful: true,
  variables: "assigned",
  mock: { output: "object", failures: "timeout", answer: (given = { yes: 1 }) => given },
  task: { granted: "carried", problems: () => [], outcome: () => ({ kind: "done" }) },
  edges: (attributes) => timeoutEdges(attributes, "an outcome"),
  nextWhen: () => "the ballot is counted",
  enter({ attributes, scope, facts }) {
    const name = `ballot.${textOf(attributes.of, scope, "of")}`;
    const due =
      attributes.timeout_ms === undefined
        ? {}
        : { dueAt: facts.now + numberOf(attributes.timeout_ms, scope, "timeout_ms") };
    return { kind: "wait", awaiting: "signal", name, wait: { kind: "signal", name, ...due } };
  },
});

/** Runs its body twice, side by side. */
const twice = stepType({
  name: "twice",
  summary: "Runs its body twice.",
  attributes: {
    begin: required(stepId, "The first step of the body."),
    as: defaulted(localName, "round", "The name of the round in the body."),
    nth: defaulted(localName, "nth", "The name of its number."),
  },
  output: "the two outputs",
  pauses: true,
  block: { kind: "item", starts: ["begin"], locals: ({ as, nth }) => ({ item: as, index: nth }) },
  nextWhen: () => "both are done",
  enter({ group, facts, groupEntry }) {
    if (!group) return { kind: "start_children", group: { kind: "items", total: 2, window: 2 }, items: ["a", "b"] };
    if (group.running > 0) return { kind: "await_children" };
    if (facts.ended === undefined) return { kind: "need", need: { kind: "ended", entry: groupEntry } };
    return { kind: "done", output: facts.ended?.map(({ output }) => output) ?? null };
  },
});

const TYPES = stepTypes([...STEP_TYPES.values(), ballot, twice]);
const BOOK = stepBook(TYPES.values());

const STEPS: readonly (JsonObject & { readonly id: string; readonly type: string })[] = [
  { id: "both", type: "twice", begin: "inside", next: "vote" },
  { id: "inside", type: "transform", expression: "round + string(nth)" },
  { id: "vote", type: "ballot", of: "budget", timeout_ms: 1000, on_timeout: "late", next: "fail" },
  { id: "fail", type: "error", code: "${vars.vote.yes > 1 ? 'carried' : 'lost'}" },
  { id: "late", type: "end" },
];
const DOCUMENT = { id: "council", name: "Council", start: "both", steps: STEPS };
const OPTIONS: CompileOptions = { stepTypes: TYPES };

function programOf(document: object) {
  const { program, problems, warnings } = compileWorkflow(document, OPTIONS);
  if (!program) throw new Error(JSON.stringify(problems));
  expect(warnings).toEqual([]);
  return program;
}

const PROGRAM = programOf(DOCUMENT);
const CHART = graphOf(PROGRAM.chart, STEPS, BOOK);
const DOCUMENTS = new Map<string, StepDocument>(STEPS.map((step) => [step.id, step]));

const messagesOf = (document: object, options = OPTIONS) =>
  compileWorkflow(document, options).problems.map(({ path, message }) => `${path}: ${message}`);

function rehearsed(mocks: object) {
  const read = readMocks(mocks, PROGRAM);
  expect(read.problems).toEqual([]);
  const rehearsal = new Rehearsal(PROGRAM, { startAt: START, mocks: read.mocks });
  while (rehearsal.move() === "moved");
  return rehearsal.result;
}

describe("a step type that one file declares", () => {
  it("is read and checked like any other, where its table is given, and unknown elsewhere", () => {
    expect(messagesOf(DOCUMENT, {})).toContain('$.steps[0].type: there is no step type "twice" in this release');
    const faulty = { id: "vote", type: "balot", of: 1 };
    expect(messagesOf({ ...DOCUMENT, steps: [faulty] })).toContain(
      '$.steps[0].type: there is no step type "balot" in this release (did you mean "ballot"?)',
    );
    expect(
      messagesOf({
        ...DOCUMENT,
        start: "vote",
        steps: [{ id: "vote", type: "ballot", of: "x", off: "x", on_timeout: "lat" }],
      }),
    ).toEqual([
      '$.steps[0].off: is not an attribute of the step type ballot (did you mean "of"?)',
      '$.steps[0].on_timeout: there is no step "lat"',
    ]);
  });

  it("gives its names to expressions: variables, and those of an item", () => {
    const uses = { id: "z", type: "transform", expression: "[vars.votes, vars.tally, round, turn]" };
    const { warnings } = compileWorkflow(
      { ...DOCUMENT, steps: [...STEPS.slice(0, 3), { ...uses, id: "fail" }, STEPS[4]] },
      OPTIONS,
    );
    expect(warnings.map(({ message }) => message)).toEqual([
      'there is no name "turn" in any scope',
      "nothing in this definition sets vars.tally",
    ]);
  });

  it("is a state of the chart, with its words and its edges", () => {
    const { vote, both } = PROGRAM.chart.states.active.states;
    expect(vote).toMatchObject({
      tags: ["ballot"],
      description: "Waits for the outcome of a ballot.\n\nTimes out after 1 s.",
      on: {
        next: { target: "fail", description: "the ballot is counted" },
        timeout: { target: "late", description: "after 1 s without an outcome" },
      },
    });
    expect(both?.description).toContain("Each item begins at inside.");
  });

  it("is decided: its children run, it waits, and it is explained", () => {
    const run = new Simulation({ program: PROGRAM });
    run.advance();
    run.world.settle();
    expect(run.context.variables).toMatchObject({ both: ["a0", "b1"] });
    expect(explain(run.context, { lastEventAt: START }).because).toContain("waits for the signal ballot.budget, until");
    run.signal("ballot.budget", { yes: 5 });
    run.world.settle();
    expect(run.context).toMatchObject({ state: "failed", ending: { error: { code: "carried" } } });
    // What has an effect outside and no compensation is named by the rollback.
    const passed = run.rows.find(({ metadata }) => metadata?.kind === "undo_passed");
    expect(passed?.metadata?.steps).toEqual(["vote"]);
  });

  it("has its time limit decided as its edges say", () => {
    const run = new Simulation({ program: PROGRAM });
    run.advance();
    run.world.settle();
    run.elapse();
    run.world.settle();
    expect(run.context.state).toBe("succeeded");
  });

  it("is mocked in a rehearsal, as it says", () => {
    const problems = readMocks(
      { vote: [{ output: 1 }, { error: { code: "down" } }], both: [{ output: {} }] },
      PROGRAM,
    ).problems;
    expect(problems.map(({ path, message }) => `${path}: ${message}`)).toEqual([
      "$.mocks.vote[0].output: must be an object",
      '$.mocks.vote[1].error.code: must be "timeout": a ballot has no other failure',
      "$.mocks.both: a twice waits for no answer, so it has no mocks",
    ]);
    expect(rehearsed({ vote: [{ output: { yes: 7 } }] })).toMatchObject({
      state: "failed",
      error: { code: "carried" },
    });
    expect(rehearsed({})).toMatchObject({ error: { code: "lost" }, variables: { vote: { yes: 1 } } });
    expect(rehearsed({ vote: [{ error: { code: "timeout" } }] })).toMatchObject({ state: "succeeded" });
  });

  it("is drawn by the console and by the inspector", () => {
    expect(CHART.nodes.find(({ id }) => id === "both")).toMatchObject({ type: "twice", holds: "items" });
    expect(CHART.nodes.find(({ id }) => id === "inside")).toMatchObject({ childOf: "both" });
    const ends = CHART.edges.map(({ id, kind, label }) => [id, kind, label]);
    expect(ends).toContainEqual([edgeId("both", "inside"), "children", "each item"]);
    expect(ends).toContainEqual([edgeId("inside", "both"), "return", ""]);
    expect(ends).toContainEqual([edgeId("vote", "late"), "error", "timeout"]);
    const layout = layoutOf(CHART);
    expect(drawnNodes(CHART, layout).every(({ width }) => Number(width) > 0)).toBe(true);
    expect(drawnEdges(CHART, layout).length).toBe(CHART.edges.filter(({ quiet }) => !quiet).length);
    expect(new InspectedChart(PROGRAM).hasChildren).toBe(true);
    expect(new InspectedChart(programOf({ ...DOCUMENT, start: "vote", steps: STEPS.slice(2) })).hasChildren).toBe(
      false,
    );
  });

  it("is drawn while it is being written, by what its attributes name", () => {
    const { nodes, edges } = sketch(DOCUMENT, BOOK);
    expect(nodes.find(({ id }) => id === "vote")).toMatchObject({
      type: "ballot",
      about: "Waits for the outcome of a ballot.",
    });
    expect(edges.map(({ id, kind, label }) => [id, kind, label])).toEqual([
      [edgeId(BEGIN, "both"), "way", ""],
      [edgeId("both", "vote"), "way", ""],
      [edgeId("both", "inside"), "choice", "begin"],
      [edgeId("vote", "fail"), "way", ""],
      [edgeId("vote", "late"), "error", "on_timeout"],
    ]);
  });

  it("has the words of the console: its mocks, its deadline, its variables", () => {
    expect(mockable(STEPS, BOOK)).toEqual(["vote"]);
    const until = "2026-11-27T22:15:00.000Z";
    const expected = { next_at: until, waiting_for: [{ kind: "signal", step_id: "vote", until }] };
    expect(nextWords(expected, { documents: DOCUMENTS }, BOOK)).toEqual({
      before: "If it is not decided until",
      after: ", the run goes on at late",
    });
    const row = { seq: 1, step_id: "vote", event_type: "step.succeeded", attempt: 1 } as Parameters<
      typeof changesOf
    >[0];
    expect(changesOf(row, DOCUMENTS, BOOK)).toEqual([
      { seq: 1, step: "vote", name: "votes", isKnown: false, how: "set" },
    ]);
  });

  it("is a section of docs/steps.md, by its declaration alone", () => {
    const page = withTables("<!-- step: ballot -->\n<!-- /step -->", TYPES);
    expect(page).toContain("Waits for the outcome of a ballot. Its output: the count.");
    expect(page).toContain('| `counted` | variable name | `"votes"` | The variable of the count. |');
    expect(page).toContain("Its errors: `timeout`.");
  });

  it("fits the schema of definitions in the OpenAPI document", async () => {
    const { paths } = (await openApiDocument()) as { paths: Record<string, { post: { requestBody: Body } }> };
    const { schema } = paths["/api/v1/workflows"]?.post.requestBody.content["application/json"] ?? {};
    expect(new Schemas().conforms(schema ?? {}, DOCUMENT)).toEqual([]);
  });
});

/** Names that are words for nothing else in the code. */
const PLAIN_NAMES = [...STEP_TYPES.keys()].filter(
  (name) => name.includes("_") || /^(foreach|parallel|noop)$/.test(name),
);
/**
 * What shows a workflow as an example, the load of `saga bench`, the name that the API has for the action of a request, the importers, which write documents, and the typed builder of
 * definitions, which has a method for each type: its own test compares its attributes with those of the steps.
 */
const MAY_NAME = [
  ...[/^machines\/steps\//, /^src\/api\/examples\//, /^machines\/state\/call\.ts$/, /^src\/sdk\/define\//],
  ...[/^src\/sdk\/create\/template\//, /^src\/cli\/bench\//, /^machines\/import\//],
];

describe("the code outside machines/steps", () => {
  it("names no step type", () => {
    const files = ["machines", "src"].flatMap((folder) =>
      readdirSync(folder, { recursive: true, encoding: "utf8" }).map((name) => join(folder, name).split(sep).join("/")),
    );
    const sources = files.filter((path) => /\.tsx?$/.test(path) && !MAY_NAME.some((pattern) => pattern.test(path)));
    expect(sources.length).toBeGreaterThan(300);
    const naming = sources.flatMap((path) => {
      const text = readFileSync(path, "utf8");
      return PLAIN_NAMES.filter((name) => text.includes(`"${name}"`)).map((name) => `${path}: ${name}`);
    });
    expect(naming).toEqual([]);
  });
});

interface Body {
  readonly content: Record<string, { schema: Parameters<Schemas["conforms"]>[0] }>;
}
