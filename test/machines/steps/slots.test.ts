// Concurrency keys: when a run, or a step, asks for a slot, what it does with the answer, and when it gives the slot back.
import { describe, expect, it } from "vitest";
import type { WorkerMove } from "../simulation.js";
import { attribute, failureOf, finish, problems, problemsOf, start, typesOf } from "./rig.js";

const LIMITED = { type: "action", action: "shop.charge", concurrency: { key: "${inputs.k}", limit: 1 } };
const HEAD = { concurrency: { key: "${inputs.k}", limit: 1 } };
const inputs = { k: "a" };
const NOOP = { type: "noop" };

const slotsOf = (run: ReturnType<typeof start>) => run.world.tickets.map(({ row, granted }) => [row.entry, granted]);
const ticketsOf = (run: ReturnType<typeof start>) =>
  run.world.history.flatMap(({ writes }) => writes.filter(({ to }) => to === "ticket"));
const grant = (run: ReturnType<typeof start>, entry: number) => run.command({ type: "slot_granted", entry });

describe("a step's slot", () => {
  attribute(
    "action.concurrency",
    "the action is queued once the step has its slot, which goes back with the step",
    () => {
      const run = start([LIMITED], { inputs });
      expect(run.context.wait).toMatchObject({ kind: "concurrency", entry: 1, scope: "action:shop.charge", key: "a" });
      expect(run.sent).toEqual([]);
      expect(slotsOf(run)).toEqual([[1, true]]);
      run.drain();
      expect(run.state).toBe("succeeded");
      expect(slotsOf(run)).toEqual([]);
      expect(typesOf(run, "s")).toEqual(["step.started", "step.paused", "log", "step.dispatched", "step.succeeded"]);
    },
  );

  attribute("action.concurrency", "its timeouts begin with the slot", () => {
    const run = start([{ ...LIMITED, queue_timeout_ms: 1_000, timeout_ms: 5_000 }], { inputs, credit: () => false });
    run.now += 60_000;
    grant(run, 1);
    run.advance();
    expect(run.context.wait).toMatchObject({ kind: "queued", since: run.now, dueAt: run.now + 1_000 });
  });

  attribute(
    "action.concurrency",
    "the slot stays through the attempts, and another entry of the step asks again",
    () => {
      let nth = 0;
      const worker = (): WorkerMove =>
        nth++ % 2 === 0
          ? { kind: "failure", code: "busy", retryable: true, outcomeUnknown: false }
          : { kind: "result", result: {} };
      const body = [
        { id: "each", type: "while", condition: "iteration < 3", body: "s2" },
        { ...LIMITED, retry: { max_attempts: 2, initial_backoff_ms: 0, jitter: false } },
      ];
      const run = finish(body, { inputs, worker, head: { start: "each" } });
      const asked = ticketsOf(run);
      expect(asked).toHaveLength(3);
      expect(run.sent).toHaveLength(6);
      expect(slotsOf(run)).toEqual([]);
    },
  );

  attribute("action.concurrency", "a refused step fails with a code of its own, which a catch can take", () => {
    const run = start([LIMITED], { inputs });
    run.once({ type: "slot_refused", entry: 1, reason: "full" });
    run.drain();
    expect(failureOf(run)).toBe(
      'concurrency_queue_full: too many wait for a slot of the key "a" of action:shop.charge',
    );
    const caught = start([{ type: "try_catch", try: "s2", catch: "s3", errors: ["concurrency_*"] }, LIMITED, NOOP], {
      inputs,
    });
    caught.once({ type: "slot_refused", entry: 2, reason: "full" });
    caught.drain();
    expect(caught.state).toBe("succeeded");
  });

  attribute("action.concurrency", "a key or a limit that cannot be evaluated fails the step", () => {
    const run = (concurrency: object, more = {}) => failureOf(finish([{ ...LIMITED, concurrency }], { inputs: more }));
    expect(run({ key: "${inputs.k}", limit: 1 })).toMatch(/^expression_error/);
    expect(run({ key: "${inputs.k}", limit: 1 }, { k: null })).toMatch(
      /^expression_error: the key of concurrency must be/,
    );
    expect(run({ key: "a", limit: "${inputs.n}" }, { n: 0 })).toMatch(/^expression_error: the limit of concurrency/);
    expect(finish([{ ...LIMITED, concurrency: { key: "a", limit: "${inputs.n}" } }], { inputs: { n: 2 } }).state).toBe(
      "succeeded",
    );
  });

  attribute("action.concurrency", "undos and dry runs need no slot", () => {
    const compensation = { action: "shop.refund" };
    const undone = finish(
      [
        { ...LIMITED, compensation, next: "s2" },
        { type: "error", code: "x" },
      ],
      { inputs },
    );
    expect(undone.sent.map(({ call }) => call.action)).toEqual(["charge", "refund"]);
    const asked = ticketsOf(undone);
    expect(asked).toHaveLength(1);
    const dry = finish([{ ...LIMITED, action: "shop.dry" }], { inputs, identity: { dryRun: true } });
    expect(ticketsOf(dry)).toEqual([]);
  });
});

describe("a run's slot", () => {
  it("is asked for before the first step, and given back with the last commit", () => {
    const run = start([NOOP], { inputs, head: HEAD });
    expect(run.context).toMatchObject({
      state: "paused",
      wait: { kind: "concurrency", entry: 0, scope: "workflow:test" },
    });
    expect(run.context.step).toBeUndefined();
    expect(slotsOf(run)).toEqual([[0, true]]);
    run.drain();
    expect(run.state).toBe("succeeded");
    expect(slotsOf(run)).toEqual([]);
    expect(run.rows.map(({ type, from, to }) => `${type} ${from} ${to}`)).toEqual([
      "log pending paused",
      "step.started paused running",
      "step.succeeded running running",
      "run.succeeded running succeeded",
    ]);
  });

  it("a refused run fails, and one whose key cannot be evaluated", () => {
    const run = start([NOOP], { inputs, head: HEAD });
    run.once({ type: "slot_refused", entry: 0, reason: "refused" });
    run.drain();
    expect(failureOf(run)).toBe('concurrency_limit: all slots of the key "a" of workflow:test are taken');
    expect(failureOf(finish([NOOP], { inputs: {}, head: HEAD }))).toMatch(/^expression_error/);
  });

  it("its branches are part of it, and a dry run needs none", () => {
    const fork = { type: "parallel", branches: { one: { next: "s3" }, two: { next: "s4" } }, next: "s2" };
    const family = finish([fork, { type: "join" }, NOOP, NOOP], { inputs, head: HEAD });
    const asked = ticketsOf(family);
    expect([family.state, asked.length]).toEqual(["succeeded", 1]);
    expect(start([NOOP], { inputs, head: HEAD, identity: { dryRun: true } }).state).toBe("succeeded");
  });

  it("is kept while the run rolls back", () => {
    const charge = { type: "action", action: "shop.charge", compensation: { action: "shop.refund" }, next: "s2" };
    const run = start([charge, { type: "wait_for_signal", signal_name: "go" }], { inputs, head: HEAD });
    run.drain();
    run.cancel();
    expect(run.state).toBe("compensating");
    expect(slotsOf(run)).toEqual([[0, true]]);
    run.drain();
    expect([run.state, slotsOf(run)]).toEqual(["cancelled", []]);
  });
});

describe("the definition", () => {
  it("is checked: members, bounds, expressions, names", () => {
    const step = { id: "s", ...NOOP };
    const found = (concurrency: unknown) => problems([step], { concurrency });
    expect(found({ key: "a", limit: 1 })).toEqual([]);
    expect(found({ key: "a", limit: 10_000, on_limit: "cancel_oldest" })).toEqual([]);
    expect(found("a")).toEqual(["$.concurrency: must be an object"]);
    expect(found({ key: "a" })).toEqual(["$.concurrency.limit: is required"]);
    expect(found({ key: "a", limit: 0 })).toEqual(["$.concurrency.limit: must be at least 1"]);
    expect(found({ key: "a", limit: 10_001 })).toEqual(["$.concurrency.limit: must be at most 10000"]);
    expect(found({ key: "a", limit: 1, on_limt: "queue" })).toEqual([
      '$.concurrency.on_limt: is unknown (did you mean "on_limit"?)',
    ]);
    expect(found({ key: "a", limit: 1, on_limit: "wait" })).toEqual([
      "$.concurrency.on_limit: must be one of queue, refuse, cancel_oldest",
    ]);
    expect(found({ key: "${inputs.}", limit: 1 })[0]).toMatch(/^\$\.concurrency\.key: /);
    expect(problems([step], { concurency: {} })).toEqual(['$.concurency: is unknown (did you mean "concurrency"?)']);
  });

  it("of a step, too", () => {
    const found = (concurrency: unknown) => problemsOf({ type: "action", action: "shop.charge", concurrency });
    expect(found({ key: "a", limit: "${inputs.n}" })).toEqual([]);
    expect(found({ key: "a", limit: 1.5 })).toEqual([".concurrency.limit: must be a whole number"]);
    expect(found({ key: "a", limit: 1, on_limit: "queue" })[0]).toMatch(/^\.concurrency\.on_limit: is unknown/);
    expect(
      problemsOf({ type: "http_request", url: "https://a.example", concurrency: { key: "a", limit: 1 } })[0],
    ).toMatch(/^\.concurrency: is not an attribute/);
  });
});
