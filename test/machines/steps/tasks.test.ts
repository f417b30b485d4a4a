// The steps that ask people: manual_approval, collect_input.
import { describe, expect, it } from "vitest";
import { awaitedSignal, type JsonObject, pausedReason, wakeAt } from "../../../machines/index.js";
import { START } from "../simulation.js";
import { attribute, chartOf, type Draft, failureOf, finish, metadataOf, problemsOf, start, typesOf } from "./rig.js";

const TEN_YEARS = 10 * 366 * 86_400_000;
type More = Record<string, unknown>;
const approval = (more: More = {}): Draft => ({ type: "manual_approval", assignee: "ann", ...more });
const form = (more: More = {}): Draft => ({
  type: "collect_input",
  assignee: "ann",
  form_schema: { required: ["n"] },
  ...more,
});
const YES = { approved: true };
const NO = { approved: false };

/** What both types have, said of both. */
const both = describe.each([
  { type: "manual_approval", ask: approval, answer: YES },
  { type: "collect_input", ask: form, answer: { n: 1 } },
]);

describe("manual_approval and collect_input", () => {
  attribute("manual_approval.assignee, collect_input.assignee", "is a template, required, 1 to 512 characters", () => {
    for (const ask of [approval, form]) {
      const run = start([ask({ assignee: "team-${inputs.team}" })], { inputs: { team: 7 } });
      expect(run.tasks).toMatchObject([{ assignee: "team-7", stepId: "s", state: "open" }]);
      const { assignee: _, ...without } = ask();
      expect(problemsOf(without as Draft)).toEqual([".assignee: is required"]);
      for (const assignee of ["${''}", `\${'${"x".repeat(513)}'}`])
        expect(failureOf(finish([ask({ assignee })]))).toBe("expression_error: assignee must be 1 to 512 characters");
      expect(failureOf(finish([ask({ assignee: "${7}" })]))).toBe("expression_error: assignee must be a string");
    }
  });

  attribute("manual_approval.title, collect_input.title", "is a template, and absent if absent", () => {
    for (const ask of [approval, form]) {
      expect(start([ask({ title: "Order ${inputs.n}" })], { inputs: { n: 3 } }).tasks[0]?.title).toBe("Order 3");
      expect(start([ask()]).tasks[0]).not.toHaveProperty("title");
      expect(failureOf(finish([ask({ title: "${vars.nowhere}" })]))).toMatch(/^expression_error/);
    }
  });

  attribute("manual_approval.due_in_ms, collect_input.due_in_ms", "is for ever if absent, else milliseconds", () => {
    for (const ask of [approval, form]) {
      const open = start([ask()]);
      expect([wakeAt(open.context), open.tasks[0]?.dueAt]).toEqual([undefined, undefined]);
      expect(metadataOf(open, "step.paused")).not.toHaveProperty("wakeup_at");
      const run = start([ask({ due_in_ms: "${inputs.s * 1000}" })], { inputs: { s: 2 } });
      expect([wakeAt(run.context), run.tasks[0]?.dueAt]).toEqual([START + 2000, START + 2000]);
      expect(metadataOf(run, "step.paused")?.wakeup_at).toBe("2023-11-14T22:13:22.000Z");
      expect(problemsOf(ask({ due_in_ms: -1 }))).toEqual([".due_in_ms: must be at least 0"]);
      expect(problemsOf(ask({ due_in_ms: TEN_YEARS + 1 }))).toEqual([`.due_in_ms: must be at most ${TEN_YEARS}`]);
      expect(failureOf(finish([ask({ due_in_ms: "${1.0e300}" })]))).toBe(
        "expression_error: due_in_ms is longer than ten years",
      );
    }
  });

  attribute("manual_approval.due_at, collect_input.due_at", "is a time, instead of due_in_ms; the past is now", () => {
    for (const ask of [approval, form]) {
      const at = "2023-11-15T00:00:00+01:00";
      expect(wakeAt(start([ask({ due_at: at })]).context)).toBe(Date.parse(at));
      expect(wakeAt(start([ask({ due_at: "${now + duration('1h')}" })]).context)).toBe(START + 3_600_000);
      const past = start([ask({ due_at: "2001-01-01T00:00:00Z", on_timeout: "continue" })]);
      expect(past.submit(YES)).toMatchObject({ type: "closed" });
      expect([past.state, past.tasks[0]?.state]).toEqual(["succeeded", "closed"]);
      const ancient = start([ask({ due_at: "0000-01-01T00:00:00+23:59", on_timeout: "continue" })]);
      expect(wakeAt(ancient.context)).toBe(Date.parse("0001-01-01T00:00:00Z"));
      expect(problemsOf(ask({ due_at: "tomorrow" }))).toEqual([".due_at: is not an RFC 3339 time"]);
      expect(problemsOf(ask({ due_at: at, due_in_ms: 1 }))).toEqual([": takes due_in_ms or due_at, not both"]);
      expect(failureOf(finish([ask({ due_at: "${'tomorrow'}" })]))).toBe(
        "expression_error: due_at is not an RFC 3339 time",
      );
      expect(failureOf(finish([ask({ due_at: "9999-01-01T00:00:00Z" })]))).toBe(
        "expression_error: the task is due in more than ten years",
      );
    }
  });

  attribute("manual_approval.on_timeout, collect_input.on_timeout", "fails by default; the others give null", () => {
    for (const ask of [approval, form]) {
      const after: Draft = { type: "transform", expression: "vars.s", save_as: "seen" };
      const timed = (more: More) => finish([ask({ due_in_ms: 10, ...more }), after, { type: "noop" }]);
      for (const more of [{ next: "s2" }, { next: "s2", on_timeout: "fail" }]) {
        const run = timed(more);
        expect(failureOf(run)).toBe("timeout: the wait timed out");
        expect(run.tasks.map(({ state }) => state)).toEqual(["closed"]);
      }
      expect(timed({ on_error: "s2" }).context.variables.seen).toMatchObject({ error: { code: "timeout" } });
      expect(timed({ next: "s2", on_timeout: "continue" }).context.variables).toEqual({ s: null, seen: null });
      const elsewhere = timed({ next: "s2", on_timeout: "s3" });
      expect(elsewhere.context.variables).toEqual({ s: null });
      expect(typesOf(elsewhere, "s3")).toEqual(["step.started", "step.succeeded"]);
      expect(elsewhere.tasks.map(({ state }) => state)).toEqual(["closed"]);
      expect(problemsOf(ask({ on_timeout: "nowhere" }))).toEqual(['.on_timeout: there is no step "nowhere"']);
    }
  });

  attribute("manual_approval.form_schema", "is optional; what it asks for comes on top of a boolean approved", () => {
    const free = start([approval()]);
    expect(free.tasks[0]).not.toHaveProperty("formSchema");
    for (const approved of ["yes", null, 1]) expect(free.submit({ approved })).toMatchObject({ type: "unfit" });
    for (const result of [{}, { approve: true }] as JsonObject[])
      expect(free.submit(result)).toEqual({ type: "unfit", problems: ["/approved must be true or false"] });
    const schema = { required: ["why"], title: "${no.template}" };
    const run = start([approval({ form_schema: schema })]);
    expect(run.tasks[0]?.formSchema).toEqual(schema);
    expect(run.submit({})).toEqual({ type: "unfit", problems: ["/approved must be true or false", "lacks why"] });
    expect(run.submit(YES)).toEqual({ type: "unfit", problems: ["lacks why"] });
    expect([run.state, run.tasks[0]?.state]).toEqual(["paused", "open"]);
    expect(run.submit({ approved: true, why: "paid" })).toMatchObject({ type: "submit", matched: true });
    expect(problemsOf(approval({ form_schema: "x" }))).toEqual([".form_schema: must be an object (a JSON Schema)"]);
  });

  attribute("collect_input.form_schema", "is required, taken as it is, and decides alone", () => {
    const schema = { required: ["n"], description: "${no.template}" };
    const run = start([form({ form_schema: schema })]);
    expect(run.tasks[0]?.formSchema).toEqual(schema);
    expect(run.submit({ approved: true })).toEqual({ type: "unfit", problems: ["lacks n"] });
    expect(run.submit({ n: 1, more: [2] })).toMatchObject({ type: "submit", matched: true });
    expect(run.context.output).toEqual({ n: 1, more: [2] });
    const { form_schema: _, ...without } = form();
    expect(problemsOf(without as Draft)).toEqual([".form_schema: is required"]);
  });

  attribute("manual_approval.branches", "lead on; an approval without goes to next, a rejection without fails", () => {
    const [yes, no] = [{ type: "noop" }, { type: "noop" }];
    const branches = { approved: { next: "s2" }, rejected: { next: "s3" } };
    const decided = (more: More, result: { approved: boolean }) => {
      const run = start([approval(more), yes, no]);
      run.submit({ ...result, why: "so" }, { by: "ann" });
      return run;
    };
    expect(typesOf(decided({ branches }, YES), "s2")).toEqual(["step.started", "step.succeeded"]);
    const rejected = decided({ branches }, NO);
    expect(typesOf(rejected, "s3")).toEqual(["step.started", "step.succeeded"]);
    expect(rejected.context.variables.s).toEqual({ approved: false, why: "so", submitted_by: "ann" });
    expect(typesOf(decided({ next: "s2" }, YES), "s2")).toEqual(["step.started", "step.succeeded"]);
    expect(failureOf(decided({ next: "s2" }, NO))).toBe("approval_rejected: the approval was rejected");
    expect(failureOf(decided({ branches: { approved: { next: "s2" } } }, NO))).toMatch(/^approval_rejected/);
    expect(decided({ on_error: "continue" }, NO).context.variables.s).toMatchObject({
      error: { code: "approval_rejected", details: { approved: false, why: "so", submitted_by: "ann" } },
    });
    expect(problemsOf(approval({ branches: { maybe: { next: "s" } } }))).toEqual([
      ".branches.maybe: must be one of approved, rejected",
    ]);
    expect(problemsOf(approval({ branches: {} }))).toEqual([".branches: must not be empty"]);
    expect(problemsOf(approval({ branches: { approved: { next: "nowhere" } } }))).toEqual([
      '.branches.approved.next: there is no step "nowhere"',
    ]);
  });

  it("the charts have the edges of branches and of the timeout", () => {
    const branches = { approved: { next: "s2" }, rejected: { next: "s3" } };
    const others = [{ type: "noop" }, { type: "noop" }];
    expect(chartOf([approval({ branches, due_in_ms: 5, on_timeout: "s3" }), ...others]).s).toEqual([
      "branch.approved -> s2",
      "branch.rejected -> s3",
      "timeout -> s3",
    ]);
    const due = { due_at: "2030-01-01T00:00:00Z", on_timeout: "s2" };
    expect(chartOf([form({ ...due, next: "s3" }), ...others]).s).toEqual(["timeout -> s2", "next -> s3"]);
  });

  it("an approval's output is the result, with submitted_by if it was given", () => {
    const output = (by?: string) => {
      const run = start([approval()]);
      run.submit({ approved: true, submitted_by: "form" }, { by });
      expect(run.tasks[0]).toMatchObject({ state: "submitted", result: { approved: true, submitted_by: "form" }, by });
      return run.context.output;
    };
    expect(output("ann")).toEqual({ approved: true, submitted_by: "ann" });
    expect(output()).toEqual({ approved: true, submitted_by: "form" });
  });

  both("$type", ({ ask, answer }) => {
    it("waits for the signal of its task, which is opened in the commit of its entry", () => {
      const run = start([ask()]);
      const [task] = run.tasks;
      expect([run.state, pausedReason(run.context)]).toEqual(["paused", "user_task"]);
      expect(awaitedSignal(run.context.wait)).toBe(`user_task.${task?.id}.submitted`);
      expect(metadataOf(run, "step.paused")).toEqual({
        awaiting: "user_task",
        name: `user_task.${task?.id}.submitted`,
      });
      expect(run.commits).toBe(1);
    });

    it("a submit is one signal, taken at once, and the step's success", () => {
      const run = start([ask({ next: "s2" }), { type: "noop" }]);
      run.now += 5;
      const answered = run.submit(answer, { by: "ann" });
      const id = run.tasks[0]?.id;
      expect(answered).toEqual({ type: "submit", taskId: id, submittedAt: START + 5, matched: true });
      expect(run.signals).toMatchObject([{ name: `user_task.${id}.submitted`, payload: answer, consumed: true }]);
      const metadata = { kind: "signal", name: `user_task.${id}.submitted`, signal_id: run.signals[0]?.id };
      expect(metadataOf(run, "log")).toEqual({ ...metadata, matched: true, submitted_by: "ann" });
      expect(run.rows.find(({ type }) => type === "log")?.actor).toBe("api");
      expect(typesOf(run, "s")).toEqual(["step.started", "step.paused", "log", "step.succeeded"]);
      expect([run.state, run.context.unconsumedSignals]).toEqual(["succeeded", 0]);
    });

    it("a second submit, and one to another task, change nothing", () => {
      const run = start([ask({ next: "s2" }), ask()]);
      const first = run.tasks[0]?.id;
      run.submit(answer, { taskId: first });
      const before = JSON.stringify([run.context, run.rows, run.tasks]);
      expect(run.submit(answer, { taskId: first })).toMatchObject({ type: "closed" });
      expect(run.submit(answer, { taskId: "another" })).toMatchObject({ type: "closed" });
      expect(JSON.stringify([run.context, run.rows, run.tasks])).toBe(before);
      expect(run.tasks.map(({ state }) => state)).toEqual(["submitted", "open"]);
    });

    it("every entry opens a task of its own, the same after a restart", () => {
      const loop: Draft[] = [ask({ next: "s2" }), { type: "noop", next: "s" }];
      const ids = (options: { reload?: boolean }) => {
        const run = start(loop, options);
        for (let round = 0; round < 3; round++) run.submit(answer);
        return run.tasks.map(({ id }) => id);
      };
      expect(new Set(ids({})).size).toBe(4);
      expect(ids({ reload: true })).toEqual(ids({}));
    });

    it("a submit after a restart is accepted, with submitted_by, and one past its time is not", () => {
      const run = start([ask({ due_in_ms: 1000 })], { reload: true });
      run.now += 999;
      expect(run.submit(answer)).toMatchObject({ matched: true });
      const late = start([ask({ due_in_ms: 1000, on_timeout: "continue" })], { reload: true });
      late.now += 1000;
      expect(late.submit(answer)).toEqual({ type: "closed", reason: "the task has expired" });
      expect([late.state, late.tasks[0]?.state, late.context.variables.s]).toEqual(["succeeded", "closed", null]);
    });

    it.each([true, false])("a cancel (compensate: %s) closes the task, and it cannot be submitted", (compensate) => {
      const pay: Draft = { type: "action", action: "shop.charge", compensation: { action: "shop.refund" }, next: "s2" };
      const run = start([pay, ask()]);
      run.work();
      run.cancel(compensate);
      expect(run.tasks.map(({ state }) => state)).toEqual(["closed"]);
      expect(run.submit(answer)).toMatchObject({ type: "closed" });
      run.drain();
      expect(run.state).toBe("cancelled");
      expect(run.undo.map(({ state }) => state)).toEqual([compensate ? "done" : "owed"]);
      expect(typesOf(run, "s2")).toEqual(["step.started", "step.paused", "step.failed"]);
    });

    it("the run's own timeout closes the task", () => {
      const run = finish([ask()], { identity: { expiresAt: START + 50 } });
      expect(failureOf(run)).toBe("timeout: the run did not end in time");
      expect(run.tasks.map(({ state }) => state)).toEqual(["closed"]);
    });

    it("a submit in quarantine is kept, and taken at the release, also past its time", () => {
      const run = start([ask({ due_in_ms: 1000 })], { reload: true });
      run.command({ type: "quarantine" });
      expect(run.submit(answer, { by: "ann" })).toMatchObject({ type: "submit", matched: false });
      expect(run.submit(answer)).toMatchObject({ type: "closed" });
      run.now += 5000;
      run.command({ type: "release", actor: "user:ops" });
      expect([run.state, run.tasks[0]?.state, run.signals.length]).toEqual(["succeeded", "submitted", 1]);
      expect(run.context.variables.s).toMatchObject(answer);
    });

    it("past its time it is refused in quarantine too, and times out at the release", () => {
      const run = start([ask({ due_in_ms: 1000 })]);
      run.command({ type: "quarantine" });
      run.now += 1000;
      expect(run.submit(answer)).toEqual({ type: "closed", reason: "the task has expired" });
      expect([run.state, run.tasks[0]?.state]).toEqual(["paused", "open"]);
      run.command({ type: "release", actor: "user:ops" });
      run.advance();
      expect([failureOf(run), run.tasks[0]?.state]).toEqual(["timeout: the wait timed out", "closed"]);
    });

    it("a result over the output's limit is refused, and the task stays open", () => {
      const run = start([ask()]);
      const most = 1_048_576;
      expect(run.submit({ ...answer, text: "x".repeat(most) })).toEqual({
        type: "unfit",
        problems: [`/ is over ${most} characters of JSON`],
      });
      expect(run.tasks[0]?.state).toBe("open");
    });

    it("a signal cannot replace a submit", () => {
      const run = start([ask()]);
      expect(run.signal(`user_task.${run.tasks[0]?.id}.submitted`, answer)).toMatchObject({ type: "refused" });
      expect([run.state, run.signals]).toEqual(["paused", []]);
    });

    it("a skipped step opens no task", () => {
      expect(finish([ask({ when: "false" })]).tasks).toEqual([]);
    });
  });

  it("in a dry run approvals approve, forms are empty, and no task is opened", () => {
    const identity = { dryRun: true };
    const branches = { approved: { next: "s2" }, rejected: { next: "s3" } };
    const run = finish([approval({ branches }), form(), { type: "error", code: "rejected" }], { identity });
    expect(run.context.variables).toEqual({ s: { approved: true }, s2: {} });
    expect([run.state, run.tasks, run.signals]).toEqual(["succeeded", [], []]);
  });
});
