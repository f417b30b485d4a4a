// The action step: what is called, how long it may take, and what its answers become.
import { describe, expect, it } from "vitest";
import { ANSWER_TRANSIT_MS, asDispatchId, type Dispatch, pausedReason, wakeAt } from "../../../machines/index.js";
import { RUN_ID, type Simulation, START } from "../simulation.js";
import {
  attribute,
  chartOf,
  type Draft,
  failureOf,
  finish,
  metadataOf,
  problemsOf,
  rowsOf,
  start,
  typesOf,
} from "./rig.js";

const act = (more: Record<string, unknown> = {}): Draft => ({ type: "action", action: "shop.notify", ...more });
const ONCE = { max_attempts: 1, initial_backoff_ms: 0 };

/** The dispatch that is with the worker. */
function dispatched(run: Simulation): Dispatch {
  const { wait } = run.context;
  const dispatch = wait?.kind === "dispatched" ? run.dispatches.get(wait.dispatchId) : undefined;
  if (!dispatch) throw new Error(`nothing is with the worker: ${JSON.stringify(wait)}`);
  return dispatch;
}

describe("action", () => {
  attribute(
    "action.action",
    "is service.name, split at the last dot, or pinned to a version, and may be a template",
    () => {
      const actions = { "eu.shop.pay": { version: 3, transport: "http" as const, address: "http://pay" } };
      const call = (action: string, inputs = {}) => dispatched(start([act({ action })], { actions, inputs })).call;
      expect(call("eu.shop.pay")).toMatchObject({
        service: "eu.shop",
        action: "pay",
        version: 3,
        address: "http://pay",
      });
      expect(call("eu.shop.pay@3").version).toBe(3);
      expect(call("${inputs.region}.shop.pay", { region: "eu" }).service).toBe("eu.shop");
      expect(problemsOf(act({ action: "shop.pay@2147483647" }))).toEqual([]);
      for (const action of ["shop", "shop.", ".pay", "shop.pay@", "shop.pay@x", "shop.pay@latest"])
        expect(problemsOf(act({ action })), action).toEqual([
          '.action: must be "service.name" or "service.name@version"',
        ]);
      expect(problemsOf({ type: "action" })).toEqual([".action: is required"]);
    },
  );

  attribute("action.action", "one that is not registered fails, and is not retried", () => {
    expect(failureOf(finish([act({ action: "shop.nowhere" })]))).toBe(
      "action_not_registered: no action shop.nowhere is registered",
    );
    expect(failureOf(finish([act({ action: "shop.notify@9" })]))).toMatch(/^action_not_registered/);
    expect(failureOf(finish([act({ action: "${'nonsense'}" })]))).toMatch(/^action_not_registered/);
    expect(failureOf(finish([act({ action: "${1}" })]))).toBe("expression_error: action must be a string");
  });

  attribute("action.inputs", "are evaluated once per entry, the same for every attempt, and checked", () => {
    const step = act({ inputs: { n: "${inputs.n}", at: "${string(now)}" } });
    const run = start([step], { inputs: { n: 1 } });
    const { inputs } = dispatched(run).call;
    expect(inputs).toEqual({ n: 1, at: "2023-11-14T22:13:20Z" });
    run.now += 60_000;
    run.failure("busy");
    run.elapse();
    expect(dispatched(run).call.inputs).toEqual(inputs);
    expect(dispatched(start([act()])).call.inputs).toEqual({});
    expect(dispatched(start([act({ inputs: "${inputs}" })], { inputs: { n: 2 } })).call.inputs).toEqual({ n: 2 });
    expect(problemsOf(act({ inputs: [] }))).toEqual([".inputs: must be an object"]);
    expect(failureOf(finish([act({ inputs: "${[1]}" })]))).toBe("expression_error: inputs must be an object");
    expect(failureOf(finish([act({ action: "shop.strict", inputs: {} })]))).toBe(
      "schema_mismatch: the inputs of shop.strict: lacks n",
    );
  });

  attribute("action.timeout_ms", "the step's, else the registration's, else 300000, from the dispatch on", () => {
    const deadline = (more: Record<string, unknown>, registered = {}) =>
      dispatched(start([act(more)], { actions: { "shop.notify": registered } })).deadlineAt - START;
    expect(deadline({})).toBe(300_000);
    expect(deadline({}, { defaultTimeoutMs: 7_000 })).toBe(7_000);
    expect(deadline({ timeout_ms: 500 }, { defaultTimeoutMs: 7_000 })).toBe(500);
    expect(deadline({ timeout_ms: "${100.5}" })).toBe(101);
    expect(problemsOf(act({ timeout_ms: 0 }))).toEqual([".timeout_ms: must be at least 1"]);
    expect(problemsOf(act({ timeout_ms: 1e300 }))).toEqual([".timeout_ms: must be at most 316224000000"]);
    expect(failureOf(finish([act({ timeout_ms: "${0}" })]))).toBe(
      "expression_error: a timeout must be a number of at least 1",
    );
    expect(failureOf(finish([act({ timeout_ms: "${1.0e300}" })]))).toBe(
      "expression_error: a timeout is longer than ten years",
    );
  });

  attribute("action.timeout_ms", "expiry is retryable, a late answer is stale", () => {
    const run = start([act({ timeout_ms: 1_000, retry: { max_attempts: 2, initial_backoff_ms: 10, jitter: false } })]);
    const { dispatchId } = dispatched(run);
    run.elapse(999);
    expect(run.context.wait?.kind).toBe("dispatched");
    run.elapse(1 + ANSWER_TRANSIT_MS);
    expect([run.state, pausedReason(run.context)]).toEqual(["paused", "retry"]);
    expect(run.cancelled).toEqual([dispatchId]);
    expect(run.result({}, { dispatchId })).toEqual({ type: "report", stale: true });
    run.elapse();
    run.elapse();
    expect(failureOf(run)).toBe("timeout: the worker did not answer in time");
    const failed = rowsOf(run, "s").filter(({ type }) => type === "step.failed");
    expect(failed.map(({ attempt, metadata }) => [attempt, metadata])).toEqual([
      [
        1,
        {
          code: "timeout",
          message: "the worker did not answer in time",
          retryable: true,
          will_retry: true,
          next_retry_at: "2023-11-14T22:13:21.510Z",
        },
      ],
      [2, { code: "timeout", message: "the worker did not answer in time", retryable: true, will_retry: false }],
    ]);
  });

  attribute("action.queue_timeout_ms", "waiting for a worker is not an attempt, and ends with queue_timeout", () => {
    const run = start([act({ queue_timeout_ms: 4_000 })], { credit: () => false });
    expect([run.state, run.context.wait?.kind]).toEqual(["running", "queued"]);
    run.elapse(3_999);
    expect(run.context.wait?.kind).toBe("queued");
    run.elapse(1);
    expect(failureOf(run)).toBe("queue_timeout: no worker took the action in time");
    expect(typesOf(run, "s")).toEqual(["step.started", "step.failed"]);
    expect(metadataOf(run, "step.failed")).toMatchObject({ retryable: false });
    expect(run.queued.size).toBe(0);
    expect(wakeAt(start([act()], { credit: () => false }).context)).toBeUndefined();
    expect(problemsOf(act({ queue_timeout_ms: 0 }))).toEqual([".queue_timeout_ms: must be at least 1"]);
  });

  attribute(
    "action.heartbeat_timeout_ms",
    "silence ends the attempt, a heartbeat moves its end, the deadline stays",
    () => {
      const run = start([act({ heartbeat_timeout_ms: 500, timeout_ms: 1_200, retry: ONCE })]);
      const { dispatchId } = dispatched(run);
      const beat = () => run.command({ type: "heartbeat", dispatchId, actor: "worker:w" });
      expect(wakeAt(run.context)).toBe(START + 500);
      run.elapse(400);
      expect(beat()).toEqual({ type: "report", stale: false });
      expect(wakeAt(run.context)).toBe(START + 900);
      run.elapse(400);
      beat();
      expect(wakeAt(run.context)).toBe(START + 1_200 + ANSWER_TRANSIT_MS);
      run.elapse();
      expect(failureOf(run)).toBe("timeout: the worker did not answer in time");
      const silent = finish([act({ heartbeat_timeout_ms: 500, retry: ONCE })], { worker: () => ({ kind: "silence" }) });
      expect(failureOf(silent)).toBe("heartbeat_timeout: the worker's heartbeat was lost");
      expect(problemsOf(act({ heartbeat_timeout_ms: "1s" }))).toEqual([".heartbeat_timeout_ms: must be a number"]);
    },
  );

  it("its rows: started, dispatched, succeeded, with what the contract says of them", () => {
    const run = start([act({ action: "shop.charge", compensation: { action: "shop.refund" } })]);
    const { dispatchId } = dispatched(run);
    run.now += 30;
    run.result({ id: 7 });
    expect(rowsOf(run, "s").map(({ type, attempt, actor }) => [type, attempt, actor])).toEqual([
      ["step.started", 0, "coordinator"],
      ["step.dispatched", 1, "coordinator"],
      ["step.succeeded", 1, "worker:w"],
    ]);
    expect(metadataOf(run, "step.dispatched")).toEqual({
      action: "shop.charge@1",
      transport: "grpc",
      dispatch_id: dispatchId,
      deadline_at: "2023-11-14T22:18:20.000Z",
    });
    expect(metadataOf(run, "step.succeeded")).toEqual({ output: { id: 7 }, duration_ms: 30 });
  });

  it("a result is checked against the output schema; one that does not conform fails, and is not retried", () => {
    const strict = act({ action: "shop.strict", inputs: { n: 1 } });
    expect(finish([strict], { worker: () => ({ kind: "result", result: { ok: 1 } }) }).context.output).toEqual({
      ok: 1,
    });
    const run = finish([strict], { worker: () => ({ kind: "result", result: {} }) });
    expect(failureOf(run)).toBe("schema_mismatch: the worker's result: lacks ok");
  });

  it("the idempotency key is the same for every attempt of an entry, and another for the next entry", () => {
    const keys: string[] = [];
    const worker = ({ call, attempt, dispatchId }: Dispatch) => {
      keys.push(`${call.idempotencyKey} ${attempt} ${dispatchId}`);
      return attempt % 2
        ? ({ kind: "failure", code: "busy", retryable: true, outcomeUnknown: false } as const)
        : ({ kind: "result", result: {} } as const);
    };
    const steps: Draft[] = [
      act({ next: "s2" }),
      { type: "set_var", name: "n", value: "${has(vars.n) ? vars.n + 1 : 1}", next: "s3" },
      { type: "switch", cases: [{ when: "vars.n < 2", next: "s" }], default: "s4" },
      { type: "noop" },
    ];
    finish(steps, { worker });
    const [first, second] = [`${RUN_ID}:s:1`, `${RUN_ID}:s:4`];
    expect(keys.map((key) => key.split(" ").slice(0, 2))).toEqual([
      [first, "1"],
      [first, "2"],
      [second, "3"],
      [second, "4"],
    ]);
    expect(new Set(keys.map((key) => key.split(" ")[2])).size, "every attempt has a dispatch id of its own").toBe(4);
  });

  it("the licence is asked first: rejected is recorded, and not retried", () => {
    const actions = { "shop.notify": { licenseGroup: "pro" } };
    const run = finish([act()], { actions, licensed: false });
    expect(failureOf(run)).toBe("license_rejected: the licence group pro is not granted");
    expect(typesOf(run, "s")).toEqual(["step.started", "license.gate.rejected", "step.failed"]);
    expect(metadataOf(run, "license.gate.rejected")).toEqual({ action: "shop.notify", license_group: "pro" });
    expect(finish([act()], { actions, licensed: true }).state).toBe("succeeded");
  });

  it("a dry run dispatches what supports it, marked as such, and skips the rest with an empty output", () => {
    const dry = { identity: { dryRun: true } };
    expect(dispatched(start([act({ action: "shop.dry" })], dry)).dryRun).toBe(true);
    const run = finish([act({ compensation: { action: "shop.refund" }, next: "s2" }), { type: "error" }], dry);
    expect(metadataOf(run, "step.skipped")).toEqual({ reason: "dry_run" });
    expect(run.context.variables).toEqual({ s: {} });
    expect(run.undo).toEqual([]);
    expect(dispatched(start([act({ action: "shop.notify" })])).dryRun).toBe(false);
  });

  it("an answer without an id is for the current attempt; with a wrong step, attempt or id it is stale", () => {
    const run = start([act({ next: "s2" }), { type: "noop" }]);
    for (const about of [{ stepId: "s2" }, { attempt: 2 }, { dispatchId: asDispatchId(RUN_ID) }])
      expect(run.result({}, about)).toEqual({ type: "report", stale: true });
    expect(run.result({}, { stepId: "s", attempt: 1 })).toEqual({ type: "report", stale: false });
    expect(run.result({})).toEqual({ type: "report", stale: true });
  });

  it("the chart: an action may be skipped in a dry run", () => {
    expect(chartOf([act({ next: "s2" }), { type: "noop" }]).s).toEqual(["next -> s2", "skip -> s2"]);
  });
});
