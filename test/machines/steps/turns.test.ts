// Rate limits: when a run, or an attempt of a step, asks for its turn, what it does with the answer, and when it gives the turn back.
import { describe, expect, it } from "vitest";
import { wakeAt } from "../../../machines/index.js";
import type { WorkerMove } from "../simulation.js";
import { attribute, failureOf, finish, problems, problemsOf, start, typesOf } from "./rig.js";

const RATE = { key: "${inputs.k}", limit: 1, per_ms: 60_000 };
const LIMITED = { type: "action", action: "shop.charge", rate_limit: RATE };
const HEAD = { rate_limit: RATE };
const inputs = { k: "a" };
const NOOP = { type: "noop" };

type Run = ReturnType<typeof start>;
const asksOf = (run: Run) => run.world.history.flatMap(({ writes }) => writes.filter(({ to }) => to === "turn"));
const rowsOf = (run: Run, ...relations: string[]) =>
  run.world.history.flatMap(({ writes }) => writes.filter(({ to }) => relations.includes(to)).map(({ to }) => to));
const ticketsOf = (run: Run) => [...run.world.store.tables.rate_tickets];
const give = (run: Run, entry: number, at: number) => run.once({ type: "turn_given", entry, at });
const busy = (): WorkerMove => ({ kind: "failure", code: "busy", retryable: true, outcomeUnknown: false });

describe("an action's turn", () => {
  attribute("action.rate_limit", "the action is queued in its turn, and not before", () => {
    const run = start([LIMITED], { inputs });
    expect(run.context.wait).toMatchObject({ kind: "rate_limit", entry: 1, scope: "action:shop.charge", key: "a" });
    expect(wakeAt(run.context), "the store answers").toBeUndefined();
    const at = run.now + 5_000;
    give(run, 1, at);
    expect(run.context.wait).toMatchObject({ dueAt: at });
    expect(wakeAt(run.context)).toBe(at);
    run.now = at - 1;
    run.advance();
    expect(run.sent).toEqual([]);
    run.now = at;
    run.drain();
    expect(run.state).toBe("succeeded");
    expect(ticketsOf(run)).toEqual([]);
    expect(typesOf(run, "s")).toEqual(["step.started", "step.paused", "log", "step.dispatched", "step.succeeded"]);
  });

  attribute("action.rate_limit", "each attempt has a turn, and burst is limit if it is absent", () => {
    let nth = 0;
    const worker = (): WorkerMove => (nth++ < 2 ? busy() : { kind: "result", result: {} });
    const retry = { max_attempts: 3, initial_backoff_ms: 0, jitter: false };
    const run = finish([{ ...LIMITED, rate_limit: { ...RATE, limit: 3 }, retry }], { inputs, worker });
    expect([run.state, run.sent.length]).toEqual(["succeeded", 3]);
    expect(asksOf(run).map(({ row }) => row)).toEqual(
      Array.from({ length: 3 }, () => expect.objectContaining({ entry: 1, rate_limit: 3, per_ms: "60000", burst: 3 })),
    );
    expect(rowsOf(run, "turn_taken", "turn_returned")).toEqual(["turn_taken", "turn_taken", "turn_taken"]);
  });

  attribute("action.rate_limit", "its timeouts begin with the turn", () => {
    const steps = [{ ...LIMITED, queue_timeout_ms: 1_000, timeout_ms: 5_000 }];
    const run = start(steps, { inputs, credit: () => false });
    run.now += 60_000;
    give(run, 1, run.now);
    run.advance();
    expect(run.context.wait).toMatchObject({ kind: "queued", since: run.now, dueAt: run.now + 1_000 });
  });

  attribute(
    "action.rate_limit",
    "a worker that comes five seconds after the turn gets the call in a new one, and the queue timeout goes on",
    () => {
      const worker = { credit: false };
      const run = start([{ ...LIMITED, queue_timeout_ms: 90_000 }], { inputs, credit: () => worker.credit });
      give(run, 1, run.now);
      run.advance();
      const queued = run.context.wait;
      if (queued?.kind !== "queued") throw new Error("it is not queued");
      run.now += 5_001;
      worker.credit = true;
      const offer = { type: "offer", dispatchId: queued.dispatchId, workerId: "w" } as const;
      expect(run.once(offer)).toMatchObject({ type: "refused" });
      expect(run.sent).toEqual([]);
      expect(run.context.wait).toMatchObject({ kind: "rate_limit", queueDueAt: queued.dueAt });
      expect(asksOf(run)).toHaveLength(2);
      run.now += 50_000;
      give(run, 1, run.now);
      run.advance();
      expect(run.sent).toHaveLength(1);
      run.drain();
      expect(run.state).toBe("succeeded");
    },
  );

  attribute(
    "action.rate_limit",
    "a call within five seconds goes, and one that no worker received keeps its turn",
    () => {
      const worker = { credit: false };
      const run = start([LIMITED], { inputs, credit: () => worker.credit });
      give(run, 1, run.now);
      run.advance();
      const queued = run.context.wait;
      if (queued?.kind !== "queued") throw new Error("it is not queued");
      run.now += 5_000;
      run.once({ type: "offer", dispatchId: queued.dispatchId, workerId: "w" });
      expect(run.context.wait).toMatchObject({ kind: "dispatched" });
      expect(asksOf(run)).toHaveLength(1);
    },
  );

  attribute("action.rate_limit", "the slot comes first, and stays while the step waits for its turn", () => {
    const run = start([{ ...LIMITED, concurrency: { key: "x", limit: 1 } }], { inputs });
    expect(run.context.wait?.kind).toBe("concurrency");
    expect(asksOf(run)).toEqual([]);
    run.once({ type: "slot_granted", entry: 1 });
    run.advance();
    expect(run.context.wait?.kind).toBe("rate_limit");
    expect(run.world.tickets).toHaveLength(1);
    run.drain();
    expect(run.state).toBe("succeeded");
    expect([run.world.tickets, ticketsOf(run)]).toEqual([[], []]);
  });

  attribute("action.rate_limit", "a refused step fails with a code of its own, which a catch can take", () => {
    const run = start([LIMITED], { inputs });
    run.once({ type: "turn_refused", entry: 1 });
    run.drain();
    expect(failureOf(run)).toBe(
      'rate_limit_queue_full: too many wait for their turn of the key "a" of action:shop.charge',
    );
    const caught = start([{ type: "try_catch", try: "s2", catch: "s3", errors: ["rate_limit_*"] }, LIMITED, NOOP], {
      inputs,
    });
    caught.once({ type: "turn_refused", entry: 2 });
    caught.drain();
    expect(caught.state).toBe("succeeded");
  });

  attribute("action.rate_limit", "a member that cannot be evaluated, or is out of its bounds, fails the step", () => {
    const run = (rate: object, more = {}) =>
      failureOf(finish([{ ...LIMITED, rate_limit: { ...RATE, key: "a", ...rate } }], { inputs: more }));
    expect(run({ key: "${inputs.x}" })).toMatch(/^expression_error/);
    expect(run({ key: "${inputs.x}" }, { x: [] })).toMatch(/^expression_error: the key of rate_limit must be/);
    expect(run({ limit: "${inputs.n}" }, { n: 0 })).toMatch(/^expression_error: the limit of rate_limit/);
    expect(run({ per_ms: "${inputs.n}" }, { n: 0.5 })).toMatch(/^expression_error: the per_ms of rate_limit/);
    expect(run({ burst: "${inputs.n}" }, { n: 10_001 })).toMatch(/^expression_error: the burst of rate_limit/);
    const computed = { key: "${inputs.n}", limit: "${inputs.n}", per_ms: "${inputs.n}", burst: "${inputs.n}" };
    expect(finish([{ ...LIMITED, rate_limit: computed }], { inputs: { n: 2 } }).state).toBe("succeeded");
  });

  attribute("action.rate_limit", "undos and dry runs need no turn", () => {
    const charge = { ...LIMITED, compensation: { action: "shop.refund" }, next: "s2" };
    const undone = finish([charge, { type: "error", code: "no" }], { inputs });
    expect([undone.state, undone.sent.length]).toEqual(["failed", 2]);
    expect(asksOf(undone)).toHaveLength(1);
    const dry = finish([{ ...LIMITED, action: "shop.dry" }], { inputs, identity: { dryRun: true } });
    expect(asksOf(dry)).toEqual([]);
  });

  attribute("action.rate_limit", "a turn that is not used goes back, and one that is used does not", () => {
    const waiting = start([LIMITED], { inputs });
    give(waiting, 1, waiting.now + 5_000);
    waiting.cancel();
    expect(rowsOf(waiting, "turn_taken", "turn_returned")).toEqual(["turn_returned"]);
    const queued = start([LIMITED], { inputs, credit: () => false });
    give(queued, 1, queued.now);
    queued.advance();
    queued.cancel();
    expect(rowsOf(queued, "turn_taken", "turn_returned")).toEqual(["turn_taken"]);
  });

  attribute("action.rate_limit", "an incident gives the turn up, and a person's retry asks for one", () => {
    const retry = { max_attempts: 1, initial_backoff_ms: 0 };
    const moves: WorkerMove[] = [busy(), { kind: "result", result: {} }];
    const run = start([{ ...LIMITED, retry }], {
      inputs,
      head: { on_failure: "incident" },
      worker: () => moves.shift() as WorkerMove,
    });
    run.drain();
    expect(run.context.wait?.kind).toBe("incident");
    expect(run.context.entry?.turn).toBeUndefined();
    run.command({ type: "retry_step", actor: "user:ops" });
    expect(run.context.wait?.kind).toBe("rate_limit");
    run.drain();
    expect([run.state, asksOf(run).length]).toEqual(["succeeded", 2]);
  });
});

describe("a run's turn", () => {
  it("is asked for before the first step, which it begins", () => {
    const run = start([NOOP], { inputs, head: HEAD });
    expect(run.context).toMatchObject({
      state: "paused",
      wait: { kind: "rate_limit", entry: 0, scope: "workflow:test" },
    });
    expect(run.context.step).toBeUndefined();
    run.drain();
    expect(run.state).toBe("succeeded");
    expect(ticketsOf(run)).toEqual([]);
    expect(run.rows.map(({ type, from, to }) => `${type} ${from} ${to}`)).toEqual([
      "log pending paused",
      "step.started paused running",
      "step.succeeded running running",
      "run.succeeded running succeeded",
    ]);
  });

  it("is given up for a new one if the run is resumed more than five seconds after it", () => {
    const run = start([NOOP], { inputs, head: HEAD });
    const at = run.now + 5_000;
    give(run, 0, at);
    run.command({ type: "pause", actor: "user:ops" });
    run.now = at + 5_001;
    run.command({ type: "resume", actor: "user:ops" });
    run.advance();
    expect([run.state, run.context.wait?.kind, asksOf(run).length]).toEqual(["paused", "rate_limit", 2]);
    run.drain();
    expect(run.state).toBe("succeeded");
  });

  it("comes behind its slot", () => {
    const run = start([NOOP], { inputs, head: { ...HEAD, concurrency: { key: "x", limit: 1 } } });
    expect(run.context.wait?.kind).toBe("concurrency");
    run.once({ type: "slot_granted", entry: 0 });
    run.advance();
    expect(run.context.wait?.kind).toBe("rate_limit");
    run.drain();
    expect(run.state).toBe("succeeded");
  });

  it("a refused run fails, and one whose key cannot be evaluated", () => {
    const run = start([NOOP], { inputs, head: HEAD });
    run.once({ type: "turn_refused", entry: 0 });
    run.drain();
    expect(failureOf(run)).toBe('rate_limit_queue_full: too many wait for their turn of the key "a" of workflow:test');
    expect(failureOf(finish([NOOP], { inputs: {}, head: HEAD }))).toMatch(/^expression_error/);
  });

  it("its branches are part of it, and a dry run needs no turn", () => {
    const fork = { type: "parallel", branches: { one: { next: "s3" }, two: { next: "s4" } }, next: "s2" };
    const family = finish([fork, { type: "join" }, NOOP, NOOP], { inputs, head: HEAD });
    expect([family.state, asksOf(family).length]).toEqual(["succeeded", 1]);
    expect(start([NOOP], { inputs, head: HEAD, identity: { dryRun: true } }).state).toBe("succeeded");
  });

  it("a run without a rate limit writes nothing of one", () => {
    const run = finish([{ type: "action", action: "shop.charge" }], {});
    expect(JSON.stringify(run.context)).not.toContain("turn");
    expect(rowsOf(run, "turn", "turn_taken", "turn_returned")).toEqual([]);
  });
});

describe("a definition's rate limit", () => {
  const step = { id: "s", type: "noop" };
  it("of a workflow is checked member by member", () => {
    const found = (rate_limit: unknown) => problems([step], { rate_limit });
    expect(found(RATE)).toEqual([]);
    expect(found({ key: 7, limit: 1, per_ms: 1, burst: null }).length).toBe(
      found({ key: 7, limit: 1, per_ms: 1 }).length,
    );
    expect(found({ ...RATE, limit: 1, per_ms: 86_400_000, burst: 1 })).toEqual([]);
    expect(found({ ...RATE, limit: 1_000, per_ms: 1_000 })).toEqual([]);
    expect(found("a")).toEqual(["$.rate_limit: must be an object"]);
    expect(found({ key: "a" })).toEqual(["$.rate_limit.limit: is required", "$.rate_limit.per_ms: is required"]);
    expect(found({ ...RATE, limit: 0 })).toEqual(["$.rate_limit.limit: must be at least 1"]);
    expect(found({ ...RATE, limit: 10_001 })).toEqual(["$.rate_limit.limit: must be at most 10000"]);
    expect(found({ ...RATE, per_ms: -1 })).toEqual(["$.rate_limit.per_ms: must be at least 1"]);
    expect(found({ ...RATE, per_ms: 2_678_400_001 })).toEqual(["$.rate_limit.per_ms: must be at most 2678400000"]);
    expect(found({ ...RATE, burst: 1.5 })).toEqual(["$.rate_limit.burst: must be a whole number"]);
    expect(found({ ...RATE, brust: 1 })).toEqual(['$.rate_limit.brust: is unknown (did you mean "burst"?)']);
    expect(found({ ...RATE, limit: "${inputs.n}" })[0]).toMatch(/^\$\.rate_limit\.limit: /);
  });

  it("of an action is checked member by member, and no other step has one", () => {
    const found = (rate_limit: unknown) => problemsOf({ type: "action", action: "shop.charge", rate_limit });
    expect(found({ ...RATE, limit: "${1}", per_ms: "${1}", burst: "${1}" })).toEqual([]);
    expect(found({ ...RATE, per_ms: 0 })).toEqual([".rate_limit.per_ms: must be at least 1"]);
    expect(found({ ...RATE, on_limit: "queue" })[0]).toMatch(/^\.rate_limit\.on_limit: is unknown/);
    expect(problemsOf({ type: "http_request", url: "https://a.example", rate_limit: RATE })[0]).toMatch(
      /^\.rate_limit: is not an attribute/,
    );
  });
});
