// Forks over HTTP, on a real node: what the new run begins with and owes, what becomes of the original, what is refused and why, and what a repeat gets.
import { beforeAll, describe, expect, it } from "vitest";
import { uuidv7 } from "../../src/ids.js";
import { until } from "../harness/until.js";
import { ended, useNode } from "./rig.js";

const rig = useNode();
const UNDONE = { action: "shop.refund" };

const step = (id: string, more: object) => ({ id, ...more }) as { id: string; type: string };
const charge = (id: string, next: string) =>
  step(id, { type: "action", action: "shop.charge", compensation: UNDONE, next });
const wait = (id: string, next?: string) =>
  step(id, { type: "wait_for_signal", signal_name: "go", ...(next && { next }) });

/** Charges, waits, charges again, and fails or ends as its input says. */
const STEPS = [
  charge("first", "wait"),
  wait("wait", "second"),
  charge("second", "check"),
  step("check", { type: "assert", condition: "inputs.good", next: "done" }),
  step("done", { type: "end", output: "${has(vars.first.receipt) ? vars.first.receipt : 'none'}" }),
];

beforeAll(async () => {
  await rig.client.publish("order", STEPS);
  await rig.client.publish("kept", STEPS, { history: "full" });
  await rig.client.publish("counting", [
    step("count", { type: "set_var", name: "n", value: "${has(vars.n) ? vars.n + 1 : 1}", next: "more" }),
    step("more", { type: "switch", cases: [{ when: "vars.n < 3", next: "count" }], default: "rest" }),
    wait("rest", "out"),
    step("out", { type: "end", output: "${vars.n}" }),
  ]);
  await rig.client.publish("family", [
    step("child", { type: "sub_saga", workflow_id: "order", inputs: { good: true }, next: "out" }),
    step("out", { type: "end" }),
  ]);
});

const fork = (id: string, body: object, key?: string) => rig.ask("POST", `/sagas/${id}/fork`, body, key);
const runOf = async (id: string) => (await rig.ask("GET", `/sagas/${id}`)).body;
const endOf = async (id: string) => (await rig.ask("GET", `/sagas/${id}?wait_ms=30000`)).body;
const undoOf = async (id: string) =>
  (await rig.ask("GET", `/sagas/${id}/undo`)).body.items.map((one: { step_id: string; state: string }) => [
    one.step_id,
    one.state,
  ]);
const go = (id: string) => rig.ask("POST", `/sagas/${id}/signal/go`, { payload: {} });
const eventsOf = async (id: string) => (await rig.ask("GET", `/sagas/${id}/events`)).body.items;

/** A run that waits for its signal. */
async function waiting(workflow = "order", more: object = {}): Promise<string> {
  const id = await rig.client.start(workflow, { inputs: { good: true }, ...more });
  await rig.client.untilState(id, "paused");
  return id;
}

/** A run that has ended. */
async function over(workflow: string, inputs: object): Promise<string> {
  const id = await waiting(workflow, { inputs });
  await go(id);
  await endOf(id);
  return id;
}

describe("a fork of a run that waits", () => {
  it("goes on from the step with the outputs before it, and the original is terminated in the same commit", async () => {
    const original = await waiting("order", { labels: { team: "blue" }, business_key: "order-7" });
    const { status, body, headers } = await fork(original, { step: "wait" });
    expect([status, body]).toEqual([202, { run_id: expect.any(String), state: "pending", changed: true }]);
    expect(headers.get("location")).toBe(`/api/v1/sagas/${body.run_id}`);
    expect(body.run_id.slice(-2), "the fork is in the shard of the original").toBe(original.slice(-2));
    expect(await runOf(original)).toMatchObject({
      ...{
        state: "cancelled",
        last_error: `forked as ${body.run_id} from the step "wait"`,
        requires_manual_review: false,
      },
    });
    const [act] = (await eventsOf(original)).filter(
      (row: { metadata?: { kind?: string } }) => row.metadata?.kind === "fork",
    );
    expect(act).toMatchObject({
      ...{
        actor: "api",
        metadata: { by: "api", run_id: body.run_id, step: "wait", entry: 1, effects: "inherit", inherited: 1 },
      },
    });
    const begun = await rig.client.untilState(body.run_id, "paused");
    expect(begun).toMatchObject({
      ...{ current_step: "wait", forked_from: { saga_id: original, step: "wait", entry: 1 }, labels: { team: "blue" } },
      ...{ business_key: "order-7", variables: { first: { receipt: expect.any(String) } } },
    });
    expect((await eventsOf(body.run_id))[0]).toMatchObject({
      ...{
        event_type: "saga.started",
        actor: "api",
        metadata: { forked_from: { saga_id: original, step: "wait", entry: 1 } },
      },
    });
    expect((await go(original)).status, "the original takes nothing any more").toBe(409);
    await go(body.run_id);
    const end = await endOf(body.run_id);
    expect(end).toMatchObject({ state: "succeeded", output: end.variables.first.receipt });
    expect(rig.shop.of(original, "charge")).toHaveLength(1);
    expect(rig.shop.of(body.run_id, "charge").map(({ stepId }) => stepId)).toEqual(["second"]);
    const listed = (await rig.ask("GET", `/sagas?forked_from=${original}`)).body.items;
    expect(listed.map(({ id }: { id: string }) => id)).toEqual([body.run_id]);
  });

  it("owes the undo of what it inherits, and undoes it once; the original owes nothing", async () => {
    const original = await waiting("order");
    const { run_id: id } = (await fork(original, { step: "wait", inputs: { good: false } })).body;
    expect([await undoOf(original), await undoOf(id)]).toEqual([[], [["first", "owed"]]]);
    await rig.client.untilState(id, "paused");
    await go(id);
    expect(await endOf(id)).toMatchObject({ state: "failed" });
    expect(await undoOf(id)).toEqual([
      ["first", "done"],
      ["second", "done"],
    ]);
    expect(rig.shop.of(id, "refund").map(({ stepId }) => stepId)).toEqual(["second", "first"]);
    const [paid] = rig.shop.of(original, "charge");
    expect(rig.shop.of(id, "refund").at(-1)?.forwardKey).toBe(paid?.key);
    expect(rig.shop.of(original, "refund")).toEqual([]);
  });

  it("from an earlier step leaves what was done since to people, in the list of the original", async () => {
    const original = await waiting("order");
    const { status, body } = await fork(original, { step: "first" });
    expect(status).toBe(202);
    expect(await runOf(original)).toMatchObject({ state: "cancelled", requires_manual_review: true });
    expect(await undoOf(original)).toEqual([["first", "abandoned"]]);
    await rig.client.untilState(body.run_id, "paused");
    const keys = [original, body.run_id].map((id) => rig.shop.of(id, "charge")[0]?.key);
    expect(new Set(keys).size, "it has an idempotency key of its own").toBe(2);
  });

  it("is refused while a dispatch is unresolved, and made when the run is paused and the answer has come", async () => {
    await rig.client.publish("hanging", [
      step("hang", { type: "action", action: "shop.hang", compensation: UNDONE, next: "out" }),
      step("out", { type: "end", output: "${vars.hang.receipt}" }),
    ]);
    const original = await rig.client.start("hanging");
    await until(() => rig.shop.hanging(original).length === 1);
    expect((await fork(original, { step: "hang" })).body.message).toContain("is not resolved");
    await rig.ask("POST", `/sagas/${original}/pause`, {});
    expect((await fork(original, { step: "hang" })).status).toBe(409);
    rig.shop.hanging(original)[0]?.();
    const isDone = async () => (await runOf(original)).current_step === "out";
    await until(isDone, { what: "the answer" });
    const { body } = await fork(original, { step: "out" });
    expect(await endOf(body.run_id)).toMatchObject({ state: "succeeded", output: expect.any(String) });
    expect(await undoOf(body.run_id)).toEqual([["hang", "not_needed"]]);
  });

  it("passes the hold of its business key on", async () => {
    const held = { business_key: "held-1", on_conflict: "reject" };
    const original = await waiting("order", held);
    const { run_id: id } = (await fork(original, { step: "wait" })).body;
    const again = await rig.ask("POST", "/sagas/start", { workflow_id: "order", ...held });
    expect(again).toMatchObject({ status: 409, body: { run_id: id } });
  });
});

describe("a fork of a run that has ended", () => {
  it("inherits what a success left standing, and the original does not change", async () => {
    const original = await over("order", { good: true });
    const before = await eventsOf(original);
    const { status, body } = await fork(original, { step: "check", inputs: { good: false } });
    expect(status).toBe(202);
    expect(await endOf(body.run_id)).toMatchObject({ state: "failed" });
    expect(await undoOf(body.run_id)).toEqual([
      ["first", "done"],
      ["second", "done"],
    ]);
    expect(await eventsOf(original), "the log of the original stays closed").toEqual(before);
    expect(await undoOf(original)).toEqual([]);
  });

  it("is made once: a second one is told of the first, unless it assumes the effects", async () => {
    const original = await over("order", { good: true });
    const { run_id: first } = (await fork(original, { step: "done" })).body;
    const second = await fork(original, { step: "done" });
    expect(second).toMatchObject({ status: 409, body: { error: "conflict", run_id: first } });
    const { body } = await fork(original, { step: "done", effects: "assume" });
    expect(await undoOf(body.run_id)).toEqual([]);
    expect(await undoOf(first)).toHaveLength(2);
    const { total } = (await rig.ask("GET", `/sagas?forked_from=${original}`)).body;
    expect(total).toBe(2);
  });

  it("of which the effects were undone is refused with each of them, unless it assumes that they stand", async () => {
    const original = await over("order", { good: false });
    const refused = await fork(original, { step: "check", inputs: { good: true } });
    expect(refused.status).toBe(409);
    expect(refused.body.details.map(({ message }: { message: string }) => message)).toEqual([
      'the step "first" (entry 1) was undone',
      'the step "second" (entry 3) was undone',
    ]);
    const { status, body } = await fork(original, { step: "check", inputs: { good: true }, effects: "assume" });
    expect(status).toBe(202);
    expect(await endOf(body.run_id)).toMatchObject({ state: "succeeded", output: expect.any(String) });
    expect(await undoOf(body.run_id)).toEqual([]);
    expect(await undoOf(original), "the original says what it has done").toHaveLength(2);
  });

  it("of a fork is one of the fork, and inherits on", async () => {
    const original = await over("order", { good: true });
    const { run_id: second } = (await fork(original, { step: "check" })).body;
    await endOf(second);
    const { body } = await fork(second, { step: "done" });
    expect(await endOf(body.run_id)).toMatchObject({
      state: "succeeded",
      forked_from: { saga_id: second, step: "done" },
    });
    expect([await undoOf(second), (await undoOf(body.run_id)).length]).toEqual([[], 2]);
  });

  it("with one request sent five times at once makes one run, and other requests get none", async () => {
    const original = await over("order", { good: true });
    const same = await Promise.all(Array.from({ length: 5 }, () => fork(original, { step: "done" }, "once")));
    expect(new Set(same.map(({ status, body }) => JSON.stringify([status, body]))).size).toBe(1);
    expect((await fork(original, { step: "check" }, "once")).body.message).toBe(
      "the idempotency key was used with another body",
    );
    const others = await Promise.all(Array.from({ length: 4 }, () => fork(original, { step: "done" })));
    expect(others.map(({ status }) => status)).toEqual([409, 409, 409, 409]);
    expect((await rig.ask("GET", `/sagas?forked_from=${original}`)).body.total).toBe(1);
  });

  it("that several clients ask for at once is made for one of them", async () => {
    const original = await over("order", { good: true });
    const answers = await Promise.all(Array.from({ length: 6 }, () => fork(original, { step: "done" })));
    expect(answers.map(({ status }) => status).sort()).toEqual([202, 409, 409, 409, 409, 409]);
  });
});

describe("the variables of a fork", () => {
  it("are those at the entry, whatever was written since, where the workflow keeps its history", async () => {
    await rig.client.publish(
      "kept-count",
      [
        step("count", { type: "set_var", name: "n", value: "${has(vars.n) ? vars.n + 1 : 1}", next: "more" }),
        step("more", { type: "switch", cases: [{ when: "vars.n < 3", next: "count" }], default: "rest" }),
        wait("rest", "out"),
        step("out", { type: "end", output: "${vars.n}" }),
      ],
      { history: "full" },
    );
    const original = await waiting("kept-count", { variables: { big: "é".repeat(2_000), emoji: "🙂", none: null } });
    const { body } = await fork(original, { step: "more", entry: 2, effects: "assume" });
    const begun = await rig.client.untilState(body.run_id, "paused");
    expect(begun).toMatchObject({
      forked_from: { entry: 2 },
      variables: { n: 3, emoji: "🙂", none: null, big: "é".repeat(2_000) },
    });
    const first = await fork(body.run_id, { step: "more", effects: "assume" });
    expect(first.status).toBe(202);
    const values = await rig.database.sql`select holder from kept_values where holder = ${original}`;
    expect(values, "the large value is kept once").toHaveLength(1);
  });

  it("are known without a history where nothing that was written since had a value before", async () => {
    const original = await over("order", { good: true });
    const { body } = await fork(original, { step: "wait" });
    const begun = await rig.client.untilState(body.run_id, "paused");
    expect(Object.keys(begun.variables as object)).toEqual(["first"]);
  });

  it("are history_missing where they are not known, unless they are given; the answer names the steps that are known", async () => {
    const original = await waiting("counting");
    const refused = await fork(original, { step: "more", entry: 1 });
    expect(refused).toMatchObject({ status: 409, body: { error: "history_missing" } });
    expect(refused.body.message).toContain('those at "rest", "more" are');
    expect((await fork(original, { step: "count", entry: 2 })).body.error).toBe("history_missing");
    const { body } = await fork(original, { step: "count", entry: 2, variables: { n: 40 } });
    expect(await rig.client.untilState(body.run_id, "paused")).toMatchObject({ variables: { n: 41 } });
  });
});

describe("a fork is refused", () => {
  it("for a step that there is not, that was not entered, or that is not at the top level", async () => {
    await rig.client.publish("blocks", [
      step("all", { type: "foreach", items: "[1]", body: "inner", next: "rest" }),
      step("inner", { type: "noop" }),
      step("rest", { type: "wait_for_signal", signal_name: "go", next: "never" }),
      step("never", { type: "noop" }),
    ]);
    const original = await rig.client.start("blocks");
    await until(async () => (await runOf(original)).current_step === "rest");
    const said = async (body: object) => (await fork(original, body)).body.message;
    expect(await said({ step: "nowhere" })).toContain('has no step "nowhere"');
    expect(await said({ step: "never" })).toBe('the run has not entered the step "never"');
    expect(await said({ step: "inner" })).toContain('is inside "all"');
    expect(await said({ step: "rest", entry: 2 })).toContain("once: there is no entry 2");
    expect(await said({ step: "rest", version: 9 })).toContain("no published version 9");
    expect((await fork(original, { step: "rest", version: 9 })).status).toBe(404);
    expect((await fork(original, {})).status).toBe(400);
    expect((await fork(original, { step: null })).status).toBe(400);
    expect((await fork(original, { step: "rest", entry: 0 })).status).toBe(400);
    expect((await fork(original, { step: "rest", effects: "half" })).status).toBe(400);
    expect((await fork(original, { step: "rest", inputs: 1 })).status).toBe(400);
    expect((await fork(uuidv7(), { step: "rest" })).status).toBe(404);
    expect((await fork("17", { step: "rest" })).status).toBe(400);
    expect((await runOf(original)).state, "no refusal has changed it").toBe("paused");
  });

  it("for a child, whose root is named, and for a run with a child that has not ended", async () => {
    const parent = await rig.client.start("family");
    await until(async () => (await rig.ask("GET", `/sagas/${parent}/children`)).body.items[0]?.state === "paused");
    const [child] = (await rig.ask("GET", `/sagas/${parent}/children`)).body.items;
    expect((await fork(child.id, { step: "wait" })).body.message).toBe(
      `the run belongs to the run ${parent}: fork that one`,
    );
    expect((await fork(parent, { step: "child" })).body.message).toContain("children that have not ended");
    await go(child.id);
    await endOf(parent);
    const { body } = await fork(parent, { step: "out" });
    expect((await endOf(body.run_id)).state).toBe("succeeded");
    expect(await undoOf(body.run_id), "what the child handed over has moved on").toHaveLength(2);
  });

  it("for inputs that fail the schema of the version that it is to be of", async () => {
    await rig.client.publish("strict", [wait("rest")]);
    const original = await waiting("strict", { inputs: { n: "one" } });
    const input_schema = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };
    await rig.client.publish("strict", [wait("rest"), step("more", { type: "noop" })], { version: 2, input_schema });
    expect(await fork(original, { step: "rest", version: 2 })).toMatchObject({
      status: 422,
      body: { error: "unprocessable" },
    });
    const { body } = await fork(original, { step: "rest", version: 2, inputs: { n: 1.5 } });
    expect(await rig.client.untilState(body.run_id, "paused")).toMatchObject({ version: 2, inputs: { n: 1.5 } });
  });
});

describe("a forked run", () => {
  it("is offered by explain to runs that may be forked", async () => {
    const canOf = async (id: string) => (await rig.ask("GET", `/sagas/${id}/explain`)).body.can;
    expect(await canOf(await waiting())).toContain("fork");
    expect(await canOf(await over("order", { good: true }))).toEqual(["rerun", "fork"]);
  });

  it("of a dry run is a dry run", async () => {
    const dry = await ended(rig, "order", { inputs: { good: true }, dry_run: true });
    const { body } = await fork(dry.id, { step: "check" });
    expect(await endOf(body.run_id)).toMatchObject({ dry_run: true, state: "succeeded" });
    expect(rig.shop.of(body.run_id)).toEqual([]);
  });

  it("that is cancelled before it begins undoes what it has inherited", async () => {
    const one = { concurrency: { key: "all", limit: 1 } };
    await rig.client.publish("queued", STEPS, one);
    const original = await over("queued", { good: true });
    const holder = await waiting("queued");
    const { run_id: id } = (await fork(original, { step: "done" })).body;
    await until(async () => (await runOf(id)).paused_reason === "concurrency");
    await rig.ask("POST", `/sagas/${id}/cancel`, {});
    expect((await endOf(id)).state).toBe("cancelled");
    expect((await undoOf(id)).map(([, state]: string[]) => state)).toEqual(["done", "done"]);
    await rig.ask("POST", `/sagas/${holder}/terminate`, { reason: "the test is done" });
  });
});
