// What a run makes of a dispatch that reached no worker: it was no attempt, its call waits for a worker again, and nothing of it is
// undone. Only the one node that carried it can know that. And how a worker that is told nothing learns of a cancel.
import { describe, expect, it } from "vitest";
import type { DispatchId, RunCommand } from "../../machines/index.js";
import { program } from "./definitions.js";
import { Simulation, type SimulationOptions, START } from "./simulation.js";

const ACTIONS = {
  "shop.charge": { transport: "http" as const, address: "http://shop", compensable: true },
  "shop.refund": { transport: "http" as const, address: "http://shop" },
};
const ONCE = { max_attempts: 1, initial_backoff_ms: 0 };

function start(more: Record<string, unknown> = {}, options: Partial<SimulationOptions> = {}): Simulation {
  const charge = { id: "pay", type: "action", action: "shop.charge", compensation: { action: "shop.refund" }, ...more };
  const run = new Simulation({ program: program([charge]), actions: ACTIONS, ...options });
  run.advance();
  return run;
}

function open(run: Simulation): DispatchId {
  const { wait } = run.context;
  if (wait?.kind !== "dispatched") throw new Error(`the run has no dispatch: ${JSON.stringify(wait)}`);
  return wait.dispatchId;
}

const givenBack = (dispatchId: DispatchId): RunCommand => ({
  ...{ type: "failure", code: "http_network", message: "no connection", retryable: true, outcomeUnknown: false },
  ...{ dispatchId, actor: "coordinator", notHandedOver: true },
});

const rows = (run: Simulation) => run.rows.map(({ type, attempt }) => `${type} ${attempt}`);

describe("a dispatch that was not handed over", () => {
  it("is no attempt: its call waits again, as the same attempt of the policy, with an id of its own", () => {
    let credit = true;
    const run = start({ retry: ONCE }, { credit: () => credit });
    const first = open(run);
    credit = false;
    expect(run.command(givenBack(first))).toEqual({ type: "report", stale: false });
    expect([run.state, run.context.wait]).toMatchObject(["running", { kind: "queued", attempt: 2, nth: 1 }]);
    expect(run.result({}, { dispatchId: first })).toEqual({ type: "report", stale: true });
    credit = true;
    run.advance();
    run.command({ type: "offer", dispatchId: [...run.queued.keys()].at(-1) as DispatchId });
    expect(run.sent.map(({ call }) => call.idempotencyKey)).toEqual(Array(2).fill(run.sent[0]?.call.idempotencyKey));
    expect(new Set(run.sent.map(({ dispatchId }) => dispatchId)).size).toBe(2);
    run.result({ id: 1 });
    expect(run.state).toBe("succeeded");
    expect(rows(run)).toEqual([
      ...["step.started 0", "step.dispatched 1", "step.failed 1"],
      ...["step.dispatched 2", "step.succeeded 2", "run.succeeded 0"],
    ]);
    expect(run.rows.find(({ type }) => type === "step.failed")?.metadata).toMatchObject({
      ...{ code: "http_network", will_retry: true, handed_over: false },
    });
  });

  it("has used its queue timeout all the time, and is never undone", () => {
    let credit = true;
    const run = start({ queue_timeout_ms: 1_000 }, { credit: () => credit });
    credit = false;
    expect(run.sent[0]?.handOverBy).toBe(START + 1_000);
    run.now += 400;
    run.command(givenBack(open(run)));
    expect(run.context.wait).toMatchObject({ kind: "queued", dueAt: START + 1_000 });
    run.elapse();
    expect([run.now, run.state]).toEqual([START + 1_000, "failed"]);
    expect(
      run.rows.find(({ type, metadata }) => type === "step.failed" && !metadata?.will_retry)?.metadata,
    ).toMatchObject({ code: "queue_timeout" });
    expect(run.undo).toEqual([]);
  });

  it("fails with queue_timeout where it comes back after that time", () => {
    const run = start({ queue_timeout_ms: 1_000 });
    run.now += 1_000;
    run.command(givenBack(open(run)));
    expect(run.state).toBe("failed");
    expect(rows(run).filter((row) => row.startsWith("step.failed"))).toEqual(["step.failed 1"]);
    expect(run.undo).toEqual([]);
  });

  it("comes back after its deadline all the same, if the run has not given it up", () => {
    const run = start({ timeout_ms: 1_000 });
    run.now += 1_100;
    const first = open(run);
    run.command(givenBack(first));
    expect(open(run)).not.toBe(first);
    expect(rows(run)).toContain("step.dispatched 2");
  });

  it("ends a run that is being cancelled, which owes nothing for it", () => {
    const run = start();
    run.cancel();
    expect(run.state).toBe("compensating");
    run.command(givenBack(open(run)));
    expect([run.state, run.undo]).toEqual(["cancelled", []]);
  });

  it("is an undo as well: it waits again, and the rollback with it", () => {
    const fail = { id: "fail", type: "error", code: "late" };
    const charge = {
      id: "pay",
      type: "action",
      action: "shop.charge",
      compensation: { action: "shop.refund" },
      next: "fail",
    };
    const run = new Simulation({ program: program([charge, fail]), actions: ACTIONS });
    run.advance();
    run.result({});
    const undo = open(run);
    run.command(givenBack(undo));
    expect([run.state, open(run) === undo]).toEqual(["compensating", false]);
    run.result({}, { dispatchId: open(run) });
    expect([run.state, run.undo.map(({ state }) => state)]).toEqual(["failed", ["done"]]);
  });

  it("is not believed once it was carried again: another node may have handed it over", () => {
    const run = start();
    const dispatchId = open(run);
    run.command({ type: "carry", dispatchId });
    expect(run.sent.map(({ dispatchId }) => dispatchId)).toEqual([dispatchId, dispatchId]);
    expect(run.command(givenBack(dispatchId))).toEqual({ type: "report", stale: true });
    expect(open(run)).toBe(dispatchId);
    const { commits } = run;
    run.command({ type: "carry", dispatchId });
    expect(run.rows.length, "a further carriage writes nothing").toBe(rows(run).length);
    expect(run.commits - commits).toBe(1);
    run.cancel();
    run.command(givenBack(dispatchId));
    expect(run.state).toBe("compensating");
    run.elapse();
    expect(run.undo.map(({ stepId }) => stepId)).toEqual(["pay"]);
  });
});

describe("the answer to a heartbeat", () => {
  const beat = (run: Simulation) => run.command({ type: "heartbeat", dispatchId: open(run), actor: "api" });

  it.each([{}, { heartbeat_timeout_ms: 1_000 }])("asks a forward attempt of a cancelled run to stop (%j)", (more) => {
    const run = start(more);
    expect(beat(run)).toEqual({ type: "report", stale: false });
    run.cancel();
    expect(beat(run)).toEqual({ type: "report", stale: false, cancelled: true });
    run.result({});
    expect(beat(run), "the undo goes on").toEqual({ type: "report", stale: false });
  });
});
