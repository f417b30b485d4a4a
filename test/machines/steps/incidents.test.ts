// Incidents: a step, or an undo, that failed for good waits for a person, who retries it, skips it, or lets the error take its course.
import { describe, expect, it } from "vitest";
import { type Dispatch, explain, scopeOf } from "../../../machines/index.js";
import { ACTS, help } from "../acts.js";
import { violations, worldViolations } from "../chain.js";
import { program } from "../definitions.js";
import type { Simulation, WorkerMove } from "../simulation.js";
import { attribute, type Draft, problemsOf, start } from "./rig.js";

const by = { actor: "user:ops" } as const;
const plain: WorkerMove = { kind: "failure", code: "declined", retryable: false, outcomeUnknown: false };
const unsure: WorkerMove = { kind: "failure", code: "unsure", retryable: false, outcomeUnknown: true };
const done = (result: Record<string, string | number | boolean> = {}): WorkerMove => ({ kind: "result", result });
const HELPED = { on_failure: "incident", on_undo_failure: "incident" };
const charge = (more: Record<string, unknown> = {}): Draft => ({
  type: "action",
  action: "shop.charge",
  inputs: { n: "${vars.n}" },
  compensation: { action: "shop.refund" },
  ...more,
});

/** The moves of the worker, one after the other; the last one again and again. */
function worker(...moves: WorkerMove[]) {
  let nth = 0;
  return () => moves[Math.min(nth++, moves.length - 1)] as WorkerMove;
}

function incidentOf({ context: { wait } }: Simulation) {
  return wait?.kind === "incident" ? wait : undefined;
}

function finished(run: Simulation): Simulation {
  run.drain();
  expect([...violations(run), ...worldViolations(run.world)]).toEqual([]);
  return run;
}

/** A run that was drained to its incident. */
function stopped(steps: readonly Draft[], options: Parameters<typeof start>[1] = {}): Simulation {
  const run = start(steps, { head: HELPED, variables: { n: 1 }, ...options });
  run.drain();
  return run;
}

const childrenOf = (run: Simulation) => run.world.childrenOf(run.id) as Simulation[];
const keysOf = (run: Simulation) => run.sent.map(({ call }: Dispatch) => call.idempotencyKey);

describe("an incident of a step", () => {
  attribute(
    "step.on_failure",
    "a run whose step fails for good waits, if the step or else the workflow says so",
    () => {
      const cases = [
        [{}, undefined, "failed"],
        [{ on_failure: "incident" }, undefined, "paused"],
        [{ on_failure: "incident" }, "rollback", "failed"],
        [{}, "incident", "paused"],
        [{ on_failure: "rollback" }, "incident", "paused"],
      ] as const;
      for (const [head, own, state] of cases) {
        const step = charge(own === undefined ? {} : { on_failure: own });
        expect(stopped([step], { head, worker: worker(plain) }).state).toBe(state);
      }
      expect(problemsOf({ type: "noop", on_failure: "wait" })).toEqual([
        ".on_failure: must be one of rollback, incident",
      ]);
    },
  );

  it("tells what failed, how often it was tried, and since when", () => {
    const retry = { max_attempts: 2, initial_backoff_ms: 10, jitter: false };
    const run = stopped([charge({ retry })], { worker: worker({ ...plain, retryable: true }) });
    expect(incidentOf(run)).toMatchObject({ phase: "forward", attempts: 2, since: run.now });
    expect(incidentOf(run)?.error).toMatchObject({ code: "declined", step_id: "s" });
    expect(run.rows.at(-1)).toMatchObject({ type: "step.failed", attempt: 2, to: "paused" });
    expect(run.rows.at(-1)?.metadata).toMatchObject({ will_retry: false, incident: true });
  });

  it("what a try, a container or the step itself takes is none", () => {
    const catching: Draft[] = [{ type: "try_catch", try: "s2", catch: "s3" }, charge(), { type: "noop" }];
    expect(stopped(catching, { worker: worker(plain) }).state).toBe("succeeded");
    expect(stopped([{ ...charge(), on_error: "continue" }], { worker: worker(plain) }).state).toBe("succeeded");
    const containing: Draft[] = [
      { type: "try_catch", try: "s2", catch: "s3", errors: ["other"], on_error: "continue" },
      charge(),
      { type: "noop" },
    ];
    expect(stopped(containing, { worker: worker(plain) }).state).toBe("succeeded");
    const passing = containing.with(0, { type: "try_catch", try: "s2", catch: "s3", errors: ["other"] });
    expect(incidentOf(stopped(passing, { worker: worker(plain) }))?.error.step_id).toBe("s2");
  });

  it("is retried in its own entry, with corrected variables: the key stays, the attempts count on", () => {
    const run = stopped([charge({ next: "s2" }), { type: "end", output: "${vars.s}" }], {
      worker: worker(plain, done({ paid: true })),
    });
    expect(run.command({ type: "retry_step", variables: { n: 2 }, ...by })).toEqual({
      type: "acted",
      state: "running",
      changed: true,
    });
    finished(run);
    expect(run.context.output).toEqual({ paid: true });
    expect(run.sent.map(({ attempt, call }) => [attempt, call.inputs])).toEqual([
      [1, { n: 1 }],
      [2, { n: 2 }],
    ]);
    expect(new Set(keysOf(run)).size).toBe(1);
    const act = run.rows.find(({ metadata }) => metadata?.kind === "retry_step");
    expect(act).toMatchObject({ actor: "user:ops", stepId: "s", metadata: { variables: ["n"], by: "user:ops" } });
  });

  it("a backoff is cut short by a retry, which begins a new series", () => {
    const retry = { max_attempts: 2, initial_backoff_ms: 60_000, jitter: false };
    const busy: WorkerMove = { kind: "failure", code: "busy", retryable: true, outcomeUnknown: false };
    const run = start([charge({ retry })], { variables: { n: 1 }, worker: worker(busy, busy, done()) });
    run.work();
    expect(run.context.wait?.kind).toBe("backoff");
    const at = run.now;
    run.command(ACTS.retry_step);
    expect(run.now).toBe(at);
    run.work();
    // The first of the new series: one more is left.
    expect(run.context.wait).toMatchObject({ kind: "backoff", nth: 1 });
    expect(finished(run).state).toBe("succeeded");
  });

  it("is skipped: the step counts as succeeded with the given output, and is undone like any other", () => {
    const run = stopped([charge({ next: "s2" }), { type: "error", code: "late", on_failure: "rollback" }], {
      head: { on_failure: "incident" },
      worker: worker(plain, done()),
    });
    run.command({ type: "skip_step", output: { by_hand: true }, ...by });
    expect(run.context.variables.s).toEqual({ by_hand: true });
    run.command(ACTS.fail);
    finished(run);
    expect(run.state).toBe("failed");
    expect(run.sent.at(-1)?.call).toMatchObject({ phase: "compensation", inputs: { output: { by_hand: true } } });
  });

  it("a step whose purpose is to fail is not skipped", () => {
    const run = stopped([{ type: "error", code: "late" }]);
    expect(incidentOf(run)).toMatchObject({ error: { code: "late" } });
    expect(explain(run.context, { lastEventAt: 0 }).can).not.toContain("skip_step");
    expect(run.command(ACTS.skip_step)).toEqual({
      type: "refused",
      reason: "a step of the type error cannot succeed: let it fail, or terminate the run",
    });
    run.command(ACTS.fail);
    expect(finished(run).state).toBe("failed");
  });

  it.each([
    ["a member", "${vars.m}", ["m"]],
    ["a key", "${vars['m'] + vars[\"k\"]}", ["k", "m"]],
    ["a test", "${has(vars.m) ? 1 : ('k' in vars ? 2 : 3)}", ["k", "m"]],
    ["CEL beside text", "a ${vars.m} and ${vars.k}", ["k", "m"]],
  ])("a variable is corrected if the workflow reads it: %s", (_, expression, names) => {
    const run = stopped([charge({ inputs: { n: "${vars.n}" }, next: "s2" }), { type: "log", message: expression }], {
      worker: worker(plain, done()),
    });
    expect(run.command({ type: "retry_step", variables: { other: 1 }, ...by })).toMatchObject({
      ...{ type: "refused", invalid: true },
      reason: `nothing in the workflow reads the variable "other": those that a retry may correct are ${[...names, "n"]
        .sort()
        .map((each) => JSON.stringify(each))
        .join(", ")}`,
    });
    const variables = Object.fromEntries(names.map((name) => [name, 7]));
    expect(run.command({ type: "retry_step", variables, ...by })).toMatchObject({ type: "acted", changed: true });
  });

  it("any variable is corrected if the workflow reads them all, or computes a name", () => {
    for (const message of ["${vars}", "${vars[inputs.name]}"]) {
      const run = stopped([charge({ next: "s2" }), { type: "log", message }], { worker: worker(plain, done()) });
      expect(run.command({ type: "retry_step", variables: { other: 1 }, ...by })).toMatchObject({ changed: true });
    }
  });

  it("an output over the limit is refused, and the incident stays", () => {
    const run = stopped([charge()], { worker: worker(plain), limits: { output: 20 } });
    const output = "x".repeat(30);
    const answer = run.command({ type: "skip_step", output, ...by });
    expect(answer).toEqual({ type: "refused", reason: "the output is over 20 characters of JSON" });
    expect(incidentOf(run)).toBeDefined();
    const variables = { n: "x".repeat(50) };
    const limited = stopped([charge()], { worker: worker(plain), limits: { variables: 30 } });
    expect(limited.command({ type: "retry_step", variables, ...by })).toMatchObject({ type: "refused" });
  });

  it("is failed: its error takes its course, and what may have happened is undone", () => {
    const run = stopped([charge({ next: "s2" }), charge()], { worker: worker(done(), unsure, done()) });
    run.command({ type: "fail", reason: "not worth it", ...by });
    finished(run);
    expect(run.state).toBe("failed");
    expect(run.context.ending?.error).toMatchObject({ code: "unsure", step_id: "s2" });
    expect(run.undo.map(({ stepId, state }) => `${stepId} ${state}`)).toEqual(["s done", "s2 done"]);
  });

  it("an output that the engine refused is kept for the undo", () => {
    const strict = charge({ action: "shop.strict", inputs: { n: 1 } });
    const run = stopped([strict], { worker: worker(done({ wrong: 1 }), done()) });
    expect(incidentOf(run)?.error.code).toBe("schema_mismatch");
    run.command(ACTS.fail);
    finished(run);
    expect(run.sent.at(-1)?.call.inputs).toEqual({ inputs: { n: 1 }, output: { wrong: 1 } });
  });

  it("a task that was not submitted in time is opened again by a retry", () => {
    const task = { type: "manual_approval", assignee: "ann", due_in_ms: 1000 };
    const run = stopped([task]);
    expect(incidentOf(run)?.error.code).toBe("timeout");
    run.command(ACTS.retry_step);
    expect(run.tasks.map(({ state }) => state)).toEqual(["closed", "open"]);
    run.submit({ approved: true });
    expect(finished(run).state).toBe("succeeded");
  });

  it.each<[string, Draft[]]>([
    ["an evaluation", [{ type: "transform", expression: "vars.later + 1" }]],
    [
      "a decision",
      [{ type: "decision", expression: "vars.later", branches: { "7": { next: "s2" } } }, { type: "noop" }],
    ],
    [
      "a while",
      [
        { type: "while", condition: "iteration < vars.later", body: "s2" },
        { type: "noop", next: "s" },
      ],
    ],
    [
      "a foreach",
      [
        { type: "foreach", items: "[vars.later]", body: "s2" },
        { type: "noop", next: "s" },
      ],
    ],
    ["an end", [{ type: "end", output: "${vars.later}" }]],
  ])("%s that fails is retried once its variable exists", (_, steps) => {
    const run = stopped(steps);
    expect(incidentOf(run)?.error).toMatchObject({ code: "expression_error", step_id: "s" });
    run.command({ type: "retry_step", variables: { later: 7 }, ...by });
    expect(finished(run).state).toBe("succeeded");
  });

  it("a parallel that cannot start its branches is skipped with its join", () => {
    const steps: Draft[] = [
      { type: "parallel", branches: { a: { next: "s2" } }, max_concurrency: "${vars.later}", next: "s3" },
      { type: "noop", next: "s3" },
      { type: "join", next: "s4" },
      { type: "set_var", name: "after", value: true },
    ];
    const run = stopped(steps);
    expect(incidentOf(run)?.error.step_id).toBe("s");
    run.command(ACTS.skip_step);
    finished(run);
    expect(run.context.variables.after).toBe(true);
    expect(childrenOf(run)).toEqual([]);
  });

  it("a try that timed out is entered anew", () => {
    const steps: Draft[] = [
      { type: "try_catch", try: "s2", catch: "s3", errors: ["other"], timeout_ms: 1000 },
      { type: "wait_for_signal", signal_name: "go" },
      { type: "noop" },
    ];
    const run = stopped(steps);
    expect(incidentOf(run)?.error).toMatchObject({ code: "timeout", step_id: "s" });
    run.command(ACTS.retry_step);
    run.signal("go");
    expect(finished(run).state).toBe("succeeded");
  });
});

describe("an incident in a family", () => {
  const parallel: Draft[] = [
    { type: "parallel", branches: { a: { next: "s2" }, b: { next: "s3" } }, next: "s4" },
    charge({ next: "s4" }),
    { type: "noop", next: "s4" },
    { type: "join", next: "s5" },
    { type: "noop" },
  ];

  it("is that of the branch; its join waits, and its error goes to the join without another incident", () => {
    const run = stopped(parallel, { worker: worker(plain, done()) });
    const [branch] = childrenOf(run).filter((child) => incidentOf(child));
    expect(run.context.wait?.kind).toBe("children");
    branch?.command(ACTS.fail);
    finished(run);
    expect([branch?.state, run.state, run.context.ending?.error?.step_id]).toEqual(["failed", "failed", "s2"]);
  });

  it("of a branch may go to a catch of the parent", () => {
    const steps = [{ type: "try_catch", try: "s2", catch: "s7" }, ...parallel, { type: "noop" }].map((step, nth) =>
      nth === 0 || nth === 6 ? step : shifted(step),
    );
    const run = stopped(steps, { worker: worker(plain, done()) });
    for (const child of childrenOf(run)) if (incidentOf(child)) child.command(ACTS.fail);
    expect(finished(run).state).toBe("succeeded");
  });

  it("of an item is retried, and the foreach goes on", () => {
    const steps: Draft[] = [{ type: "foreach", items: "[1, 2, 3]", body: "s2" }, charge({ next: "s" })];
    const run = stopped(steps, { worker: worker(done({ n: 1 }), plain, done({ n: 2 })) });
    for (const child of childrenOf(run)) if (incidentOf(child)) child.command(ACTS.retry_step);
    finished(run);
    expect(run.context.variables.s).toEqual([{ n: 1 }, { n: 2 }, { n: 2 }]);
  });

  it.each([["item"], ["traveller"]])(
    "of an item: its own name %s corrects the item, for all its steps and for what is below it",
    (name) => {
      const steps: Draft[] = [
        { type: "foreach", items: "[1, 2]", item_var: "traveller", max_concurrency: 2, body: "s2" },
        charge({ inputs: { n: "${traveller}", i: "${item}" }, next: "s3" }),
        { type: "parallel", branches: { b: { next: "s4" } }, next: "s5" },
        charge({ inputs: { n: "${traveller}", i: "${item}" }, compensation: undefined }),
        { type: "join" },
      ];
      const run = stopped(steps, { worker: worker(plain, plain, done()) });
      const standing = childrenOf(run).filter(incidentOf);
      for (const [nth, child] of standing.entries())
        expect(child.command({ type: "retry_step", variables: { [name]: 40 + nth }, ...by })).toMatchObject({
          changed: true,
        });
      finished(run);
      const calls = [...run.world.runs.values()].flatMap(
        (one) => one.sent.map(({ attempt, call }) => ({ attempt, ...call.inputs })) as Record<string, unknown>[],
      );
      const seen = calls.map(({ n, i }) => `${n} ${i}`).toSorted();
      // Both items failed as they were; then each was charged twice, by its own step and by the one in its branch.
      expect(seen).toEqual(["1 1", "2 2", "40 40", "40 40", "41 41", "41 41"]);
    },
  );

  it("of an item: the correction is no variable that an expression sees", () => {
    const run = stopped([{ type: "foreach", items: "[1]", body: "s2" }, charge()], { worker: worker(plain) });
    const [child] = childrenOf(run) as [Simulation];
    child.command({ type: "retry_step", variables: { item: 7 } as never, ...by });
    expect(Object.keys(child.context.variables)).toContain("/item");
    expect(Object.keys(scopeOf(child.context, 0).vars as object)).not.toContain("/item");
  });

  it("of an item: its index cannot be corrected, nor what nothing reads", () => {
    const run = stopped([{ type: "foreach", items: "[1]", index_var: "nth", body: "s2" }, charge()], {
      worker: worker(plain),
    });
    const [child] = childrenOf(run);
    const retry = (variables: object) => child?.command({ type: "retry_step", variables: variables as never, ...by });
    for (const name of ["index", "nth"])
      expect(retry({ [name]: 1 })).toMatchObject({
        type: "refused",
        invalid: true,
        reason: `${name} is the index of the item, which cannot be corrected`,
      });
    expect(retry({ n: 1, m: 2 })).toMatchObject({
      ...{ type: "refused", invalid: true },
      reason: 'nothing in the workflow reads the variable "m": those that a retry may correct are "item", "n"',
    });
    expect([incidentOf(child as Simulation)?.kind, child?.context.variables]).toEqual(["incident", { n: 1 }]);
  });

  it("of a sub-saga whose own workflow rolls back is the parent's: a retry starts a new child", () => {
    const child = program([{ id: "c", type: "action", action: "shop.charge" }], { id: "sub" });
    const run = stopped([{ type: "sub_saga", workflow_id: "sub" }], {
      workflows: { sub: child },
      worker: worker(plain, done({ ok: 1 })),
    });
    expect(incidentOf(run)).toMatchObject({ attempts: 1, error: { code: "child_failed" } });
    run.command(ACTS.retry_step);
    finished(run);
    expect(childrenOf(run).map(({ state }) => state)).toEqual(["failed", "succeeded"]);
    expect(run.context.variables.s).toEqual({ ok: 1 });
  });
});

/** A step whose targets stand one place later. */
function shifted(step: Draft): Draft {
  const text = JSON.stringify(step).replace(/"s(\d+)"/g, (_, n: string) => `"s${Number(n) + 1}"`);
  return JSON.parse(text) as Draft;
}

describe("an incident of an undo", () => {
  const rolledBack = (...moves: WorkerMove[]) =>
    stopped([charge({ next: "s2" }), charge({ next: "s3" }), { type: "error", on_failure: "rollback" }], {
      head: { on_undo_failure: "incident" },
      worker: worker(done(), done(), ...moves),
    });

  attribute(
    "step.on_undo_failure",
    "a rollback whose undo fails for good waits, if the step or else the workflow says so",
    () => {
      const cases = [
        [{}, undefined, "failed"],
        [{ on_undo_failure: "incident" }, undefined, "compensating"],
        [{ on_undo_failure: "incident" }, "continue", "failed"],
        [{}, "incident", "compensating"],
      ] as const;
      for (const [head, own, state] of cases) {
        const step = charge({ next: "s2", ...(own && { on_undo_failure: own }) });
        expect(stopped([step, { type: "error" }], { head, worker: worker(done(), plain) }).state).toBe(state);
      }
    },
  );

  it("is retried until it is done; the order of the undos stays", () => {
    const run = rolledBack(plain, plain, done(), done());
    expect(incidentOf(run)).toMatchObject({ phase: "compensation", error: { code: "declined", step_id: "s2" } });
    run.command(ACTS.retry_undo);
    run.drain();
    expect(incidentOf(run)?.attempts).toBe(3);
    run.command(ACTS.retry_undo);
    finished(run);
    expect(run.undo.map(({ state }) => state)).toEqual(["done", "done"]);
    expect(run.context.requiresManualReview).toBe(false);
  });

  it("is skipped: it counts as failed, a person must review, and the others are undone", () => {
    const run = rolledBack(plain, done());
    expect(run.command({ ...ACTS.skip_undo, ordinal: "1" })).toMatchObject({ type: "refused" });
    run.command({ ...ACTS.skip_undo, ordinal: "2" });
    finished(run);
    expect(run.undo.map(({ state }) => state)).toEqual(["done", "failed"]);
    expect(run.context.requiresManualReview).toBe(true);
  });

  it("in the rollback of a try pauses the run, which goes on to the catch", () => {
    const steps: Draft[] = [
      { type: "try_catch", try: "s2", catch: "s4", rollback: true },
      charge({ next: "s3" }),
      { type: "error", on_failure: "rollback" },
      { type: "noop" },
    ];
    const run = stopped(steps, { worker: worker(done(), plain, done()) });
    expect([run.state, incidentOf(run)?.phase]).toEqual(["paused", "compensation"]);
    run.command(ACTS.retry_undo);
    expect(finished(run).state).toBe("succeeded");
  });
});

describe("terminate", () => {
  it("ends a rollback at once: what is owed stays owed, and a person must review", () => {
    const run = stopped([charge({ next: "s2" }), { type: "error", on_failure: "rollback" }], {
      head: {},
      worker: worker(done(), { kind: "silence" }),
    });
    const silent = start([charge({ next: "s2" }), { type: "error" }], {
      variables: { n: 1 },
      worker: worker(done(), { kind: "silence" }),
    });
    silent.work();
    expect(silent.context.wait?.kind).toBe("dispatched");
    silent.command(ACTS.terminate);
    expect([silent.state, silent.context.requiresManualReview]).toEqual(["failed", true]);
    expect(silent.undo.map(({ state }) => state)).toEqual(["owed"]);
    expect(silent.cancelled).toHaveLength(1);
    expect(violations(silent)).toEqual([]);
    expect(run.ended).toBe(true);
  });

  it("ends a family, children first, whatever they do, also those that were told to stop", () => {
    const steps: Draft[] = [
      { type: "parallel", branches: { a: { next: "s2" }, b: { next: "s3" } }, next: "s4" },
      charge({ next: "s4" }),
      { type: "wait_for_signal", signal_name: "go", next: "s4" },
      { type: "join" },
    ];
    const run = start(steps, { variables: { n: 1 }, worker: worker({ kind: "silence" }) });
    run.world.settle();
    run.cancel();
    run.world.settle();
    expect(run.ended).toBe(false);
    run.command(ACTS.terminate);
    expect(run.ended).toBe(false);
    run.world.settle();
    expect(run.state).toBe("cancelled");
    expect(childrenOf(run).map(({ state }) => state)).toEqual(["cancelled", "cancelled"]);
    expect(worldViolations(run.world)).toEqual([]);
    expect(run.command(ACTS.terminate)).toEqual({
      type: "acted",
      state: "cancelled",
      changed: false,
      reason: "the run has ended",
    });
  });
});

describe("pause and resume", () => {
  it("stops a family where it is; answers that come are kept, and all goes on at the resume", () => {
    const steps: Draft[] = [
      { type: "foreach", items: "[1, 2]", body: "s2", max_concurrency: 2, next: "s4" },
      charge({ next: "s3" }),
      { type: "wait_for_signal", signal_name: "go", next: "s" },
      { type: "noop" },
    ];
    const run = start(steps, { variables: { n: 1 }, worker: worker(done()) });
    run.world.settle();
    const before = run.sent.length;
    const items = childrenOf(run);
    run.command(ACTS.pause);
    run.world.settle();
    expect([run, ...items].map(({ state }) => state)).toEqual(["paused", "paused", "paused"]);
    expect(run.signal("go", {})).toMatchObject({ matched: false });
    run.elapse(86_400_000);
    expect(run.sent).toHaveLength(before);
    run.command(ACTS.resume);
    run.world.settle();
    run.signal("go", {});
    run.world.settle();
    expect(finished(run).state).toBe("succeeded");
  });

  it("may be repeated: each time is another command to the children", () => {
    const steps: Draft[] = [
      { type: "foreach", items: "[1]", body: "s2" },
      { type: "wait_for_signal", signal_name: "go", next: "s" },
    ];
    const run = start(steps);
    run.world.settle();
    const [item] = childrenOf(run);
    for (let round = 0; round < 3; round++) {
      run.command(ACTS.pause);
      run.world.settle();
      expect(item?.context.held).toBeDefined();
      run.command(ACTS.resume);
      run.world.settle();
      expect(item?.context.held).toBeUndefined();
    }
    run.signal("go");
    expect(finished(run).state).toBe("succeeded");
  });

  it("a rollback takes no further undo until it is resumed", () => {
    const run = start([charge({ next: "s2" }), charge({ next: "s3" }), { type: "error" }], {
      variables: { n: 1 },
      worker: worker(done()),
    });
    run.work();
    run.work();
    expect(run.state).toBe("compensating");
    run.command(ACTS.pause);
    run.work();
    expect([run.state, run.undo.map(({ state }) => state)]).toEqual(["paused", ["owed", "done"]]);
    run.advance();
    expect(run.sent).toHaveLength(3);
    help(run.world);
    expect(finished(run).state).toBe("failed");
  });
});
