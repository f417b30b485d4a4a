// State machines written for this test, and how they end: the ends are read from the specification of the Amazon States Language, not from the importer.
import { describe, expect, it } from "vitest";
import { checkWorkflow, importWorkflow, type Json, type JsonObject } from "../../machines/index.js";
import type { Script } from "./interpreter.js";
import { rehearse } from "./rehearsed.js";

const F = "arn:aws:lambda:eu-central-1:123456789012:function:";

function imported(document: JsonObject) {
  const result = importWorkflow(document, { name: "machine" });
  if (!result) throw new Error("it is no state machine");
  return result;
}

interface Case {
  readonly says: string;
  readonly machine: JsonObject;
  readonly runs: readonly { readonly input?: JsonObject; readonly tasks?: Script; readonly ends: Json }[];
}

const task = (name: string, others: JsonObject): JsonObject => ({ Type: "Task", Resource: `${F}${name}`, ...others });
const one = (state: JsonObject): JsonObject => ({ StartAt: "A", States: { A: { End: true, ...state } } });
const failed = (error: string): Json => ({ failed: error });

const ORDER: JsonObject = {
  StartAt: "Reserve goods",
  States: {
    "Reserve goods": task("reserve", {
      Parameters: { "sku.$": "$.sku", "by.$": "$$.State.Name" },
      ResultPath: "$.reservation",
      Retry: [{ ErrorEquals: ["Busy"], IntervalSeconds: 2, MaxAttempts: 2, BackoffRate: 3 }],
      Catch: [{ ErrorEquals: ["Sold.Out"], ResultPath: "$.problem", Next: "Sold out" }],
      Next: "Large?",
    }),
    "Large?": {
      Type: "Choice",
      Choices: [
        {
          And: [
            { Variable: "$.amount", IsPresent: true },
            { Variable: "$.amount", NumericGreaterThan: 100 },
          ],
          Next: "Ask",
        },
        { Variable: "$.sku", StringMatches: "free-*", Next: "Done" },
      ],
      Default: "Charge",
    },
    Ask: { Type: "Pass", Result: { by: "boss" }, ResultPath: "$.approval", Next: "Charge" },
    Charge: task("charge", { ResultSelector: { "id.$": "$.receipt" }, ResultPath: "$.paid", Next: "Done" }),
    "Sold out": { Type: "Fail", Error: "NoGoods", Cause: "there are none" },
    Done: { Type: "Succeed", OutputPath: "$.paid" },
  },
};

const CASES: readonly Case[] = [
  {
    says: "an order takes the branch of its amount, retries what is busy, and fails if the goods are sold out",
    machine: ORDER,
    runs: [
      { input: { sku: "tea", amount: 5 }, tasks: { Charge: [{ output: { receipt: "R" } }] }, ends: { id: "R" } },
      { input: { sku: "tea", amount: 500.5 }, tasks: { Charge: [{ output: { receipt: "R" } }] }, ends: { id: "R" } },
      { input: { sku: "tea", amount: 5 }, tasks: { Charge: [{ error: "Declined" }] }, ends: failed("Declined") },
      {
        input: { sku: "tea" },
        tasks: {
          "Reserve goods": [{ error: "Busy" }, { error: "Busy" }, { output: {} }],
          Charge: [{ output: { receipt: 1 } }],
        },
        ends: { id: 1 },
      },
      { input: { sku: "tea" }, tasks: { "Reserve goods": [{ error: "Busy" }] }, ends: failed("Busy") },
      {
        input: { sku: "tea" },
        tasks: { "Reserve goods": [{ error: "Busy" }, { error: "Sold.Out" }] },
        ends: failed("NoGoods"),
      },
      // Nothing was paid, so the OutputPath of the last state finds nothing.
      { input: { sku: "free-🎉" }, ends: failed("expression_error") },
    ],
  },
  {
    says: "a ResultPath of null discards the result, and one of $ is the default",
    machine: one(task("f", { ResultPath: null })),
    runs: [{ input: { a: 19.99 }, tasks: { A: [{ output: { b: 2 } }] }, ends: { a: 19.99 } }],
  },
  {
    says: "a task may answer with a text, a number, a list or nothing",
    machine: one(task("f", { ResultPath: "$.status" })),
    runs: ["SUCCEEDED", 3, [1], null, true].map((output) => ({
      input: {},
      tasks: { A: [{ output }] },
      ends: { status: output },
    })),
  },
  {
    says: "a member of the input named $ is data",
    machine: one({ Type: "Pass", Parameters: { "a.$": "$['$']", "b.$": "$['é ${x}']" } }),
    runs: [{ input: { $: 1, "é ${x}": "${y}" }, ends: { a: 1, b: "${y}" } }],
  },
  {
    says: "a task without Retry is tried once",
    machine: one(task("f", {})),
    runs: [{ tasks: { A: [{ error: "Boom" }, { output: {} }] }, ends: failed("Boom") }],
  },
  {
    says: "States.ALL retries three times by default, and then its Catch is asked",
    machine: {
      StartAt: "A",
      States: {
        A: task("f", {
          Retry: [{ ErrorEquals: ["States.ALL"] }],
          Catch: [{ ErrorEquals: ["States.ALL"], Next: "B" }],
          End: true,
        }),
        B: { Type: "Pass", Parameters: { "error.$": "$.Error" }, End: true },
      },
    },
    runs: [
      { tasks: { A: [{ error: "X" }, { error: "X" }, { error: "X" }, { output: { ok: 1 } }] }, ends: { ok: 1 } },
      { tasks: { A: [{ error: "X" }, { error: "X" }, { error: "X" }, { error: "Y" }] }, ends: { error: "Y" } },
      { tasks: { A: [{ error: "States.Timeout" }] }, ends: { error: "States.Timeout" } },
    ],
  },
  {
    says: "each retrier counts for itself, and a used up one hands over to Catch",
    machine: {
      StartAt: "A",
      States: {
        A: task("f", {
          Retry: [
            { ErrorEquals: ["X"], MaxAttempts: 1 },
            { ErrorEquals: ["States.ALL"], MaxAttempts: 2 },
          ],
          Catch: [{ ErrorEquals: ["X"], ResultPath: null, Next: "B" }],
          End: true,
        }),
        B: { Type: "Pass", Result: "caught", End: true },
      },
    },
    runs: [
      { tasks: { A: [{ error: "X" }, { error: "Y" }, { error: "Y" }, { output: {} }] }, ends: {} },
      { tasks: { A: [{ error: "X" }, { error: "X" }] }, ends: "caught" },
      { tasks: { A: [{ error: "Y" }] }, ends: failed("Y") },
    ],
  },
  {
    says: "States.TaskFailed is no timeout",
    machine: {
      StartAt: "A",
      States: {
        A: task("f", { TimeoutSeconds: 5, Catch: [{ ErrorEquals: ["States.TaskFailed"], Next: "B" }], End: true }),
        B: { Type: "Succeed" },
      },
    },
    runs: [{ tasks: { A: [{ error: "States.Timeout" }] }, ends: failed("timeout") }],
  },
  {
    says: "a Parallel gives the list of its branches' outputs, and its error can be caught",
    machine: {
      StartAt: "P",
      States: {
        P: {
          Type: "Parallel",
          Branches: [one(task("f", {})), { StartAt: "B", States: { B: { Type: "Wait", Seconds: 9, End: true } } }],
          ResultPath: "$.both",
          Catch: [{ ErrorEquals: ["Boom"], ResultPath: "$.error.deep", Next: "Caught" }],
          End: true,
        },
        Caught: { Type: "Pass", Parameters: { "name.$": "$.error.deep.Error", "a.$": "$.a" }, End: true },
      },
    },
    runs: [
      { input: { a: 1 }, tasks: { A: [{ output: { x: 1 } }] }, ends: { a: 1, both: [{ x: 1 }, { a: 1 }] } },
      { input: { a: 1 }, tasks: { A: [{ error: "Boom" }] }, ends: { name: "Boom", a: 1 } },
      { input: { a: 1 }, tasks: { A: [{ error: "Other" }] }, ends: failed("Other") },
    ],
  },
  {
    says: "a Map gives the list of its items' outputs, an empty one of an empty list, and fails with its first item",
    machine: one({
      Type: "Map",
      ItemsPath: "$.lines",
      MaxConcurrency: 2,
      ItemSelector: { "line.$": "$$.Map.Item.Value", "nr.$": "$$.Map.Item.Index", "of.$": "$.order" },
      ItemProcessor: { StartAt: "I", States: { I: { Type: "Pass", OutputPath: "$.line.sku", End: true } } },
      ResultPath: "$.skus",
      OutputPath: "$.skus",
    }),
    runs: [
      { input: { order: 1, lines: [{ sku: "a" }, { sku: null }] }, ends: ["a", null] },
      { input: { order: 1, lines: [] }, ends: [] },
      { input: { order: 1, lines: [{}] }, ends: failed("expression_error") },
      { input: { order: 1, lines: "text" }, ends: failed("expression_error") },
    ],
  },
  {
    says: "a loop waits and asks again",
    machine: {
      StartAt: "Ask",
      States: {
        Ask: task("f", { ResultPath: "$.status", Next: "Ready?" }),
        "Ready?": {
          Type: "Choice",
          Choices: [{ Variable: "$.status", StringEquals: "READY", Next: "Done" }],
          Default: "Wait",
        },
        Wait: { Type: "Wait", SecondsPath: "$.every", Next: "Ask" },
        Done: { Type: "Succeed" },
      },
    },
    runs: [
      {
        input: { every: 30 },
        tasks: { Ask: [{ output: "NO" }, { output: "NO" }, { output: "READY" }] },
        ends: { every: 30, status: "READY" },
      },
    ],
  },
  {
    says: "no rule that holds and no Default is States.NoChoiceMatched, and a path to nothing fails",
    machine: {
      StartAt: "C",
      States: {
        C: { Type: "Choice", Choices: [{ Variable: "$.n", NumericEquals: 1, Next: "D" }] },
        D: { Type: "Succeed" },
      },
    },
    runs: [
      { input: { n: 1 }, ends: { n: 1 } },
      { input: { n: "1" }, ends: failed("no_branch_matched") },
      { input: {}, ends: failed("expression_error") },
    ],
  },
  {
    says: "intrinsic functions compute",
    machine: one({
      Type: "Pass",
      Parameters: {
        "text.$": "States.Format('{} costs {} \\{\\}, it\\'s {}%', $.sku, $.price, 10)",
        "list.$": "States.Array($.sku, States.MathAdd($.n, -1), null)",
        "parts.$": "States.ArrayPartition(States.ArrayRange(1, 5, 1), 2)",
        "json.$": "States.JsonToString($.deep)",
        "merged.$": "States.JsonMerge($.deep, $.other, false)",
      },
    }),
    runs: [
      {
        input: { sku: "té", price: 19.9, n: 3, deep: { a: 'q"', b: 1 }, other: { b: 2 } },
        ends: {
          text: "té costs 19.9 {}, it's 10%",
          list: ["té", 2, null],
          parts: [[1, 2], [3, 4], [5]],
          json: '{"a":"q\\"","b":1}',
          merged: { a: 'q"', b: 2 },
        },
      },
    ],
  },
];

describe("imported state machines", () => {
  it.each(CASES)("$says", ({ machine, runs }) => {
    const result = imported(machine);
    expect(result.findings.filter(({ weight }) => weight === "refused")).toEqual([]);
    expect(checkWorkflow(result.workflow).filter(({ code }) => code === "invalid")).toEqual([]);
    for (const { input = {}, tasks = {}, ends } of runs) {
      const { state, output, error, left } = rehearse(result, input, tasks);
      expect(left).toBeUndefined();
      expect(
        state === "succeeded" ? (output ?? null) : failed(String(error?.code)),
        JSON.stringify({ input, tasks }),
      ).toEqual(ends);
    }
  });

  it("a retry waits as long as it says: the interval, times the rate, at most the longest delay", () => {
    const retry = { ErrorEquals: ["Boom"], IntervalSeconds: 2, BackoffRate: 4, MaxDelaySeconds: 10, MaxAttempts: 3 };
    const { events } = rehearse(imported(one(task("f", { Retry: [retry] }))), {}, { A: [{ error: "Boom" }] });
    const tried = events.filter(({ step_id, event_type }) => step_id === "A.task" && event_type === "step.started");
    const times = tried.map(({ recorded_at }) => Date.parse(recorded_at));
    expect(times.slice(1).map((time, index) => time - (times[index] ?? 0))).toEqual([2_000, 8_000, 10_000]);
  });

  const REFUSED: readonly (readonly [what: string, pointer: string, machine: JsonObject])[] = [
    [
      "a task token",
      "/States/A/Resource",
      one({ Type: "Task", Resource: "arn:aws:states:::sqs:sendMessage.waitForTaskToken" }),
    ],
    ["JSONata", "/QueryLanguage", { ...one({ Type: "Pass" }), QueryLanguage: "JSONata" }],
    [
      "a tolerated failure",
      "/States/A/ToleratedFailurePercentage",
      one({ Type: "Map", ToleratedFailurePercentage: 5, ItemProcessor: one({ Type: "Pass" }) }),
    ],
    ["items in S3", "/States/A/ItemReader", one({ Type: "Map", ItemReader: {}, ItemProcessor: one({ Type: "Pass" }) })],
    [
      "a distributed map",
      "/States/A/ItemProcessor/ProcessorConfig/Mode",
      one({ Type: "Map", ItemProcessor: { ProcessorConfig: { Mode: "DISTRIBUTED" }, ...one({ Type: "Pass" }) } }),
    ],
    ["credentials", "/States/A/Credentials", one(task("f", { Credentials: { RoleArn: "x" } }))],
    ["a random number", "/States/A/Parameters/a.$", one({ Type: "Pass", Parameters: { "a.$": "States.UUID()" } })],
    ["descendants", "/States/A/Parameters/a.$", one({ Type: "Pass", Parameters: { "a.$": "$..x" } })],
    ["an item in a ResultPath", "/States/A/ResultPath", one({ Type: "Pass", ResultPath: "$.a[0]" })],
    ["a field that no state has", "/States/A/Retries", one(task("f", { Retries: 3 }))],
    ["a state of another type", "/States/A/Type", one({ Type: "Sleep" })],
    ["a variable", "/States/A/Assign", one({ Type: "Pass", Assign: { x: 1 } })],
  ];

  it.each(REFUSED)("%s has no equivalent, and is named with its place", (_, pointer, machine) => {
    const { findings, faithful, workflow } = imported(machine);
    expect(faithful).toBe(false);
    expect(findings.filter(({ weight }) => weight === "refused").map((finding) => finding.pointer)).toContain(pointer);
    // What is written in its place is a valid workflow all the same.
    expect(checkWorkflow(workflow).filter(({ code }) => code === "invalid")).toEqual([]);
  });

  it("what needs something outside of the document is a note, and the import stays faithful", () => {
    const { findings, faithful } = imported(
      one({ Type: "Task", Resource: "arn:aws:states:::dynamodb:getItem", HeartbeatSeconds: 5 }),
    );
    expect(faithful).toBe(true);
    expect(findings.map(({ weight, instead }) => [weight, instead])).toEqual([
      [
        "note",
        "the action dynamodb.getItem: it gets the parameters of the integration, and answers as the integration does",
      ],
      ["note", "heartbeat_timeout_ms"],
    ]);
  });
});
