// People help runs that cannot go on, as in the runbook of docs/operations.md: on a service with a worker that breaks and
// is repaired. Every story ends with balanced books.
// @module-tag long
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { actor } from "../harness/access.js";
import { until } from "../harness/until.js";
import { nothingUnwatched } from "../run/seen.js";
import { PAUSE_MS } from "./client.js";
import { Counter, charge, HELPED, refused, ship } from "./helping.js";
import { openShop } from "./shop.js";

let counter: Counter;

beforeAll(async () => {
  counter = await Counter.openHere();
  const { client } = counter;
  const done = { id: "done", type: "end", output: "${vars.ship}" };
  await client.publish("order", [charge("pay", { next: "ship" }), ship({ next: "done" }), done], HELPED);
  await client.publish("priced", [charge("pay", { inputs: { sum: "${vars.sum + 1}" } })], HELPED);
  await client.publish("refused", [charge("pay", { next: "ship" }), ship({ next: "no" }), refused], HELPED);
  const bank = { compensation: { action: "bank.refund" } };
  await client.publish("bank", [charge("pay", { ...bank, next: "no" }), refused], HELPED);
  await client.publish("family", [
    charge("pay", { next: "p" }),
    { id: "p", type: "parallel", branches: { a: { next: "a" }, b: { next: "b" } }, next: "j" },
    charge("a", { next: "hang" }),
    charge("hang", { action: "shop.hang", next: "a2" }),
    charge("a2"),
    charge("b", { next: "wait" }),
    { id: "wait", type: "wait_for_signal", signal_name: "go", next: "b2" },
    charge("b2"),
    { id: "j", type: "join" },
  ]);
});
beforeEach(() => counter.shop.broken.clear());
afterAll(() => counter.close());

const starts = (workflow: string, count: number) =>
  Promise.all(Array.from({ length: count }, () => counter.client.start(workflow)));
const each = <T>(runIds: readonly string[], what: (runId: string) => Promise<T>) => Promise.all(runIds.map(what));
const undoOf = async (runId: string) =>
  (await counter.undoList(runId)).map(({ ordinal, step_id: step, state }) => `${ordinal} ${step} ${state}`);
const untilIncident = (runId: string, at: object) =>
  until(
    async () => {
      const incident = await counter.incident(runId);
      return Object.entries(at).every(([name, value]) => incident[name as keyof typeof incident] === value);
    },
    { pause: PAUSE_MS, what: `the incident ${JSON.stringify(at)}` },
  );

describe("a worker that was broken", () => {
  it("is repaired: every run that stands at an incident is retried, and succeeds", async () => {
    counter.shop.broken.add("slow");
    const runIds = await starts("order", 6);
    for (const incident of await each(runIds, (runId) => counter.incident(runId)))
      expect(incident).toEqual({
        ...{ code: "broken", message: "the action is broken", step_id: "ship", attempts: 1 },
        since: expect.stringMatching(/^\d{4}-.*Z$/),
      });
    for (const runId of runIds)
      expect(await counter.run(runId)).toMatchObject({ state: "paused", paused_reason: "incident" });
    await nothingUnwatched(counter.database.sql);
    // A retry too early leads to another incident, and the attempts count on.
    await counter.do(runIds[0] as string, "retry_step");
    await untilIncident(runIds[0] as string, { attempts: 2 });
    counter.shop.broken.clear();
    await each(runIds, (runId) => counter.do(runId, "retry_step"));
    await counter.ends(runIds, "succeeded");
  });

  it("a bad value is corrected with the retry", async () => {
    const [runId = ""] = await starts("priced", 1);
    expect(await counter.incident(runId)).toMatchObject({ code: "expression_error", step_id: "pay" });
    await counter.do(runId, "retry_step", { variables: { sum: 6 } });
    const [seen] = await counter.ends([runId], "succeeded");
    expect(seen?.run.variables).toMatchObject({ sum: 6 });
  });

  it("a step that was done by hand is skipped, with its output", async () => {
    counter.shop.broken.add("slow");
    const runIds = await starts("order", 2);
    await each(runIds, (runId) => counter.incident(runId));
    await each(runIds, (runId) => counter.do(runId, "skip_step", { output: { sent: "by bike" } }));
    for (const { run } of await counter.ends(runIds, "succeeded"))
      expect(run).toMatchObject({ output: { sent: "by bike" } });
  });

  it("a run that nothing can save fails, and is rolled back", async () => {
    counter.shop.broken.add("slow");
    const runIds = await starts("order", 2);
    await each(runIds, (runId) => counter.incident(runId));
    await each(runIds, (runId) => counter.do(runId, "fail", { reason: "hopeless" }));
    for (const { run, events } of await counter.ends(runIds, "failed")) {
      expect(run.error).toMatchObject({ code: "broken", step_id: "ship" });
      const logged = events.filter(({ metadata }) => metadata?.kind === "fail");
      expect(logged).toMatchObject([{ actor: actor(), metadata: { by: actor(), reason: "hopeless" } }]);
      expect(await undoOf(run.id)).toEqual(["1 pay done"]);
    }
  });
});

describe("a service that undoes and is gone", () => {
  it("comes back: the rollback stands until its undo is retried, or skipped", async () => {
    counter.shop.broken.add("refund");
    const [retried = "", skipped = ""] = await starts("refused", 2);
    for (const runId of [retried, skipped]) {
      expect(await counter.incident(runId)).toMatchObject({ code: "broken", step_id: "ship", phase: "compensation" });
      expect((await counter.run(runId)).state).toBe("compensating");
      expect(await undoOf(runId)).toEqual(["1 pay owed", "2 ship owed"]);
      for (const act of ["retry", "skip"]) {
        expect(await counter.act(runId, `compensations/${act}`, { ordinal: 1 })).toMatchObject({ status: 409 });
        expect(await counter.act(runId, `compensations/${act}`, { ordinal: 3 })).toMatchObject({ status: 400 });
      }
    }
    await nothingUnwatched(counter.database.sql);
    await counter.do(skipped, "compensations/skip", { ordinal: 2 });
    await untilIncident(skipped, { step_id: "pay" });
    expect(await undoOf(skipped)).toEqual(["1 pay owed", "2 ship failed"]);
    expect(await counter.act(skipped, "compensations/skip", { ordinal: 2 })).toMatchObject({ status: 409 });
    counter.shop.broken.clear();
    await counter.do(retried, "compensations/retry", { ordinal: 2 });
    await counter.do(skipped, "compensations/retry");
    await counter.ends([retried, skipped], "failed");
    expect([await undoOf(retried), await undoOf(skipped)]).toEqual([
      ["1 pay done", "2 ship done"],
      ["1 pay done", "2 ship failed"],
    ]);
    const reviews = await each([retried, skipped], async (runId) => (await counter.run(runId)).requires_manual_review);
    expect(reviews).toEqual([false, true]);
  });

  it("was never registered: the retry takes what is registered now", async () => {
    const [runId = ""] = await starts("bank", 1);
    expect(await counter.incident(runId)).toMatchObject({ code: "action_not_registered", phase: "compensation" });
    const bank = await openShop({ ...counter.at, service: "bank" });
    await counter.do(runId, "compensations/retry", { ordinal: 1 });
    await counter.client.allEnd([runId]);
    expect(await undoOf(runId)).toEqual(["1 pay done"]);
    expect(bank.of(runId, "refund").map(({ forwardKey }) => forwardKey)).toEqual(
      counter.shop.of(runId, "charge").map(({ key }) => key),
    );
    await bank.stop();
  });
});

/** A family that works: one branch with a worker, the other one at a signal. */
async function family(): Promise<{ root: string; a: string; b: string }> {
  const [root = ""] = await starts("family", 1);
  await until(
    async () => {
      const branches = await counter.children(root);
      const runs = await each(branches, (runId) => counter.run(runId));
      return runs.some(({ paused_reason: reason }) => reason === "signal") && branches.some((id) => hanging(id));
    },
    { pause: PAUSE_MS, what: "both branches at work" },
  );
  const [one = "", other = ""] = await counter.children(root);
  return hanging(one) ? { root, a: one, b: other } : { root, a: other, b: one };
}
const hanging = (runId: string) => counter.shop.hanging(runId).length > 0;

describe("a family", () => {
  it("in its rollback is terminated, children first, and its undo lists say what is left to people", async () => {
    const { root, a, b } = await family();
    await counter.client.insist("POST", `/sagas/${root}/cancel`, { reason: "enough" });
    await counter.client.untilState(b, "cancelled");
    // Its worker does not let go, so the rollback of the other branch, and of the root, does not begin.
    expect((await counter.run(root)).state).toBe("compensating");
    await counter.do(root, "terminate", { reason: "we cannot wait" });
    const runs = await each([root, a, b], (runId) => counter.client.untilState(runId, "cancelled"));
    expect(runs).toMatchObject([{ requires_manual_review: true }, { requires_manual_review: true }, {}]);
    const [end = "", ...ends] = runs.map(({ terminal_at: at = "" }) => at);
    for (const childs of ends) expect(childs <= end).toBe(true);
    expect(await each([root, a, b], undoOf)).toEqual([
      ["1 pay abandoned", "2 a abandoned", "3 hang abandoned"],
      ["1 a abandoned", "2 hang abandoned"],
      ["1 b done"],
    ]);
    await counter.ends([root], "cancelled");
    counter.shop.letAllGo();
    await nothingUnwatched(counter.database.sql);
  });

  it("is paused at work: answers are kept, signals are recorded, and all goes on at the resume", async () => {
    const { root, a, b } = await family();
    await counter.do(root, "pause", { reason: "look at it" });
    for (const runId of [root, a, b]) await counter.paused(runId, "operator");
    const signalled = await counter.client.insist("POST", `/sagas/${root}/signal/go`, { payload: { n: 1 } });
    expect(signalled).toMatchObject({ status: 409, body: { recorded: true } });
    counter.shop.letAllGo();
    await until(async () => (await counter.client.look(a)).events.some(ended), { pause: PAUSE_MS, what: "the answer" });
    await nothingUnwatched(counter.database.sql);
    for (const runId of [root, a, b]) expect((await counter.run(runId)).paused_reason).toBe("operator");
    expect(counter.shop.of(a, "charge").map(({ stepId }) => stepId)).toEqual(["a"]);
    await counter.do(root, "resume");
    await counter.ends([root], "succeeded");
    expect(counter.shop.of(b, "charge").map(({ stepId }) => stepId)).toEqual(["b", "b2"]);
  });
  const ended = ({ event_type: type, step_id: step }: { event_type: string; step_id?: string | undefined }) =>
    type === "step.succeeded" && step === "hang";
});
