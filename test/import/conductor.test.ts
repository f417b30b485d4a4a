// Workflows of Conductor written for this test, and how they end: the ends are read from Conductor's documentation, not from the importer.
import { describe, expect, it } from "vitest";
import {
  checkWorkflow,
  compileWorkflow,
  importWorkflow,
  type Json,
  type JsonObject,
  type Mocks,
  Rehearsal,
  Schemas,
} from "../../machines/index.js";

const schemas = new Schemas();

const simple = (taskReferenceName: string, inputParameters: JsonObject = {}, others: JsonObject = {}): JsonObject => ({
  ...{ name: `do_${taskReferenceName}`, taskReferenceName, type: "SIMPLE", inputParameters },
  taskDefinition: { name: `do_${taskReferenceName}`, retryCount: 0, timeoutSeconds: 0 },
  ...others,
});
const flow = (tasks: readonly JsonObject[], outputParameters: JsonObject = {}): JsonObject => ({
  ...{ name: "flow", version: 1, schemaVersion: 2, tasks, outputParameters },
});

function imported(document: JsonObject) {
  const result = importWorkflow(document, { name: "file" });
  if (!result) throw new Error("it is no workflow");
  return result;
}

function run(document: JsonObject, inputs: JsonObject, mocks: Mocks) {
  const { program } = compileWorkflow(imported(document).workflow, {
    schemaProblems: (schema) => schemas.problems(schema),
  });
  if (!program) throw new Error("it is not valid");
  const rehearsal = new Rehearsal(program, {
    inputs,
    mocks,
    startAt: 0,
    conforms: (...given) => schemas.conforms(...given),
  });
  while (rehearsal.move() === "moved");
  return rehearsal.result;
}

interface Case {
  readonly says: string;
  readonly document: JsonObject;
  readonly runs: readonly { readonly input?: JsonObject; readonly mocks?: Mocks; readonly ends: Json }[];
}

const CASES: readonly Case[] = [
  {
    says: "a reference that finds nothing is null, and nothing inside of a text",
    document: flow([simple("a", { x: "${workflow.input.none.deeper}" })], {
      x: "${workflow.input.none.deeper}",
      text: "<${workflow.input.none}|${a.output.n}|${workflow.input.price}>",
      n: "${a.output.n}",
      item: "${a.output.list[1].k}",
    }),
    runs: [
      {
        input: { price: 19.9 },
        mocks: { a: [{ output: { n: 3, list: [0, { k: "é" }] } }] },
        ends: { x: null, text: "<|3|19.9>", n: 3, item: "é" },
      },
      { mocks: { a: [{ output: {} }] }, ends: { x: null, text: "<||>", n: null, item: null } },
      { mocks: { a: [{ error: { code: "broken", retryable: false } }] }, ends: "failed: broken" },
    ],
  },
  {
    says: "without outputParameters the output is that of the last task",
    document: flow([simple("a"), simple("b", { sum: "${a.output.n}" })]),
    runs: [{ mocks: { b: [{ output: { ok: true } }] }, ends: { ok: true } }],
  },
  {
    says: "a SWITCH by a value takes its case, and else the default",
    document: flow(
      [
        {
          ...{ name: "s", taskReferenceName: "s", type: "SWITCH", evaluatorType: "value-param", expression: "by" },
          inputParameters: { by: "${workflow.input.by}" },
          decisionCases: { post: [simple("post")], "1": [simple("one")], none: [] },
          defaultCase: [simple("other")],
        },
        simple("last"),
      ],
      { post: "${post.output.ok}", one: "${one.output.ok}", other: "${other.output.ok}" },
    ),
    runs: [
      { input: { by: "post" }, mocks: { post: [{ output: { ok: 1 } }] }, ends: { post: 1, one: null, other: null } },
      { input: { by: 1 }, mocks: { one: [{ output: { ok: 1 } }] }, ends: { post: null, one: 1, other: null } },
      { input: { by: "none" }, ends: { post: null, one: null, other: null } },
      { input: {}, mocks: { other: [{ output: { ok: 1 } }] }, ends: { post: null, one: null, other: 1 } },
    ],
  },
  {
    says: "a SWITCH by a script",
    document: flow(
      [
        {
          ...{
            name: "s",
            taskReferenceName: "s",
            type: "SWITCH",
            evaluatorType: "javascript",
            inputParameters: { n: "${workflow.input.n}" },
          },
          expression: "$.n > 10 ? 'large' : ($.n == 0 ? 'none' : 'small')",
          decisionCases: {
            large: [
              {
                ...end("COMPLETED"),
                inputParameters: { terminationStatus: "COMPLETED", workflowOutput: { is: "large" } },
              },
            ],
            none: [end("FAILED")],
          },
          defaultCase: [],
        },
      ],
      { is: "small" },
    ),
    runs: [
      { input: { n: 10.5 }, ends: { is: "large" } },
      { input: { n: 0 }, ends: "failed: terminated" },
      { input: { n: 10 }, ends: { is: "small" } },
    ],
  },
  {
    says: "behind a JOIN the outputs of the branches are seen",
    document: flow(
      [
        {
          name: "f",
          taskReferenceName: "f",
          type: "FORK_JOIN",
          forkTasks: [[simple("a"), simple("b", { n: "${a.output.n}" })], [simple("c")]],
        },
        { name: "j", taskReferenceName: "j", type: "JOIN", joinOn: ["b", "c"] },
      ],
      { a: "${a.output.n}", joined: "${j.output}" },
    ),
    runs: [
      {
        mocks: { a: [{ output: { n: 1 } }], b: [{ output: { n: 2 } }], c: [{ output: { n: 3 } }] },
        ends: { a: 1, joined: { b: { n: 2 }, c: { n: 3 } } },
      },
      { mocks: { c: [{ error: { code: "broken" } }] }, ends: "failed: broken" },
    ],
  },
  {
    says: "a DO_WHILE does its first round, and its output has all rounds",
    document: flow(
      [
        {
          ...{
            name: "loop",
            taskReferenceName: "loop",
            type: "DO_WHILE",
            inputParameters: { most: "${workflow.input.most}" },
          },
          loopCondition: "if ($.loop['iteration'] < $.most) { true; } else { false; }",
          loopOver: [simple("a", { nr: "${loop.output.iteration}" })],
        },
      ],
      { rounds: "${loop.output.iteration}", all: "${loop.output}", last: "${a.output.n}" },
    ),
    runs: [
      {
        input: { most: 2 },
        mocks: { a: [{ output: { n: 1 } }, { output: { n: 2 } }] },
        ends: { rounds: 2, all: { iteration: 2, "1": { a: { n: 1 } }, "2": { a: { n: 2 } } }, last: 2 },
      },
      {
        input: { most: 0 },
        mocks: { a: [{ output: { n: 1 } }] },
        ends: { rounds: 1, all: { iteration: 1, "1": { a: { n: 1 } } }, last: 1 },
      },
    ],
  },
  {
    says: "an optional task may fail",
    document: flow([simple("a", {}, { optional: true }), simple("b")], { b: "${b.output.ok}" }),
    runs: [{ mocks: { a: [{ error: { code: "broken" } }], b: [{ output: { ok: 1 } }] }, ends: { b: 1 } }],
  },
  {
    says: "an optional request may fail",
    document: flow(
      [
        {
          name: "h",
          taskReferenceName: "response",
          type: "HTTP",
          optional: true,
          inputParameters: { http_request: { uri: "https://a.example" } },
        },
      ],
      { code: "${response.output.response.statusCode}" },
    ),
    runs: [
      { mocks: { response: [{ error: { code: "http_500" } }] }, ends: { code: null } },
      { mocks: { response: [{ output: { status: 204 } }] }, ends: { code: 204 } },
    ],
  },
  {
    says: "variables are set one by one, and keep the others",
    document: {
      ...flow(
        [
          { name: "v", taskReferenceName: "v", type: "SET_VARIABLE", inputParameters: { a: "${workflow.input.x}" } },
          {
            name: "w",
            taskReferenceName: "w",
            type: "SET_VARIABLE",
            inputParameters: { b: "${workflow.variables.a}" },
          },
        ],
        { all: "${workflow.variables}" },
      ),
      variables: { a: 0, c: "kept" },
    },
    runs: [{ input: { x: [1] }, ends: { all: { a: [1], b: [1], c: "kept" } } }],
  },
  {
    says: "scripts and paths of jq compute",
    document: flow(
      [
        {
          name: "i",
          taskReferenceName: "i",
          type: "INLINE",
          inputParameters: {
            evaluatorType: "graaljs",
            expression: "(function () { return $.a + $.b; })();",
            a: "${workflow.input.a}",
            b: 2,
          },
        },
        {
          name: "q",
          taskReferenceName: "q",
          type: "JSON_JQ_TRANSFORM",
          inputParameters: { queryExpression: ".data.list[0]", data: "${workflow.input}" },
        },
      ],
      { sum: "${i.output.result}", first: "${q.output.result}" },
    ),
    runs: [{ input: { a: 40, list: ["x"] }, ends: { sum: 42, first: "x" } }],
  },
  {
    says: "a request, a wait, a signal, a form and an event",
    document: flow(
      [
        {
          name: "h",
          taskReferenceName: "h",
          type: "HTTP",
          inputParameters: { http_request: { uri: "https://a.example/${workflow.input.id}", method: "GET" } },
        },
        { name: "w", taskReferenceName: "w", type: "WAIT", inputParameters: { duration: "1 hour 30 minutes" } },
        { name: "s", taskReferenceName: "s", type: "WAIT", inputParameters: {} },
        { name: "p", taskReferenceName: "p", type: "HUMAN" },
        {
          name: "e",
          taskReferenceName: "e",
          type: "EVENT",
          sink: "conductor:told",
          inputParameters: { id: "${workflow.input.id}" },
        },
      ],
      {
        code: "${h.output.response.statusCode}",
        body: "${h.output.response.body}",
        by: "${s.output.by}",
        form: "${p.output.x}",
      },
    ),
    runs: [
      {
        input: { id: 7 },
        mocks: {
          h: [{ output: { status: 201, body: { ok: 1 } } }],
          s: [{ output: { by: "ann" } }],
          p: [{ output: { x: 1 } }],
        },
        ends: { code: 201, body: { ok: 1 }, by: "ann", form: 1 },
      },
      { input: { id: 7 }, mocks: { h: [{ error: { code: "http_404", retryable: false } }] }, ends: "failed: http_404" },
    ],
  },
  {
    says: "a sub-workflow gives its output",
    document: flow(
      [
        {
          name: "sub",
          taskReferenceName: "sub",
          type: "SUB_WORKFLOW",
          subWorkflowParam: { name: "child", version: 1 },
          inputParameters: { a: 1 },
        },
      ],
      { r: "${sub.output.r}" },
    ),
    runs: [
      { mocks: { sub: [{ output: { r: 5 } }] }, ends: { r: 5 } },
      { mocks: { sub: [{ error: { code: "x" } }] }, ends: "failed: child_failed" },
    ],
  },
];

function end(terminationStatus: string): JsonObject {
  return {
    name: "t",
    taskReferenceName: `t_${terminationStatus}`,
    type: "TERMINATE",
    inputParameters: { terminationStatus, terminationReason: "because" },
  };
}

describe("imported workflows of Conductor", () => {
  it.each(CASES)("$says", ({ document, runs }) => {
    const { findings, workflow } = imported(document);
    expect(findings.filter(({ weight }) => weight === "refused")).toEqual([]);
    expect(checkWorkflow(workflow).filter(({ code }) => code === "invalid")).toEqual([]);
    for (const { input = {}, mocks = {}, ends } of runs) {
      const { state, output, error, left } = run(document, input, mocks);
      expect(left).toBeUndefined();
      expect(state === "succeeded" ? output : `${state}: ${error?.code}`, JSON.stringify({ input, mocks })).toEqual(
        ends,
      );
    }
  });

  it("the policy of a task definition becomes that of the action", () => {
    const taskDefinition = {
      name: "t",
      retryCount: 2,
      retryLogic: "EXPONENTIAL_BACKOFF",
      retryDelaySeconds: 5,
      timeoutSeconds: 60,
      timeoutPolicy: "TIME_OUT_WF",
      responseTimeoutSeconds: 10,
      concurrentExecLimit: 4,
      rateLimitPerFrequency: 20,
      rateLimitFrequencyInSeconds: 60,
    };
    const { workflow } = imported(flow([simple("a", {}, { taskDefinition })]));
    expect((workflow.steps as readonly JsonObject[]).find(({ id }) => id === "a")).toMatchObject({
      ...{
        action: "conductor.do_a",
        timeout_ms: 60_000,
        heartbeat_timeout_ms: 10_000,
        concurrency: { key: "do_a", limit: 4 },
        rate_limit: { key: "do_a", limit: 20, per_ms: 60_000, burst: 1 },
      },
      retry: {
        max_attempts: 3,
        initial_backoff_ms: 5_000,
        multiplier: 2,
        jitter: false,
        non_retryable_codes: ["timeout"],
      },
    });
  });

  it("a rate limit without a time is one in a second, without a number is none, and one beyond the bounds is refused", () => {
    const rateOf = (taskDefinition: JsonObject) => {
      const { workflow } = imported(flow([simple("a", {}, { taskDefinition })]));
      return (workflow.steps as readonly JsonObject[]).find(({ id }) => id === "a")?.rate_limit;
    };
    expect(rateOf({ rateLimitPerFrequency: 5 })).toEqual({ key: "do_a", limit: 5, per_ms: 1_000, burst: 1 });
    expect(rateOf({ rateLimitPerFrequency: 0, rateLimitFrequencyInSeconds: 60 })).toBeUndefined();
    expect(rateOf({ rateLimitPerFrequency: 5, rateLimitFrequencyInSeconds: 0 })).toBeUndefined();
  });

  const REFUSED: readonly (readonly [what: string, pointer: string, document: JsonObject])[] = [
    [
      "a rate beyond the bounds",
      "/tasks/0/taskDefinition/rateLimitPerFrequency",
      flow([simple("a", {}, { taskDefinition: { rateLimitPerFrequency: 10_001 } })]),
    ],
    ["a failure workflow", "/failureWorkflow", { ...flow([simple("a")]), failureWorkflow: "undo" }],
    [
      "a dynamic fork",
      "/tasks/0/type",
      flow([
        { name: "f", taskReferenceName: "f", type: "FORK_JOIN_DYNAMIC" },
        { name: "j", taskReferenceName: "j", type: "JOIN" },
      ]),
    ],
    ["a task of a model", "/tasks/0/type", flow([{ name: "l", taskReferenceName: "l", type: "LLM_CHAT_COMPLETE" }])],
    [
      "a program of jq",
      "/tasks/0/inputParameters/queryExpression",
      flow([
        {
          name: "q",
          taskReferenceName: "q",
          type: "JSON_JQ_TRANSFORM",
          inputParameters: { queryExpression: ".a | map(.b)" },
        },
      ]),
    ],
    [
      "a program in JavaScript",
      "/tasks/0/inputParameters/expression",
      flow([
        {
          name: "i",
          taskReferenceName: "i",
          type: "INLINE",
          inputParameters: { expression: "var x = 1; for (;;) x++;" },
        },
      ]),
    ],
    [
      "a join of some branches",
      "/tasks/1/joinOn",
      flow([
        { name: "f", taskReferenceName: "f", type: "FORK_JOIN", forkTasks: [[simple("a")], [simple("b")]] },
        { name: "j", taskReferenceName: "j", type: "JOIN", joinOn: ["a"] },
      ]),
    ],
    [
      "a linear backoff",
      "/tasks/0/taskDefinition/retryLogic",
      flow([simple("a", {}, { taskDefinition: { retryLogic: "LINEAR_BACKOFF" } })]),
    ],
    ["a reference to a state", "/tasks/1/inputParameters/x", flow([simple("a"), simple("b", { x: "${a.status}" })])],
    [
      "an end of the workflow in a branch",
      "/tasks/0/forkTasks/0/0",
      flow([
        { name: "f", taskReferenceName: "f", type: "FORK_JOIN", forkTasks: [[end("COMPLETED")]] },
        { name: "j", taskReferenceName: "j", type: "JOIN", joinOn: ["t_COMPLETED"] },
      ]),
    ],
    [
      "a queue of another system",
      "/tasks/0/sink",
      flow([{ name: "e", taskReferenceName: "e", type: "EVENT", sink: "sqs:q" }]),
    ],
  ];

  it.each(REFUSED)("%s has no equivalent, and is named with its place", (_, pointer, document) => {
    const { findings, faithful, workflow } = imported(document);
    expect(faithful).toBe(false);
    expect(findings.filter(({ weight }) => weight === "refused").map((finding) => finding.pointer)).toContain(pointer);
    expect(checkWorkflow(workflow).filter(({ code }) => code === "invalid")).toEqual([]);
  });
});
