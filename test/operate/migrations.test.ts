// Moving runs to another version, on a real node over HTTP: the act, the check, the report, a bulk job, and what clients see of it.
import { beforeAll, describe, expect, it } from "vitest";
import { uuidv7 } from "../../src/ids.js";
import { until } from "../harness/until.js";
import { useNode } from "./rig.js";

const rig = useNode();

const charge = (id: string, more: object = {}) => ({
  ...{ id, type: "action", action: "shop.charge", compensation: { action: "shop.refund" }, ...more },
});
const go = (id: string, more: object = {}) => ({ id, type: "wait_for_signal", signal_name: "go", ...more });
const last = (output: unknown) => ({ id: "last", type: "end", output });

beforeAll(async () => {
  const { client } = rig;
  await client.publish("order", [charge("pay", { next: "hold" }), go("hold", { next: "last" }), last("old")]);
  const two = [{ id: "pay", type: "noop", next: "wait" }, go("wait", { next: "last" }), last("${vars.wait}")];
  await client.publish("order", two, { version: 2, migrations: { 1: { hold: "wait" } } });
  await client.publish("order", [go("stop", { signal_name: "stop" }), last("other")], { version: 3 });
  await rig.ask("POST", "/workflows", { id: "order", name: "order", version: 4, start: "last", steps: [last(1)] });
});

async function waiting(more: object = {}): Promise<string> {
  const runId = await rig.client.start("order", { version: 1, ...more });
  await until(async () => (await rig.client.run(runId)).paused_reason === "signal", { what: "a run that waits" });
  return runId;
}

const migrate = (runId: string, body: object, key?: string) => rig.ask("POST", `/sagas/${runId}/migrate`, body, key);
const counts = async (label: string) => {
  const { body } = await rig.ask("GET", `/sagas/counts?workflow_id=order&label.of=${label}`);
  return body.items.map(({ version, state, count }: Record<string, unknown>) => [version, state, count]);
};

const REASONS = [{ path: "$.steps", message: 'version 3 has no step "hold"' }];

describe("the act", () => {
  it("lets the run go on under the other version, at once and for all who look", async () => {
    const of = uuidv7();
    const runId = await waiting({ labels: { of } });
    expect(await counts(of)).toEqual([[1, "paused", 1]]);
    expect(await migrate(runId, { version: 2 })).toMatchObject({
      ...{ status: 202, body: { run_id: runId, state: "paused", changed: true } },
    });
    expect(await rig.client.run(runId)).toMatchObject({ version: 2, current_step: "wait", awaited_signal: "go" });
    expect(await counts(of)).toEqual([[2, "paused", 1]]);
    const { body } = await rig.ask("GET", `/sagas/${runId}/events`);
    expect(body.items.at(-1)).toMatchObject({
      ...{ event_type: "log", step_id: "wait", actor: "api" },
      metadata: { kind: "migrate", by: "api", from_version: 1, version: 2, renamed: { hold: "wait" } },
    });
    await rig.ask("POST", `/sagas/${runId}/signal/go`, { payload: { by: "ann" } });
    const { body: run } = await rig.ask("GET", `/sagas/${runId}?wait_ms=30000`);
    expect(run).toMatchObject({ state: "succeeded", version: 2, output: { by: "ann" } });
    expect(await counts(of)).toEqual([[2, "succeeded", 1]]);
  });

  it("what was done before is undone by the action that was recorded", async () => {
    const runId = await waiting();
    await migrate(runId, { version: 2 });
    await rig.ask("POST", `/sagas/${runId}/cancel`);
    await rig.ask("GET", `/sagas/${runId}?wait_ms=30000`);
    const { body } = await rig.ask("GET", `/sagas/${runId}/undo`);
    expect(body.items).toMatchObject([{ step_id: "pay", action: "shop.refund@1", state: "done" }]);
  });

  it("that is refused is 409 with every reason, and changes nothing", async () => {
    const runId = await waiting();
    const before = await rig.client.look(runId);
    const { status, body } = await migrate(runId, { version: 3, steps: { hole: "stop" } });
    const suggestion = { path: "$.steps.hole", message: 'version 1 has no step "hole" (did you mean "hold"?)' };
    expect([status, body.error, body.details]).toEqual([409, "conflict", [suggestion, ...REASONS]]);
    expect(body.message).toBe(`the run cannot go on under version 3: ${suggestion.message} (and 1 more)`);
    expect(await rig.client.look(runId)).toEqual(before);
  });

  it("of an ended run, or to its own version, is what an act is then", async () => {
    const runId = await waiting();
    expect(await migrate(runId, { version: 1 })).toMatchObject({ status: 202, body: { changed: false } });
    await rig.ask("POST", `/sagas/${runId}/terminate`, { reason: "enough" });
    expect(await migrate(runId, { version: 2 })).toMatchObject({ status: 409, body: { message: "the run has ended" } });
    const reasons = [{ message: "the run has ended" }];
    for (const version of [1, 2])
      expect((await migrate(runId, { version, check: true })).body).toEqual({ allowed: false, reasons });
  });

  it("to a version that is not there, or not published, is 404", async () => {
    const runId = await waiting();
    for (const version of [4, 9]) {
      const { status, body } = await migrate(runId, { version });
      expect([status, body.message]).toEqual([404, `there is no published version ${version} of the workflow order`]);
      expect((await migrate(runId, { version, check: true })).status).toBe(404);
    }
    expect((await migrate(uuidv7(), { version: 2 })).status).toBe(404);
  });

  it("is one act under one key, and the runs that follow it are moved again under another", async () => {
    const runId = await waiting();
    const key = uuidv7();
    const first = await migrate(runId, { version: 2 }, key);
    expect(first.status).toBe(202);
    expect((await migrate(runId, { version: 1, steps: { wait: "hold" } })).body.changed).toBe(true);
    expect((await migrate(runId, { version: 2 }, key)).body).toEqual(first.body);
    expect((await migrate(runId, { version: 1 }, key)).status).toBe(409);
    expect(await rig.client.run(runId)).toMatchObject({ version: 1, current_step: "hold" });
  });
});

describe("a check", () => {
  it("only tells, of one run", async () => {
    const runId = await waiting();
    const before = await rig.client.look(runId);
    expect(await migrate(runId, { version: 2, check: true })).toMatchObject({
      ...{ status: 200, body: { allowed: true, reasons: [] } },
    });
    const { status, body } = await migrate(runId, { version: 3, check: true });
    expect([status, body]).toEqual([200, { allowed: false, reasons: REASONS }]);
    expect(await rig.client.look(runId)).toEqual(before);
  });

  it("of a workflow reports how many runs could move, and why the others cannot", async () => {
    await rig.client.publish("many", [go("a", { next: "b" }), go("b", { signal_name: "next" })]);
    await rig.client.publish("many", [go("a", { next: "c" }), go("c", { signal_name: "next" })], { version: 2 });
    const begin = async (step: "a" | "b") => {
      const runId = await rig.client.start("many", { version: 1 });
      await until(async () => (await rig.client.run(runId)).paused_reason === "signal");
      if (step === "b") await rig.ask("POST", `/sagas/${runId}/signal/go`, {});
      return runId;
    };
    const first = [await begin("a"), await begin("a")];
    const second = [await begin("b"), await begin("b"), await begin("b")];
    await rig.client.start("many", { version: 2 });
    const report = async (body: object) => (await rig.ask("POST", "/workflows/many/migrations/check", body)).body;
    await until(async () => (await report({ version: 2 })).movable === first.length);
    const reason = { path: "$.steps", message: 'version 2 has no step "b"', count: 3, run_ids: second };
    expect(await report({ version: 2 })).toEqual({ matched: 5, movable: 2, refused: 3, reasons: [reason] });
    expect(await report({ version: 2, from_version: 1, steps: { b: "c" } })).toMatchObject({ movable: 5, reasons: [] });
    expect(await report({ version: 2, from_version: 3 })).toMatchObject({ matched: 0 });
    expect(await report({ version: 1, limit: 1 })).toMatchObject({ matched: 1 });
    expect(await report({ version: 2, limit: 4 })).toMatchObject({ matched: 4, truncated: true });
    expect((await rig.ask("POST", "/workflows/many/migrations/check", { version: 7 })).status).toBe(404);
    // As a node of a later version would leave it. It does not keep the others out of the report.
    await rig.database.sql`
      update runs set record = jsonb_set(record::jsonb, '{v}', '99')::json where id = ${first[0] ?? ""}`;
    expect(await report({ version: 2 })).toMatchObject({ matched: 5, movable: 1 });
    expect((await migrate(first[0] ?? "", { version: 2, check: true })).status).toBe(503);
  });
});

describe("in bulk", () => {
  it("every run that may move is moved, and the reasons of the others are listed", async () => {
    const of = uuidv7();
    const runIds = await Promise.all([1, 2, 3].map(() => waiting({ labels: { of } })));
    await rig.ask("POST", `/sagas/${runIds[0]}/signal/go`, {});
    await until(async () => (await rig.client.run(runIds[0] ?? "")).state === "succeeded");
    const job = async (params: object) => {
      const filter = { "label.of": of };
      const { body } = await rig.ask("POST", "/bulk", { filter, action: "migrate", params });
      return (await rig.ask("GET", `/bulk/${body.bulk_id}?wait_ms=30000`)).body;
    };
    const refused = await job({ version: 3 });
    expect(refused).toMatchObject({ matched: 3, done: 0, refused: 3 });
    const messages = refused.refusals.map(({ message }: { message: string }) => message).sort();
    expect(messages[0]).toBe("the run has ended");
    expect(messages[1]).toBe('version 3 has no step "hold"');
    expect(await job({ version: 2 })).toMatchObject({ done: 2, refused: 1 });
    expect(await counts(of)).toEqual([
      [1, "succeeded", 1],
      [2, "paused", 2],
    ]);
  });

  it("a check is refused: a job changes runs", async () => {
    const params = { version: 2, check: true };
    const { status, body } = await rig.ask("POST", "/bulk", { filter: {}, action: "migrate", params });
    expect([status, body.details]).toEqual([400, [{ path: "$.params.check", message: "must not be true" }]]);
    expect((await rig.ask("POST", "/bulk", { filter: {}, action: "migrate" })).status).toBe(400);
  });
});
