// What a worker makes of a step, and how it answers: outputs, failures, undos, deadlines, cancels, heartbeats. Streams stay open here.
import { MAX_UINT32 } from "../../sdk/protocol/index.js";
import { SOON_MS } from "../bench.js";
import type { Case } from "../case.js";
import { STOPPED } from "../contract.js";
import { within } from "../patience.js";
import { NotApplicable } from "../rule.js";
import { described } from "../step.js";
import { expectOneExecution, expectOutput, expectReport, violate } from "./expect.js";

const echo: Case = {
  name: "result",
  rule: "A result names the dispatch, run, step and attempt of its step, and has a JSON object.",
  section: "answers",
  advice: "Copy dispatch_id, run_id, step_id and attempt from ExecuteStep, and write the output as JSON in UTF-8.",
  async run(bench) {
    const stream = await bench.ready();
    const inputs = { sku: "tea", quantity: 2 };
    const step = bench.give(stream, "echo", { inputs, message: { attempt: 3 } });
    await expectOutput(bench, step, inputs);
    expectReport(step);
  },
};

const DEPTH = 60;
const LARGE = 700_000;

const NASTY: readonly unknown[] = [
  {},
  { nothing: null, list: [], object: {}, empty: "" },
  { "emoji 🧾": "🫖 für zwei – 茶", "a.b/c~\"'": 'quotes " and \\ and \n', __proto: "x" },
  { decimals: [0.1, 19.99, -0.5, 1e-7, 1.5e300], integers: [0, -1, 9_007_199_254_740_991] },
  { booleans: [true, false, null], nested: [[[]], [{}]] },
  { deep: Array.from({ length: DEPTH }).reduce<unknown>((inner) => ({ inner }), "bottom") },
];

const inputs: Case = {
  name: "inputs",
  rule: "Inputs and outputs are JSON: emoji, null, empty lists, decimals and deep or large values come through unchanged.",
  section: "json",
  advice:
    "Read inputs_json and write result_json as UTF-8 with a JSON library that keeps decimals, null and empty lists, and raise the limit of gRPC messages to 16 MiB.",
  async run(bench) {
    const stream = await bench.ready();
    for (const inputs of [...NASTY, { large: "é".repeat(LARGE / 2) }])
      await expectOutput(bench, bench.give(stream, "echo", { inputs }), inputs, 2 * SOON_MS);
  },
};

const failure: Case = {
  name: "failure",
  rule: "A failure has the action's code and message, and says whether it can be retried and whether its outcome is unknown.",
  section: "answers",
  advice:
    "Send StepFailure with code, message, retryable (absent means true) and outcome_unknown as the action has them.",
  async run(bench) {
    const stream = await bench.ready();
    const told = { code: "card_declined", message: "the limit is 100 €" };
    for (const [retryable, outcome_unknown] of [
      [true, false],
      [false, false],
      [false, true],
    ] as const) {
      const step = bench.give(stream, "fail", { inputs: { ...told, retryable, outcome_unknown } });
      await bench.answerOf(step);
      const { failure } = step;
      if (!failure) return violate(`fail got ${described(step)}, not a failure`);
      // Absent, it is not in the message at all.
      const seen = { code: failure.code, message: failure.message, retryable: failure.retryable ?? true };
      const wanted = { ...told, retryable };
      for (const member of ["code", "message", "retryable"] as const)
        if (seen[member] !== wanted[member])
          violate(`the failure has ${member} ${JSON.stringify(seen[member])}, not ${JSON.stringify(wanted[member])}`);
      if (failure.outcome_unknown !== outcome_unknown)
        violate(`the failure has outcome_unknown ${failure.outcome_unknown}, not ${outcome_unknown}`);
      expectReport(step);
    }
  },
};

const unknownAction: Case = {
  name: "unknown-action",
  rule: "A step of an action or version that the worker does not have is answered with a failure that had no effect.",
  section: "answers",
  advice: 'Answer with StepFailure, the code "unknown_action" and outcome_unknown false, and go on.',
  async run(bench) {
    const stream = await bench.ready();
    for (const [action, version] of [
      ["no_such_action", 1],
      ["echo", 99],
    ] as const) {
      const step = bench.give(stream, action, { message: { version } });
      await bench.answerOf(step);
      if (!step.failure) violate(`${action}@${version} got ${described(step)}, not a failure`);
      if (step.failure?.outcome_unknown)
        violate(`the failure of ${action}@${version} has outcome_unknown: nothing happened`);
    }
    await expectOutput(bench, bench.give(stream, "echo", { inputs: { still: "here" } }), { still: "here" });
  },
};

const undo: Case = {
  name: "undo",
  rule: "An undo is a step with phase COMPENSATION, whose forward_idempotency_key names the effect to undo.",
  section: "undo",
  advice:
    'Give phase and forward_idempotency_key to the action: undo_echo returns {phase: "COMPENSATION", undone: the key}, also if there is nothing to undo.',
  async run(bench) {
    const stream = await bench.ready();
    const forward = bench.give(stream, "echo", { inputs: { effect: 1 } });
    await bench.answerOf(forward);
    for (const undone of [forward.message.idempotency_key, "of-an-effect-that-never-happened:1"]) {
      const step = bench.give(stream, "undo_echo", { undoes: undone });
      await expectOutput(bench, step, { phase: "COMPENSATION", undone });
    }
  },
};

const HEARTBEAT_MS = 1_500;

const heartbeats: Case = {
  name: "heartbeats",
  rule: "While a step with heartbeat_timeout_ms is executed, a heartbeat comes well within every such time.",
  section: "heartbeats",
  advice:
    "Send Heartbeat from a timer of a third of heartbeat_timeout_ms, not of heartbeat_interval_ms alone, until the step is answered.",
  async run(bench) {
    const stream = await bench.ready();
    const inputs = { ms: 3 * HEARTBEAT_MS };
    const step = bench.give(stream, "slow", { inputs, heartbeatTimeoutMs: HEARTBEAT_MS });
    await bench.answerOf(step, inputs.ms + SOON_MS);
    const times = [step.sentAt, ...step.heartbeats, step.answers[0]?.at ?? 0];
    const gaps = times.slice(1).map((at, nth) => at - (times[nth] ?? 0));
    const longest = Math.round(Math.max(...gaps));
    if (longest > HEARTBEAT_MS)
      violate(`${longest} ms passed without a heartbeat, with a heartbeat timeout of ${HEARTBEAT_MS} ms`);
    await expectOneExecution(bench, step);
  },
};

const LONG_MS = 60_000;

const cancel: Case = {
  name: "cancel",
  rule: "CancelStep asks a worker to stop; it still answers, with what happened.",
  section: "cancel",
  advice: `Tell the action to stop, and send its answer as of any other step: slow fails with the code "${STOPPED}".`,
  async run(bench) {
    const stream = await bench.ready();
    const step = bench.give(stream, "slow", { inputs: { ms: LONG_MS }, heartbeatTimeoutMs: HEARTBEAT_MS });
    // It is being executed by then.
    await within(SOON_MS, () => step.heartbeats.length > 0);
    stream.send({ cancel: { dispatch_id: step.id, reason: "the run was cancelled" } });
    await bench.answerOf(step, SOON_MS);
    if (step.failure?.code !== STOPPED) violate(`a cancelled slow got ${described(step)}, not the failure ${STOPPED}`);
    // Of a dispatch that it does not have.
    stream.send({ cancel: { dispatch_id: bench.prepare("slow").id, reason: "it is none of yours" } });
    await expectOutput(bench, bench.give(stream, "echo", { inputs: { after: "a cancel" } }), { after: "a cancel" });
  },
};

const SHORT_MS = 800;
const FAR_MS = 3_600_000;
const at = (ms: number) => new Date(Date.now() + ms).toISOString();

const deadline: Case = {
  name: "deadline",
  rule: "At its deadline a step is stopped: timeout_ms is the time that is left, and 4294967295 stands for deadline_at.",
  section: "deadlines",
  advice:
    "Go by timeout_ms from the arrival of the step, because clocks differ, and by deadline_at if timeout_ms is 0 or 4294967295.",
  async run(bench) {
    const stream = await bench.ready();
    const slow = { inputs: { ms: LONG_MS } };
    const clocks = [
      ["timeout_ms, on a clock that is an hour slow", () => ({ timeout_ms: SHORT_MS, deadline_at: at(FAR_MS) })],
      ["deadline_at", () => ({ timeout_ms: MAX_UINT32, deadline_at: at(SHORT_MS) })],
    ] as const;
    for (const [by, message] of clocks) {
      const step = bench.give(stream, "slow", { ...slow, message: message() });
      await within(SHORT_MS + SOON_MS / 2, () => step.answer !== undefined);
      if (!step.answer) violate(`slow went on after its deadline by ${by}: ${SHORT_MS} ms had been left`);
      if (step.failure?.code !== STOPPED) violate(`at its deadline by ${by}, slow got ${described(step)}`);
    }
    const ahead = { timeout_ms: LONG_MS, deadline_at: at(-FAR_MS) };
    await expectOneExecution(bench, bench.give(stream, "slow", { inputs: { ms: 0 }, message: ahead }));
  },
};

const late: Case = {
  name: "late-step",
  rule: "A step that arrives after its deadline is dropped.",
  section: "deadlines",
  advice: "Compare deadline_at with the clock if timeout_ms is 0, and execute nothing if it has passed.",
  async run(bench) {
    const stream = await bench.ready();
    const idempotencyKey = `late-step:${Date.now()}`;
    const options = { inputs: { ms: 0 }, idempotencyKey };
    bench.give(stream, "slow", { ...options, message: { timeout_ms: 0, deadline_at: at(-SHORT_MS) } });
    const next = bench.give(stream, "slow", options);
    await bench.answerOf(next);
    if (next.executions === 2) violate("a step whose deadline had passed was executed");
    await expectOneExecution(bench, next);
  },
};

const batches: Case = {
  name: "batches",
  rule: "A worker whose hello has batches reads a batch as its messages one after the other.",
  section: "batches",
  advice: "Handle every message of CoordinatorBatch in order, and send at most 64 messages in a WorkerBatch.",
  async run(bench) {
    const stream = await bench.ready();
    if (!stream.hello?.batches) throw new NotApplicable("the hello has no batches");
    const count = Math.min(stream.credit ?? 1, 3);
    const steps = Array.from({ length: count }, (_, nth) => bench.prepare("echo", { inputs: { nth } }));
    const recorded = { dispatch_id: bench.prepare("echo").id, stale: true };
    const messages = [{ recorded }, ...steps.map(({ message }) => ({ execute: message }))];
    stream.send({ batch: { messages: messages as never } });
    for (const [nth, step] of steps.entries()) await expectOutput(bench, step, { nth });
    const large = bench.streams.flatMap(({ batches }) => batches).find(({ value }) => value > 64);
    if (large) violate(`a WorkerBatch had ${large.value} messages: 64 are the most`);
  },
};

export const ANSWERS: readonly Case[] = [
  ...[echo, inputs, failure, unknownAction, undo],
  ...[heartbeats, cancel, deadline, late, batches],
];
