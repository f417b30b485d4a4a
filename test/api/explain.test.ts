// Why a run stands where it stands, over HTTP: `explain` for every kind of wait, and `queued_action` and `retry` of a run.
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { GrpcDoor } from "../../src/dispatch/grpc/door.js";
import type { DispatchHolder, Obstacle } from "../../src/dispatch/workers.js";
import { dispatchNow, makeCall, useNodes } from "../dispatch/rig.js";
import { newDispatchId, newRunId } from "../harness/ids.js";
import { verifierOf } from "../harness/verifier.js";
import { Client, hangUp } from "./client.js";
import { appendEvents, insertRun, otherApi, type RunSeed, useRig } from "./rig.js";

const rig = useRig();
const { node, silentWorker } = useNodes();

const AT = Date.UTC(2026, 10, 22, 12, 3, 7);
const iso = (ms: number) => new Date(ms).toISOString();
const SINCE = "2026-11-22 12:03:07 UTC";
const LATER = AT + 60_000;
const UNTIL = "2026-11-22 12:04:07 UTC";

let obstacle: Obstacle;
let holder: DispatchHolder | undefined;
let asked: unknown[];
beforeEach(() => {
  [obstacle, holder] = [{ reason: "no_worker" }, undefined];
  asked = [];
  rig.workers = Object.assign(rig.workers, {
    obstacles: async (actions: readonly unknown[]) => {
      asked.push(...actions);
      return actions.map(() => obstacle);
    },
    holder: async () => holder,
  });
});

const CALL = {
  ...{ phase: "forward", stepId: "charge", service: "shop", action: "charge", version: 1, transport: "grpc" },
  ...{ inputs: { card: "secret" }, idempotencyKey: "k", timeoutMs: 1, retry: { max_attempts: 3 } },
};

/** A run as the runtime stores it while it waits. */
async function stored(wait: object | undefined, seed: RunSeed = {}, call: object | undefined = undefined) {
  const { record, ...rest } = seed;
  const id = await insertRun(rig, {
    ...{ state: "paused", current_step: "charge", started_at: iso(AT - 60_000) },
    ...rest,
    record: { entries: 1, entry: { number: 1, at: AT }, groups: {}, ...(wait && { wait }), ...record },
  });
  await rig.database
    .sql`update runs set last_event_at = ${iso(AT + 5)}, call = ${call ? JSON.stringify(call) : null}::text::json
    where id = ${id}`;
  return id;
}

async function explained(runId: string) {
  const { status, body } = await rig.call("GET", `/api/v1/sagas/${runId}/explain`);
  expect(status).toBe(200);
  expect(body.run_id).toBe(runId);
  const { run_id: _, ...rest } = body;
  return rest;
}

const QUEUED = { kind: "queued", dispatchId: newDispatchId(), attempt: 2, nth: 2, since: AT };

describe("explain says what a run waits for", () => {
  it("a worker, when none is connected that serves the action", async () => {
    const id = await stored(QUEUED, { state: "running" }, CALL);
    expect(await explained(id)).toEqual({
      state: "running",
      because: `waits for a worker that serves shop.charge@1: none is connected (since ${SINCE})`,
      waiting_for: [
        {
          ...{ kind: "worker", step_id: "charge", action: "shop.charge@1", transport: "grpc", attempt: 2 },
          ...{ reason: "no_worker", since: iso(AT) },
        },
      ],
      since: iso(AT),
      can: ["pause", "migrate", "cancel", "terminate"],
    });
    expect(asked).toMatchObject([{ service: "shop", action: "charge", version: 1, transport: "grpc" }]);
  });

  it("a worker, when all are busy, until the queue times out", async () => {
    obstacle = { reason: "no_credit" };
    const id = await stored({ ...QUEUED, dueAt: LATER }, { state: "running" }, CALL);
    expect(await explained(id)).toMatchObject({
      because: `waits for a worker that serves shop.charge@1: all are busy, until ${UNTIL} (since ${SINCE})`,
      waiting_for: [{ kind: "worker", reason: "no_credit", until: iso(LATER) }],
      next_at: iso(LATER),
    });
  });

  it("a transport that is away, in the words of its carrier", async () => {
    obstacle = { reason: "no_worker", detail: "the queue charges does not exist" };
    const id = await stored(QUEUED, { state: "running" }, { ...CALL, transport: "rmq", address: "charges" });
    expect(await explained(id)).toMatchObject({
      because: `waits for a worker that serves shop.charge@1: the queue charges does not exist (since ${SINCE})`,
      waiting_for: [{ transport: "rmq", reason: "no_worker", detail: "the queue charges does not exist" }],
    });
  });

  it("a slot of a concurrency key, with who is before it and who holds the slots", async () => {
    const at = { scope: "workflow:orders", key: "ann" };
    const wait = { kind: "concurrency", entry: 0, since: AT, ...at };
    const seed = { paused_reason: "concurrency", record: { entry: undefined, slot: at } };
    const ids = [await stored(wait, seed), await stored(wait, seed), await stored(wait, seed)];
    const words = 'waits for a slot of the key "ann" of workflow:orders';
    expect(await explained(ids[2] as string)).toMatchObject({ because: `${words} (since ${SINCE})` });
    for (const [nth, id] of ids.entries())
      await rig.database.sql`
        insert into concurrency_tickets (run_id, entry, shard, tenant_id, scope, key, slot_limit, on_limit, admitted, granted_at)
        values (${id}, 0, 0, '00000000-0000-0000-0000-000000000000', ${at.scope}, ${at.key}, 1, 'queue', true, ${nth === 0 ? iso(AT) : null})`;
    const [holder, next, last] = ids as unknown as [string, string, string];
    expect(await explained(next)).toMatchObject({
      because: `${words} (it is next; held by run ${holder}) (since ${SINCE})`,
    });
    expect(await explained(last)).toEqual({
      state: "paused",
      because: `${words} (1 before it; held by run ${holder}) (since ${SINCE})`,
      waiting_for: [{ kind: "concurrency", ...at, ahead: 1, limit: 1, held_by: [holder], since: iso(AT) }],
      since: iso(AT),
      can: ["pause", "migrate", "fork", "cancel", "terminate"],
    });
    const { body } = await rig.call("GET", "/api/v1/sagas?paused_reason=concurrency");
    expect(body.total).toBe(3);
    await rig.database.sql`delete from concurrency_tickets`;
  });

  it("a slot for an http_request", async () => {
    obstacle = { reason: "no_credit", detail: "the slots for requests that it may take are taken" };
    const call = {
      ...CALL,
      service: "http_request",
      action: "example.com",
      version: 0,
      transport: "request",
      request: {},
    };
    expect(await explained(await stored(QUEUED, { state: "running" }, call))).toMatchObject({
      because: expect.stringMatching(/^waits for a slot for its request: the slots/),
      waiting_for: [{ kind: "worker", action: "http_request", reason: "no_credit" }],
    });
  });

  it("the answer of a worker, until its deadline", async () => {
    const wait = {
      ...{ kind: "dispatched", dispatchId: newDispatchId(), attempt: 1, nth: 1, workerId: "w-1", at: AT },
      ...{ deadlineAt: LATER, heartbeatAt: AT + 30_000 },
    };
    const answer = await explained(await stored(wait, { state: "running" }, CALL));
    expect(answer).toEqual({
      state: "running",
      because: `waits for the result of shop.charge@1 by the worker w-1 (attempt 1), until ${UNTIL} (since ${SINCE})`,
      waiting_for: [
        {
          ...{ kind: "answer", step_id: "charge", action: "shop.charge@1", transport: "grpc", attempt: 1 },
          ...{ dispatch_id: wait.dispatchId, worker_id: "w-1", heartbeat_until: iso(AT + 30_000) },
          ...{ since: iso(AT), until: iso(LATER) },
        },
      ],
      since: iso(AT),
      next_at: iso(LATER),
      can: ["pause", "migrate", "cancel", "terminate"],
    });
    expect(JSON.stringify(answer)).not.toContain("secret");
  });

  describe("the answer of a worker", () => {
    const wait = {
      ...{ kind: "dispatched", dispatchId: newDispatchId(), attempt: 1, nth: 1, workerId: "w-1", at: AT },
      deadlineAt: LATER,
    };
    const gone = `(attempt 1): the worker w-2 that held it is gone since ${SINCE}, and`;

    it("that has taken it over from the one that it was first sent to", async () => {
      holder = { workerId: "w-2" };
      expect(await explained(await stored(wait, { state: "running" }, CALL))).toMatchObject({
        because: `waits for the result of shop.charge@1 by the worker w-2 (attempt 1), until ${UNTIL} (since ${SINCE})`,
        waiting_for: [{ kind: "answer", worker_id: "w-2" }],
      });
    });

    it("that is gone is not waited for, but any worker, and it says since when", async () => {
      holder = { workerId: "w-2", goneSince: AT };
      const id = await stored({ ...wait, at: AT - 20_000 }, { state: "running" }, CALL);
      expect(await explained(id)).toMatchObject({
        because: `waits for a worker that serves shop.charge@1 ${gone} no other is connected, until ${UNTIL} (since ${SINCE})`,
        waiting_for: [
          {
            ...{ kind: "worker", step_id: "charge", action: "shop.charge@1", transport: "grpc", attempt: 1 },
            ...{ dispatch_id: wait.dispatchId, worker_id: "w-2", reason: "no_worker" },
            ...{ since: iso(AT), until: iso(LATER) },
          },
        ],
        since: iso(AT),
      });
      obstacle = { reason: "no_credit" };
      expect((await explained(id)).because).toContain(`${gone} all others are busy`);
      // No worker has it, and it was tried: no queued_action.
      expect((await rig.call("GET", `/api/v1/sagas/${id}`)).body).toMatchObject({ current_attempt: 1 });
    });

    it("that is gone is not replaced for a run that is being cancelled", async () => {
      holder = { workerId: "w-2", goneSince: AT };
      const ending = { to: "cancelled", reason: "enough" };
      const id = await stored(wait, { state: "compensating", record: { ending } }, CALL);
      expect(await explained(id)).toMatchObject({
        because: expect.stringContaining(
          `waits for the result of shop.charge@1 ${gone} no other worker begins a cancelled step`,
        ),
        waiting_for: [{ kind: "worker", reason: "no_worker" }],
      });
    });
  });

  it("the next attempt, with the error of the last one", async () => {
    const error = { code: "declined", message: "no funds" };
    const wait = { kind: "backoff", nth: 2, dueAt: LATER, since: AT, error, maxAttempts: 5 };
    expect(await explained(await stored(wait, {}, CALL))).toMatchObject({
      because: `waits to try again after attempt 2 of 5 failed (declined: no funds), until ${UNTIL} (since ${SINCE})`,
      waiting_for: [{ kind: "retry", step_id: "charge", attempt: 2, max_attempts: 5, error, until: iso(LATER) }],
      next_at: iso(LATER),
    });
  });

  it.each([
    [
      "timer",
      { kind: "timer", dueAt: LATER },
      `waits for the time of the step charge, until ${UNTIL}`,
      { until: iso(LATER) },
    ],
    ["signal", { kind: "signal", name: "approve" }, "waits for the signal approve", { name: "approve" }],
    [
      "event",
      { kind: "event", topic: "paid", headers: { order: "7" } },
      "waits for an event of the topic paid with the headers it asks for",
      { topic: "paid", headers: { order: "7" } },
    ],
  ])("a %s", async (kind, wait, words, more) => {
    const can = [...(kind === "signal" ? ["signal"] : []), "pause", "migrate", "fork", "cancel", "terminate"];
    expect(await explained(await stored(wait))).toMatchObject({
      state: "paused",
      because: `${words} (since ${SINCE})`,
      waiting_for: [{ kind, step_id: "charge", since: iso(AT), ...more }],
      since: iso(AT),
      can,
    });
  });

  it("a person, by the assignee and the title of the task", async () => {
    const taskId = newRunId();
    const id = await stored({ kind: "user_task", taskId, dueAt: LATER });
    await rig.database
      .sql`insert into user_tasks (id, run_id, step_id, assignee, title) values (${taskId}, ${id}, 'charge', 'ann', 'Check it')`;
    expect(await explained(id)).toMatchObject({
      because: `waits for ann to submit the task "Check it", until ${UNTIL} (since ${SINCE})`,
      waiting_for: [{ kind: "user_task", task_id: taskId, assignee: "ann", title: "Check it" }],
      can: ["submit", "pause", "migrate", "fork", "cancel", "terminate"],
    });
  });

  it("its children, each with what it waits for, and their times", async () => {
    const group = { step: "fork", kind: "branches", total: 3, window: 3, started: 3, running: 2, failed: 0 };
    const id = await stored({ kind: "children" }, { current_step: "join", record: { groups: { 1: group } } });
    const branch = (name: string, wait: object) =>
      stored(wait, { parent_run_id: id, parent_step_id: "fork", parent_branch_id: name, current_step: name });
    const left = await branch("left", { kind: "signal", name: "approve" });
    const right = await branch("right", { kind: "timer", dueAt: LATER });
    await branch("gone", { kind: "timer", dueAt: AT });
    await rig.database.sql`update runs set state = 'succeeded', terminal_at = now() where parent_branch_id = 'gone'`;
    const answer = await explained(id);
    expect(answer).toMatchObject({
      because: `waits for 2 child runs: ${left} (left) waits for the signal approve (since ${SINCE}); and 1 more (since ${SINCE})`,
      next_at: iso(LATER),
    });
    expect(answer.waiting_for).toMatchObject([
      {
        ...{ kind: "children", step_id: "join", running: 2 },
        children: [
          { run_id: left, branch_id: "left", state: "paused", waiting_for: [{ kind: "signal", name: "approve" }] },
          { run_id: right, branch_id: "right", waiting_for: [{ kind: "timer" }], next_at: iso(LATER) },
        ],
      },
    ]);
    expect(answer.waiting_for[0]).not.toHaveProperty("more");
  });

  it("its only child, whose moment is told once if it is the run's own", async () => {
    const group = { step: "fork", kind: "branches", total: 1, window: 1, started: 1, running: 1, failed: 0 };
    const id = await stored({ kind: "children" }, { current_step: "join", record: { groups: { 1: group } } });
    const only = { parent_run_id: id, parent_step_id: "fork", parent_branch_id: "only" };
    const child = await stored({ kind: "signal", name: "approve" }, only);
    const because = `waits for 1 child run: ${child} (only) waits for the signal approve (since ${SINCE})`;
    expect(await explained(id)).toMatchObject({ because });
  });

  it("of many children ten, and how many more there are", async () => {
    const group = { step: "each", kind: "items", total: 12, window: 12, started: 12, running: 12, failed: 0 };
    const id = await stored({ kind: "children" }, { record: { groups: { 1: group } } });
    for (let index = 0; index < 12; index++)
      await stored({ kind: "signal", name: "go" }, { parent_run_id: id, parent_branch_id: String(index) });
    const { waiting_for: waiting } = await explained(id);
    expect(waiting[0].children).toHaveLength(10);
    expect(waiting[0]).toMatchObject({ running: 12, more: 2 });
  });

  describe("its children, the first of which", () => {
    const group = { step: "fork", kind: "branches", total: 12, window: 12, started: 12, running: 12, failed: 0 };
    const parent = () => stored({ kind: "children" }, { record: { groups: { 1: group } } });
    const incident = {
      kind: "incident",
      phase: "forward",
      error: { code: "declined", message: "no" },
      attempts: 1,
      since: AT,
    };
    const child = (of: string, branch: string, wait: object | undefined, paused_reason?: string) =>
      stored(wait, {
        parent_run_id: of,
        parent_branch_id: branch,
        ...(paused_reason ? { paused_reason } : { state: "running" }),
      });
    const shown = async (id: string) => {
      const { because, waiting_for: waiting } = await explained(id);
      return { because, branches: waiting[0].children.map(({ branch_id }: { branch_id: string }) => branch_id) };
    };

    it("need a person, then wait, then work; the oldest of equals comes first", async () => {
      const id = await parent();
      await child(id, "works", undefined);
      await child(id, "waits", { kind: "signal", name: "go" }, "signal");
      const task = { kind: "user_task", taskId: newRunId() };
      await child(id, "asks", task, "user_task");
      await child(id, "stands", incident, "incident");
      const stoops = await child(id, "stoops", incident, "incident");
      await rig.database.sql`update runs set started_at = started_at - interval '1 second' where id = ${stoops}`;
      const { because, branches } = await shown(id);
      expect(because).toContain("(stoops) stands at an incident");
      expect(branches).toEqual(["stoops", "stands", "asks", "waits", "works"]);
    });

    it("stand above what needs a person, at any depth, though more than ten are older", async () => {
      const id = await parent();
      for (let nth = 0; nth < 11; nth++) await child(id, `waits-${nth}`, { kind: "signal", name: "go" }, "signal");
      const last = await child(id, "last", { kind: "children" }, "children");
      const between = await child(last, "between", { kind: "children" }, "children");
      await child(between, "deep", incident, "incident");
      const { because, branches } = await shown(id);
      expect(because).toMatch(/^waits for 12 child runs: .* \(last\) /);
      expect(branches).toHaveLength(10);
      expect(branches[0]).toBe("last");
    });

    it("of the runs that hold its slot need a person", async () => {
      const at = { scope: "workflow:orders", key: "bob" };
      const wait = { kind: "concurrency", entry: 0, since: AT, ...at };
      const holders = [];
      for (let nth = 0; nth < 4; nth++) holders.push(await child(newRunId(), `held-${nth}`, undefined));
      const stands = await child(newRunId(), "stands", incident, "incident");
      const id = await stored(wait, { paused_reason: "concurrency", record: { entry: undefined, slot: at } });
      for (const run of [...holders, stands, id])
        await rig.database.sql`
          insert into concurrency_tickets (run_id, entry, shard, tenant_id, scope, key, slot_limit, on_limit, admitted, granted_at)
          values (${run}, 0, 0, '00000000-0000-0000-0000-000000000000', ${at.scope}, ${at.key}, 5, 'queue', true, ${run === id ? null : iso(AT)})`;
      expect((await explained(id)).waiting_for[0].held_by).toEqual([stands, ...holders.slice(0, 2)]);
      await rig.database.sql`delete from concurrency_tickets`;
    });
  });

  it("its start, when it is delayed; a run that has begun is stepping", async () => {
    const delayed = await stored(undefined, {
      state: "pending",
      identity: { delayedUntil: LATER },
      record: { entry: undefined },
    });
    expect(await explained(delayed)).toMatchObject({
      because: `waits for its start, until ${UNTIL} (since 2026-11-22 12:02:07 UTC)`,
      waiting_for: [{ kind: "start", until: iso(LATER) }],
      next_at: iso(LATER),
    });
    const stepping = await explained(await stored(undefined, { state: "running" }));
    expect(stepping).toMatchObject({ because: expect.stringMatching(/^takes the step charge/), waiting_for: [] });
    expect(stepping).not.toHaveProperty("next_at");
    const pending = await explained(await stored(undefined, { state: "pending", record: { entry: undefined } }));
    expect(pending).toMatchObject({ because: expect.stringMatching(/^is about to begin/), waiting_for: [] });
  });

  it("an operator, when it is in quarantine", async () => {
    const proof = { trials: 3, end: "hung", heap_mb: 20, ms: 5000 };
    const id = await stored(
      { kind: "signal", name: "go" },
      { paused_reason: "quarantine", record: { quarantined: true, proof } },
    );
    await appendEvents(rig, id, [{ type: "log", to: "paused", metadata: { kind: "quarantine", ...proof } }, {}]);
    const answer = await explained(id);
    expect(answer).toMatchObject({
      because: expect.stringMatching(
        /^is in quarantine for its next step, which hung its process 3 times, and waits for an operator/,
      ),
      waiting_for: [{ kind: "quarantine", trials: 3, end: "hung" }],
      can: ["pause", "release", "migrate", "fork", "cancel", "terminate"],
    });
    expect(answer.since).toBe("2026-11-21T00:00:00.001Z");
  });

  it("an undo under way, with what is left, and since when it rolls back", async () => {
    const ending = { to: "failed", reason: "no stock", error: { code: "error", message: "no stock" } };
    const call = { ...CALL, phase: "compensation", action: "refund" };
    const id = await stored(
      QUEUED,
      { state: "compensating", record: { entry: undefined, ending, owed: 2, undoing: "7" } },
      call,
    );
    expect(await explained(id)).toEqual({
      state: "compensating",
      because: `is rolling back (no stock), with 2 left to undo: waits for a worker that serves shop.refund@1, to undo the step charge: none is connected (since ${SINCE})`,
      waiting_for: [
        expect.objectContaining({ kind: "worker", action: "shop.refund@1", phase: "compensation", step_id: "charge" }),
      ],
      since: iso(AT),
      can: ["pause", "terminate"],
    });
    const group = {
      step: "fork",
      kind: "branches",
      total: 1,
      window: 1,
      started: 1,
      running: 1,
      failed: 0,
      left: true,
    };
    const waiting = await stored(
      { kind: "children" },
      {
        state: "compensating",
        record: { entry: undefined, ending, owed: 1, groups: { 1: group } },
      },
    );
    await appendEvents(rig, waiting, [{ type: "compensation.started", to: "compensating" }, {}]);
    expect(await explained(waiting)).toMatchObject({
      because: expect.stringMatching(/^is rolling back \(no stock\), with 1 left to undo: waits for 1 child run/),
      since: "2026-11-21T00:00:00.001Z",
    });
  });

  it("nothing, when it has ended", async () => {
    const ending = { to: "failed", reason: "no stock" };
    const terminal_at = iso(AT);
    const failed = await stored(undefined, {
      state: "failed",
      terminal_at,
      requires_manual_review: true,
      record: { ending },
    });
    expect(await explained(failed)).toMatchObject({
      because: expect.stringMatching(/^failed: no stock; a manual review is required/),
      waiting_for: [],
      can: ["rerun", "fork"],
    });
    const succeeded = await stored(undefined, { state: "succeeded", terminal_at });
    expect((await explained(succeeded)).because).toMatch(/^succeeded \(since/);
  });

  it("a try's timeout and the run's own count for next_at, whichever is first", async () => {
    const id = await stored({ kind: "signal", name: "go" }, { identity: { expiresAt: LATER + 1 } });
    expect((await explained(id)).next_at).toBe(iso(LATER + 1));
    const frames = JSON.stringify([
      { kind: "try", step: "t", catchStep: "c", entry: { number: 1, at: AT }, dueAt: LATER },
    ]);
    await rig.database.sql`update runs set frames = ${frames}::text::json where id = ${id}`;
    expect((await explained(id)).next_at).toBe(iso(LATER));
  });

  it("not for a run that does not exist; a record of a newer release is left to newer nodes", async () => {
    expect((await rig.call("GET", `/api/v1/sagas/${newRunId()}/explain`)).status).toBe(404);
    const id = await stored(undefined, { record: { v: 99 } });
    expect(await rig.call("GET", `/api/v1/sagas/${id}/explain`)).toMatchObject({
      status: 503,
      body: { error: "overloaded" },
    });
  });
});

describe("a run", () => {
  it("has queued_action while an action waits for a worker, and no current_attempt then: in a get, a list and a stream", async () => {
    const root = await insertRun(rig);
    const id = await stored(QUEUED, { state: "running", parent_run_id: root }, CALL);
    const queued = { action: "shop.charge@1", transport: "grpc", since: iso(AT), reason: "no_worker" };
    const { body: run } = await rig.call("GET", `/api/v1/sagas/${id}`);
    expect(run.queued_action).toEqual(queued);
    expect(run).not.toHaveProperty("current_attempt");
    expect(run).not.toHaveProperty("awaited_action_dispatch");
    obstacle = { reason: "no_credit" };
    const lists = [`/api/v1/sagas?parent_run_id=${root}`, `/api/v1/sagas/${root}/children`];
    for (const list of lists) {
      const { body } = await rig.call("GET", list);
      expect(body.items).toMatchObject([{ id, queued_action: { ...queued, reason: "no_credit" } }]);
    }
    await rig.app.listen({ host: "127.0.0.1", port: 0 });
    const { port } = rig.app.server.address() as { port: number };
    const client = new Client(port, id);
    await client.has(1);
    expect(client.frames[0].run.queued_action).toEqual({ ...queued, reason: "no_credit" });
    hangUp();
  });

  it("has neither while its action is with a worker", async () => {
    const wait = { kind: "dispatched", dispatchId: newDispatchId(), attempt: 4, nth: 1, at: AT, deadlineAt: LATER };
    const { body: run } = await rig.call("GET", `/api/v1/sagas/${await stored(wait, { state: "running" }, CALL)}`);
    expect(run).toMatchObject({ current_attempt: 4, awaited_action_dispatch: wait.dispatchId });
    expect(run).not.toHaveProperty("queued_action");
    expect(run).not.toHaveProperty("retry");
    expect(asked).toEqual([]);
  });

  it("has retry while a backoff runs: the attempt that failed, how many there may be, when the next one begins, and the error", async () => {
    const error = { code: "http_503", message: "busy" };
    const wait = { kind: "backoff", nth: 1, dueAt: LATER, since: AT, error, maxAttempts: -1 };
    const { body: run } = await rig.call(
      "GET",
      `/api/v1/sagas/${await stored(wait, { paused_reason: "retry" }, CALL)}`,
    );
    expect(run.retry).toEqual({ attempt: 1, max_attempts: -1, next_at: iso(LATER), error });
    expect(run).not.toHaveProperty("current_attempt");
  });

  it("that failed for a child shows the child's error as its cause", async () => {
    const cause = { code: "declined", message: "no funds", step_id: "pay" };
    const error = { code: "child_failed", message: "no funds", step_id: "sub", cause };
    const id = await stored(undefined, {
      state: "failed",
      terminal_at: iso(AT),
      record: { ending: { to: "failed", reason: "no funds", error } },
    });
    expect((await rig.call("GET", `/api/v1/sagas/${id}`)).body.error).toEqual(error);
  });
});

describe("with access on", () => {
  const TENANT = "0190a000-0000-7000-8000-0000000000f1";
  const verifier = verifierOf({
    ann: { roles: ["viewer"], tenantId: TENANT },
    worker: { roles: ["worker"], tenantId: TENANT, services: ["shop"] },
  });

  it("explain says that the workers of the run's tenant are busy, as the run and its parent do", async () => {
    const quiet = { log: { error: () => {} }, security: { refused: () => {} } };
    const n = await node({
      door: new GrpcDoor({ verifier, now: Date.now, ...quiet }),
      access: { callbackToken: () => "token" },
    });
    const worker = silentWorker(n.target);
    worker.send({ hello: { worker_id: "w-1", service: "shop", max_in_flight: 1, token: "worker" } });
    await worker.wait("hello_ack");
    dispatchNow(n, { tenantId: TENANT, call: makeCall({ service: "shop" }) });
    const app = await otherApi(rig, {}, { verifier, workers: n.dispatcher.directory });
    onTestFinished(() => app.close());
    const get = async (id: string, path = "") =>
      (await app.inject({ url: `/api/v1/sagas/${id}${path}`, headers: { authorization: "Bearer ann" } })).json();
    const group = { step: "fork", kind: "branches", total: 1, window: 1, started: 1, running: 1, failed: 0 };
    const of = { tenant_id: TENANT };
    const parent = await stored({ kind: "children" }, { ...of, record: { groups: { 1: group } } });
    const id = await stored(QUEUED, { ...of, state: "running", parent_run_id: parent, parent_branch_id: "a" }, CALL);
    expect((await get(id)).queued_action).toMatchObject({ action: "shop.charge@1", reason: "no_credit" });
    const words = "waits for a worker that serves shop.charge@1: all are busy";
    expect(await get(id, "/explain")).toMatchObject({
      because: expect.stringContaining(words),
      waiting_for: [{ kind: "worker", reason: "no_credit" }],
    });
    expect((await get(parent, "/explain")).because).toContain(words);
  });
});
