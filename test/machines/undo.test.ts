// Undo: which steps join the list, in which order they are undone, and the end of undos that fail.
import { describe, expect, it } from "vitest";
import { asDispatchId, type Dispatch } from "../../machines/index.js";
import { violations, worldViolations } from "./chain.js";
import { RUN_ID, type Simulation, type SimulationOptions, type WorkerMove } from "./simulation.js";
import { type Draft, failureOf, finish, metadataOf, rowsOf, start, typesOf } from "./steps/rig.js";

const REFUND = { action: "shop.refund" };
const ONCE = { max_attempts: 1, initial_backoff_ms: 0 };
const charge = (more: Record<string, unknown> = {}): Draft => ({
  type: "action",
  action: "shop.charge",
  compensation: REFUND,
  ...more,
});
const FAIL: Draft = { type: "error", code: "mine" };

const sent = (run: Simulation, phase: "forward" | "compensation") =>
  run.sent.filter(({ call }) => call.phase === phase).map(({ call }) => call);
const undone = (run: Simulation) => run.undo.map(({ stepId, state }) => `${stepId} ${state}`);
const logs = (run: Simulation, kind: string) => run.rows.filter(({ metadata }) => metadata?.kind === kind);
const warnings = (run: Simulation) => logs(run, "undo_passed").map(({ metadata }) => metadata);

/** Answers forward calls with their inputs, or as `moves` says for the step. */
const worker =
  (moves: Record<string, WorkerMove> = {}): SimulationOptions["worker"] =>
  ({ call }: Dispatch) =>
    moves[`${call.phase} ${call.stepId}`] ?? moves[call.stepId] ?? { kind: "result", result: { did: call.stepId } };

const unknown: WorkerMove = { kind: "failure", code: "lost", retryable: false, outcomeUnknown: true };
const plain: WorkerMove = { kind: "failure", code: "declined", retryable: false, outcomeUnknown: false };

describe("what joins the list", () => {
  it("a step whose error was stored is undone with that error in its scope", () => {
    const compensation = { ...REFUND, inputs: { why: "${vars.s.error.code}" } };
    for (const [move, code] of [
      [unknown, "lost"],
      [{ kind: "result", result: {} } as const, "schema_mismatch"],
    ] as const) {
      const failing = { ...charge({ action: "shop.strict", inputs: { n: 1 }, compensation, retry: ONCE }) };
      const run = finish([{ ...failing, on_error: "continue", next: "s2" }, FAIL], { worker: worker({ s: move }) });
      expect(sent(run, "compensation").map(({ inputs }) => inputs)).toEqual([{ why: code }]);
    }
  });

  it("what succeeded, newest completion first, one by one", () => {
    const run = finish([charge({ next: "s2" }), charge({ next: "s3" }), charge({ next: "s4" }), FAIL]);
    expect(failureOf(run)).toBe("mine: the workflow raised an error");
    expect(sent(run, "compensation").map(({ stepId }) => stepId)).toEqual(["s3", "s2", "s"]);
    expect(undone(run)).toEqual(["s done", "s2 done", "s3 done"]);
    expect(typesOf(run).slice(-10)).toEqual([
      ...["step.started", "step.dispatched", "step.succeeded"],
      ...["step.started", "step.dispatched", "step.succeeded"],
      ...["step.started", "step.dispatched", "step.succeeded", "run.failed"],
    ]);
    expect(
      rowsOf(run, "s")
        .slice(-3)
        .map(({ metadata }) => metadata?.phase),
    ).toEqual(Array(3).fill("compensation"));
  });

  it("every entry of a loop, each with its own inputs", () => {
    const loop: Draft[] = [
      { type: "set_var", name: "n", value: "${has(vars.n) ? vars.n + 1 : 1}", next: "s2" },
      charge({ inputs: { n: "${vars.n}" }, compensation: { ...REFUND, inputs: { undo: "${vars.n}" } }, next: "s3" }),
      { type: "switch", cases: [{ when: "vars.n < 3", next: "s" }], default: "s4" },
      FAIL,
    ];
    const run = finish(loop);
    expect(sent(run, "compensation").map(({ inputs }) => inputs)).toEqual([{ undo: 3 }, { undo: 2 }, { undo: 1 }]);
    const forward = sent(run, "forward").map(({ idempotencyKey }) => idempotencyKey);
    expect(sent(run, "compensation").map((call) => call.forwardIdempotencyKey)).toEqual(forward.reverse());
  });

  it("nothing, if the run succeeds; nothing that was skipped or plainly failed", () => {
    const succeeded = finish([charge()]);
    expect(typesOf(succeeded)).not.toContain("compensation.started");
    expect(undone(succeeded)).toEqual(["s owed"]);
    expect(undone(finish([charge({ when: "false", next: "s2" }), FAIL]))).toEqual([]);
    expect(undone(finish([charge({ retry: ONCE })], { worker: worker({ s: plain }) }))).toEqual([]);
    expect(undone(finish([charge({ action: "shop.nowhere" })]))).toEqual([]);
  });

  it("a step that is not an action, if it has a compensation", () => {
    const run = finish([
      { type: "transform", expression: "7", compensation: { ...REFUND, inputs: { was: "${output}" } }, next: "s2" },
      FAIL,
    ]);
    expect(sent(run, "compensation").map(({ inputs }) => inputs)).toEqual([{ was: 7 }]);
  });

  it("an unknown outcome, once, whether it timed out, lost its heartbeat or was reported so", () => {
    const cases: [Record<string, unknown>, WorkerMove, string][] = [
      [{ timeout_ms: 100, retry: ONCE }, { kind: "silence" }, "timeout"],
      [{ heartbeat_timeout_ms: 100, retry: ONCE }, { kind: "silence" }, "heartbeat_timeout"],
      [{ retry: ONCE }, unknown, "lost"],
    ];
    for (const [more, move, code] of cases) {
      const run = finish([charge(more)], { worker: worker({ "forward s": move }) });
      expect(failureOf(run)).toMatch(new RegExp(`^${code}: `));
      expect(undone(run), code).toEqual(["s done"]);
      expect(sent(run, "compensation")[0]?.inputs).toEqual({ inputs: {}, output: null });
    }
  });

  it("an unknown attempt, once, whatever its later attempts became", () => {
    const retry = { max_attempts: 3, initial_backoff_ms: 1, jitter: false };
    const first = (then: WorkerMove) =>
      finish([charge({ retry, on_error: "s2", next: "s2" }), FAIL], {
        worker: ({ attempt, call }) => {
          if (call.phase === "compensation") return { kind: "result", result: {} };
          return attempt === 1 ? { ...unknown, retryable: true } : then;
        },
      });
    expect(undone(first(plain))).toEqual(["s done"]);
    expect(undone(first({ kind: "result", result: { id: 1 } }))).toEqual(["s done"]);
    expect(sent(first({ kind: "result", result: { id: 1 } }), "compensation")[0]?.inputs).toEqual({
      inputs: {},
      output: { id: 1 },
    });
    expect(undone(first({ ...unknown, retryable: true }))).toEqual(["s done"]);
  });

  it("an unknown attempt, if the queue timed out on the next one", () => {
    let credit = true;
    const retry = { max_attempts: 2, initial_backoff_ms: 1, jitter: false };
    const run = start([charge({ retry, queue_timeout_ms: 50 })], { credit: () => credit });
    credit = false;
    run.failure("lost", { outcomeUnknown: true });
    run.elapse();
    run.elapse();
    credit = true;
    run.command({ type: "offer", dispatchId: asDispatchId([...run.queued.keys()].at(-1) ?? ""), workerId: "w" });
    run.drain();
    expect(failureOf(run)).toMatch(/^queue_timeout/);
    expect(undone(run)).toEqual(["s done"]);
  });

  it("a step that happened but failed for its result's schema or size", () => {
    const strict = charge({ action: "shop.strict", inputs: { n: 1 } });
    const mismatch = finish([strict], { worker: worker({ "forward s": { kind: "result", result: { id: 9 } } }) });
    expect(failureOf(mismatch)).toMatch(/^schema_mismatch/);
    expect(sent(mismatch, "compensation")[0]?.inputs).toEqual({ inputs: { n: 1 }, output: { id: 9 } });
    const big = { kind: "result", result: { big: "x".repeat(1_048_576) } } as const;
    const limit = finish([charge()], { worker: worker({ "forward s": big }) });
    expect(failureOf(limit)).toMatch(/^limit_exceeded/);
    expect(undone(limit)).toEqual(["s done"]);
  });
});

describe("the inputs of an undo", () => {
  it("see the output, the variables after it is stored, and the entry's now", () => {
    const inputs = { output: "${output.did}", stored: "${vars.s.did}", item: "${vars.item}", at: "${string(now)}" };
    const run = start(
      [
        charge({ compensation: { ...REFUND, inputs }, next: "s2" }),
        { type: "set_var", name: "item", value: 2, next: "s3" },
        FAIL,
      ],
      {
        variables: { item: 1 },
        worker: worker(),
      },
    );
    run.now += 5_000;
    run.drain();
    expect(sent(run, "compensation")[0]?.inputs).toEqual({
      output: "s",
      stored: "s",
      item: 1,
      at: "2023-11-14T22:13:20Z",
    });
  });

  it("are {inputs, output} by default, and where they cannot be evaluated", () => {
    for (const compensation of [REFUND, { ...REFUND, inputs: { x: "${vars.nowhere}" } }]) {
      const run = finish([charge({ inputs: { sum: 3 }, compensation, next: "s2" }), FAIL], { worker: worker() });
      expect(sent(run, "compensation")[0]?.inputs).toEqual({ inputs: { sum: 3 }, output: { did: "s" } });
    }
  });

  it("the keys: its own, the same for every attempt, and that of what is undone", () => {
    const run = finish([charge({ next: "s2" }), FAIL], {
      worker: ({ attempt, call }) =>
        call.phase === "compensation" && attempt === 2 ? { ...plain, retryable: true } : { kind: "result", result: {} },
    });
    const [forward] = sent(run, "forward");
    const [first, second] = sent(run, "compensation");
    expect(second).toEqual(first);
    expect(first).toMatchObject({
      phase: "compensation",
      stepId: "s",
      action: "refund",
      idempotencyKey: `${RUN_ID}:s:1:undo`,
      forwardIdempotencyKey: forward?.idempotencyKey,
    });
    expect(
      rowsOf(run, "s")
        .filter(({ type }) => type === "step.dispatched")
        .map(({ attempt }) => attempt),
    ).toEqual([1, 2, 3]);
  });

  it("the action may be a template, and its version is taken when the step completes", () => {
    const actions: Record<string, { version: number; compensable?: boolean }> = {
      "shop.charge": { version: 1, compensable: true },
      "shop.refund": { version: 4 },
    };
    const run = start(
      [
        charge({ compensation: { action: "shop.${vars.how}" }, next: "s2" }),
        { type: "wait_duration", duration_ms: 9, next: "s3" },
        FAIL,
      ],
      {
        actions,
        variables: { how: "refund" },
      },
    );
    run.work();
    expect(run.undo[0]?.action).toBe("shop.refund@4");
    actions["shop.refund"] = { version: 5 };
    run.drain();
    // Version 4 does not exist any more, and no other version is called in its place.
    expect(undone(run)).toEqual(["s failed"]);
    expect(run.context.requiresManualReview).toBe(true);
  });
});

describe("an undo that fails", () => {
  it("uses the compensating action's own retry and timeout", () => {
    const actions = {
      "shop.charge": { compensable: true, defaultTimeoutMs: 1 },
      "shop.refund": { defaultTimeoutMs: 70, defaultRetry: { max_attempts: 2, initial_backoff_ms: 9, jitter: false } },
    };
    const run = start(
      [charge({ retry: { max_attempts: 9, initial_backoff_ms: 1 }, on_error: "s2", next: "s2" }), FAIL],
      { actions },
    );
    run.result({});
    expect(run.state).toBe("compensating");
    const wait = () => run.context.wait;
    expect(wait()).toMatchObject({ kind: "dispatched", deadlineAt: run.now + 70 });
    run.elapse();
    expect(wait()).toMatchObject({ kind: "backoff", dueAt: run.now + 9 });
    expect(run.state).toBe("compensating");
    run.elapse();
    run.elapse();
    expect(failureOf(run)).toBe("mine: the workflow raised an error");
    expect(undone(run)).toEqual(["s failed"]);
    expect(rowsOf(run, "s").at(-1)).toMatchObject({
      type: "step.failed",
      metadata: { code: "timeout", phase: "compensation", will_retry: false },
    });
    expect(violations(run)).toEqual([]);
  });

  it("for good asks for a person, and the rollback goes on", () => {
    const run = finish([charge({ next: "s2" }), charge({ next: "s3" }), FAIL], {
      worker: worker({ "compensation s2": plain }),
    });
    expect(undone(run)).toEqual(["s done", "s2 failed"]);
    expect(run.context.requiresManualReview).toBe(true);
    expect(run.context.ending?.error?.code, "the first cause stays").toBe("mine");
  });

  it("because its action is not registered (any more) asks for a person, and the rollback goes on", () => {
    for (const action of ["shop.missing", "shop.refund@9", "${vars.nowhere}"]) {
      const run = finish([charge({ next: "s2" }), charge({ compensation: { action }, next: "s3" }), FAIL]);
      expect(undone(run), action).toEqual(["s done", "s2 failed"]);
      expect(run.context.requiresManualReview).toBe(true);
      expect(rowsOf(run, "s2").at(-1)?.metadata).toMatchObject({
        code: "action_not_registered",
        phase: "compensation",
      });
    }
  });

  it("a late answer to it is stale, and one without an id never is its answer", () => {
    const run = start([charge({ next: "s2" }), FAIL]);
    run.result({});
    const { wait } = run.context;
    expect(wait?.kind).toBe("dispatched");
    expect(run.result({}, { stepId: "s" })).toEqual({ type: "report", stale: true });
    expect(run.result({}, { stepId: "s", attempt: 1 })).toEqual({ type: "report", stale: true });
    expect(run.result({ ok: 1 }, { stepId: "s", attempt: 2 })).toEqual({ type: "report", stale: false });
    expect(rowsOf(run, "s").at(-1)?.metadata).toEqual({ output: { ok: 1 }, duration_ms: 0, phase: "compensation" });
    expect(run.state).toBe("failed");
  });
});

describe("what has no compensation", () => {
  const bare = (action: string): Draft => ({ type: "action", action, next: "s2" });

  it("is passed with a warning; one that is compensable is listed and asks for a person", () => {
    const cases: [string, boolean, string[]][] = [
      ["shop.charge", true, ["s passed"]],
      ["shop.notify", false, []],
    ];
    for (const [action, review, listed] of cases) {
      const run = finish([bare(action), FAIL]);
      expect(run.context.requiresManualReview, action).toBe(review);
      expect(warnings(run)).toMatchObject([{ level: "warn", steps: ["s"], count: 1 }]);
      expect(undone(run)).toEqual(listed);
      expect(typesOf(run)).not.toContain("compensation.started");
    }
  });

  it("is named in one warning, however much a rollback passes over", () => {
    const two = finish([bare("shop.notify"), { type: "action", action: "shop.charge", next: "s3" }, FAIL]);
    expect(warnings(two)).toMatchObject([{ steps: ["s", "s2"], count: 2 }]);
  });

  it("is passed once for all its entries, and beside those that are undone", () => {
    const run = finish([
      { type: "set_var", name: "n", value: "${has(vars.n) ? vars.n + 1 : 1}", next: "s2" },
      { type: "action", action: "shop.notify", next: "s3" },
      charge({ next: "s4" }),
      { type: "switch", cases: [{ when: "vars.n < 2", next: "s" }], default: "s5" },
      FAIL,
    ]);
    expect(warnings(run)).toMatchObject([{ steps: ["s2"], count: 1 }]);
    expect(undone(run)).toEqual(["s3 done", "s3 done"]);
  });

  it("leaves no trace in a run that succeeds, and a noop leaves none at all", () => {
    const run = finish([bare("shop.charge"), { type: "noop" }]);
    expect(warnings(run)).toEqual([]);
    expect(run.context.requiresManualReview).toBe(false);
    expect(warnings(finish([{ type: "noop", next: "s2" }, FAIL]))).toEqual([]);
  });

  it("and may have happened is passed, too", () => {
    const run = finish([{ type: "action", action: "shop.charge", retry: ONCE }], { worker: worker({ s: unknown }) });
    expect(run.context.requiresManualReview).toBe(true);
    expect(undone(run)).toEqual(["s passed"]);
  });
});

describe("a cancel", () => {
  it("awaits a dispatch in flight, and undoes what did happen", () => {
    const run = start([charge({ next: "s2" }), charge()], { worker: worker() });
    run.work();
    const dispatchId = asDispatchId([...run.dispatches.keys()].at(-1) ?? "");
    expect(run.cancel()).toMatchObject({ state: "compensating", alreadyTerminal: false });
    expect(run.cancelled).toEqual([dispatchId]);
    expect(sent(run, "compensation"), "no undo starts while a dispatch is unresolved").toEqual([]);
    run.now += 40;
    run.result({ id: 1 }, { dispatchId });
    run.drain();
    expect(run.state).toBe("cancelled");
    expect(sent(run, "compensation").map(({ stepId }) => stepId)).toEqual(["s2", "s"]);
    expect(rowsOf(run, "s2")[2]).toMatchObject({
      type: "step.succeeded",
      metadata: { output: { id: 1 }, duration_ms: 40 },
    });
    expect(typesOf(run).filter((type) => type === "compensation.started")).toHaveLength(1);
    expect(violations(run)).toEqual([]);
  });

  it("treats silence as an unknown outcome, and a plain failure as none", () => {
    const ends: [WorkerMove, string[]][] = [
      [{ kind: "silence" }, ["s done"]],
      [plain, []],
      [unknown, ["s done"]],
      [{ ...plain, retryable: true }, []],
    ];
    for (const [move, list] of ends) {
      const run = start([charge()], { worker: worker({ "forward s": move }) });
      run.cancel();
      run.drain();
      expect(run.state).toBe("cancelled");
      expect(undone(run)).toEqual(list);
      const cut = rowsOf(run, "s").find(({ type }) => type === "step.failed");
      expect(cut).toMatchObject({ attempt: 1, metadata: { code: "cancelled", will_retry: false } });
      expect(violations(run)).toEqual([]);
    }
  });

  it("aborts a waiting step at once: its row has the code cancelled and no attempt", () => {
    const waits: Draft[] = [
      { type: "wait_duration", duration_ms: 10 },
      { type: "wait_for_signal", signal_name: "go" },
    ];
    for (const step of waits) {
      const run = start([step]);
      expect(run.cancel()).toMatchObject({ state: "cancelled" });
      expect(metadataOf(run, "step.failed")).toEqual({
        code: "cancelled",
        message: "asked to",
        retryable: false,
        will_retry: false,
      });
      expect(rowsOf(run, "s").at(-1)?.attempt).toBe(0);
      expect(run.rows.at(-1)).toMatchObject({
        type: "run.cancelled",
        from: "paused",
        metadata: { reason: "asked to" },
      });
    }
  });

  it("in a backoff undoes an attempt that may have happened", () => {
    const run = start([charge()]);
    run.failure("lost", { outcomeUnknown: true });
    expect(run.state).toBe("paused");
    run.cancel();
    run.drain();
    expect([run.state, undone(run)]).toEqual(["cancelled", ["s done"]]);
  });

  it("without compensation ends at once: open dispatches are cancelled, not awaited, and nothing is undone", () => {
    const run = start([charge({ next: "s2" }), charge()], { worker: worker() });
    run.work();
    expect(run.cancel(false)).toMatchObject({ state: "cancelled" });
    expect(run.cancelled).toHaveLength(1);
    expect(run.dispatches.size).toBe(0);
    expect(rowsOf(run, "s2").at(-1)).toMatchObject({
      type: "step.failed",
      attempt: 1,
      metadata: { code: "cancelled" },
    });
    expect(sent(run, "compensation")).toEqual([]);
    expect(typesOf(run)).not.toContain("compensation.started");
  });

  it("without compensation leaves the step that was in flight on the list: it may have happened", () => {
    const run = start([charge({ next: "s2" }), charge({ next: "s3" }), charge()], { worker: worker() });
    run.work();
    run.work();
    expect(run.cancel(false)).toMatchObject({ state: "cancelled" });
    expect(undone(run)).toEqual(["s owed", "s2 owed", "s3 owed"]);
  });

  it("without compensation ends a try that timed out at once, and awaits no dispatch inside of it", () => {
    const steps = (more: object): Draft[] => [
      { type: "try_catch", try: "s2", catch: "s4", timeout_ms: 50, ...more },
      { type: "while", condition: "true", body: "s3", max_iterations: 2 },
      charge({ timeout_ms: 1_000 }),
      { type: "noop" },
    ];
    for (const more of [{}, { errors: ["mine"], rollback: true }]) {
      const run = start(steps(more), { worker: worker() });
      run.elapse(50);
      expect([run.state, run.context.wait?.kind]).toEqual(["running", "dispatched"]);
      expect(run.cancel(false)).toMatchObject({ state: "cancelled" });
      expect([run.dispatches.size, undone(run)]).toEqual([0, ["s3 owed"]]);
      expect(worldViolations(run.world)).toEqual([]);
    }
  });

  it("without compensation follows the rollback of a try, which awaits the dispatch that it cancelled", () => {
    const steps: Draft[] = [
      { type: "try_catch", try: "s2", catch: "s4", timeout_ms: 50, rollback: true },
      charge({ next: "s3" }),
      charge({ timeout_ms: 1_000 }),
      { type: "noop" },
    ];
    const run = start(steps, { worker: worker() });
    run.work();
    run.elapse(50);
    expect(run.cancel(false)).toMatchObject({ state: "running" });
    run.drain();
    expect([run.state, undone(run)]).toEqual(["cancelled", ["s2 done", "s3 done"]]);
    expect(worldViolations(run.world)).toEqual([]);
  });

  it("is never caught", () => {
    const run = start([{ type: "wait_duration", duration_ms: 10, on_error: "s2" }, { type: "noop" }]);
    run.cancel();
    expect([run.state, typesOf(run, "s2")]).toEqual(["cancelled", []]);
  });

  it("a rollback cannot be cancelled, and keeps its first cause", () => {
    const run = start([charge({ next: "s2" }), FAIL]);
    run.result({});
    expect(run.cancel()).toMatchObject({ state: "compensating", alreadyTerminal: false });
    expect(run.cancel(false)).toMatchObject({ state: "compensating" });
    run.drain();
    expect(failureOf(run)).toBe("mine: the workflow raised an error");
  });
});

describe("the run's own timeout", () => {
  it("rolls back with code timeout, from wherever the run is, and is never caught", () => {
    const steps: Draft[] = [
      charge({ next: "s2" }),
      { type: "wait_for_signal", signal_name: "go", on_error: "s3", on_timeout: "s3" },
      { type: "noop" },
    ];
    const run = finish(steps, { head: { timeout_ms: 60_000 }, identity: { expiresAt: 1_700_000_060_000 } });
    expect(failureOf(run)).toBe("timeout: the run did not end in time");
    expect(run.now).toBe(1_700_000_060_000);
    expect(undone(run)).toEqual(["s done"]);
    expect(metadataOf(run, "step.failed", "s2")).toMatchObject({ code: "timeout" });
    expect(typesOf(run, "s3")).toEqual([]);
  });

  it("awaits a dispatch in flight, too", () => {
    const run = start([charge({ timeout_ms: 100_000 })], { identity: { expiresAt: 1_700_000_060_000 } });
    run.elapse();
    expect([run.state, run.context.wait?.kind]).toEqual(["compensating", "dispatched"]);
    run.result({ id: 1 });
    run.drain();
    expect(failureOf(run)).toMatch(/^timeout/);
    expect(undone(run)).toEqual(["s done"]);
  });

  it("ends a run that was not begun yet", () => {
    const run = start([charge()], { identity: { delayedUntil: 1_700_000_100_000, expiresAt: 1_700_000_060_000 } });
    run.elapse();
    expect([failureOf(run), typesOf(run)]).toEqual(["timeout: the run did not end in time", ["run.failed"]]);
  });
});

describe("a dry run", () => {
  it("a dry run's undo is skipped where the action does not support it", () => {
    const actions = { "shop.charge": { dryRunSupported: true }, "shop.refund": {} };
    const run = finish([charge({ next: "s2" }), FAIL], { actions, identity: { dryRun: true } });
    expect(rowsOf(run, "s").at(-1)).toMatchObject({
      type: "step.skipped",
      metadata: { phase: "compensation", reason: "dry_run" },
    });
    expect(sent(run, "compensation")).toEqual([]);
  });
});
