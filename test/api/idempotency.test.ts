// Idempotency keys as requests carry them: in a header or in a body, scoped to what the request is sent to. What a repeat gets is
// decided by the run: test/run/idempotency.test.ts.
import { describe, expect, it } from "vitest";
import { shardOf } from "../../src/ids.js";
import { defaultAnswer, insertRun, useRig } from "./rig.js";

const rig = useRig();
const KEY = { "idempotency-key": "k1" };
const asked = () => rig.asked.at(-1);

async function command(url: string, body?: unknown, headers: Record<string, string> = KEY) {
  const { status } = await rig.call("POST", `/api/v1/sagas/${url}`, body, headers);
  return { status, ...asked() };
}

async function openTask(runId: string): Promise<string> {
  const id = "0190a000-0000-7000-8000-0000000000bb";
  await rig.database.sql`
    insert into user_tasks (id, run_id, step_id, assignee) values (${id}, ${runId}, 'ask', 'ann') on conflict (id) do nothing`;
  return id;
}

const ACTED = { type: "acted", state: "paused", changed: true } as const;

describe("an Idempotency-Key", () => {
  it("gives a command an id that follows from it, and is kept with the run", async () => {
    const run = await insertRun(rig);
    const task = await openTask(run);
    const seen = new Set<string>();
    for (const url of [
      `${run}/cancel`,
      `${run}/release`,
      `${run}/signal/paid`,
      `${run}/signal/sent`,
      `${run}/user_task/${task}/submit`,
    ]) {
      if (url.endsWith("release")) rig.answer = () => ACTED;
      const first = await command(url, {});
      const repeat = await command(url, {});
      expect([url, first.status]).toEqual([url, 202]);
      expect(first.options).toMatchObject({ id: expect.any(String), keep: true });
      expect(repeat.options).toEqual(first.options);
      expect(shardOf(first.options?.id ?? "")).toBe(shardOf(run));
      seen.add(first.options?.id ?? "");
      rig.answer = defaultAnswer;
    }
    // The same key, sent to another target, is another command.
    expect(seen.size).toBe(5);
    expect((await command(`${await insertRun(rig)}/cancel`, {})).options?.id).not.toBe([...seen][0]);
  });

  it("comes with a hash of what is asked, which a repeat must have too; a signal's repeat may differ", async () => {
    const run = await insertRun(rig);
    const hashOf = async (url: string, body?: unknown) => (await command(`${run}/${url}`, body)).options?.requestHash;
    expect(await hashOf("cancel", { reason: "a" })).toBe(await hashOf("cancel", { compensate: true, reason: "a" }));
    expect(await hashOf("cancel?reason=a")).toBe(await hashOf("cancel", { reason: "a" }));
    expect(await hashOf("cancel", { reason: "a" })).not.toBe(await hashOf("cancel", { reason: "b" }));
    expect(await hashOf("signal/paid", { amount: 1 })).toBeUndefined();
  });

  it("of a signal may be in its body, and is the same there; of an event too", async () => {
    const run = await insertRun(rig);
    const inHeader = await command(`${run}/signal/paid`, { payload: {} });
    const inBody = await command(`${run}/signal/paid`, { payload: {}, idempotency_key: "k1" }, {});
    expect(inBody.options).toEqual(inHeader.options);
    const event = { topic: "t", payload: 1 };
    const publish = async (body: object, headers: Record<string, string>) =>
      (await rig.call("POST", "/api/v1/events", body, headers)).body.event_id;
    expect(await publish({ ...event, idempotency_key: "k1" }, {})).toBe(await publish(event, KEY));
    expect((await rig.call("POST", "/api/v1/events", { topic: "t", payload: 2 }, KEY)).status).toBe(409);
  });

  it("in header and body must agree", async () => {
    const run = await insertRun(rig);
    const other = { idempotency_key: "k2" };
    for (const [url, body] of [
      ["sagas/start", { workflow_id: "w", ...other }],
      [`sagas/${run}/signal/paid`, { payload: {}, ...other }],
      ["events", { topic: "t", ...other }],
    ] as const) {
      const { status, body: error } = await rig.call("POST", `/api/v1/${url}`, body, KEY);
      expect([url, status, error.details?.[0].path]).toEqual([url, 400, "$.idempotency_key"]);
    }
    // A body that is the payload as a whole has no such member of its own.
    expect((await command(`${run}/signal/paid`, { amount: 1, idempotency_key: "k2" })).status).toBe(202);
  });

  it("that is malformed is 400 everywhere", async () => {
    const run = await insertRun(rig);
    for (const url of [
      "sagas/start",
      `sagas/${run}/cancel`,
      `sagas/${run}/release`,
      `sagas/${run}/signal/x`,
      "events",
    ]) {
      const body = { workflow_id: "w", topic: "t" };
      const { status } = await rig.call("POST", `/api/v1/${url}`, body, { "idempotency-key": "x".repeat(256) });
      expect([url, status]).toEqual([url, 400]);
    }
  });

  it("that is absent leaves the id to the runtime", async () => {
    const run = await insertRun(rig);
    expect((await command(`${run}/cancel`, {}, {})).options).toEqual({ reach: { tenants: "*" } });
  });
});

describe("a signal's payload", () => {
  it("that is over the limit of a step's output is 400 and names the limit", async () => {
    const run = await insertRun(rig);
    const payload = { text: "x".repeat(1024 * 1024) };
    for (const body of [payload, { payload }]) {
      const { status, body: error } = await rig.call("POST", `/api/v1/sagas/${run}/signal/paid`, body);
      expect([status, error.message]).toEqual([400, expect.stringContaining("SAGA_LIMIT_OUTPUT_BYTES")]);
    }
  });

  it("is {} without a body, the payload's own member, or the whole body", async () => {
    const run = await insertRun(rig);
    const payloadOf = async (body?: unknown) => {
      await rig.call("POST", `/api/v1/sagas/${run}/signal/paid`, body);
      const { command } = asked() ?? {};
      return command?.type === "signal" ? command.payload : undefined;
    };
    expect(await payloadOf()).toEqual({});
    expect(await payloadOf({})).toEqual({});
    expect(await payloadOf({ idempotency_key: "a" })).toEqual({});
    expect(await payloadOf({ payload: { a: 1 }, idempotency_key: "b" })).toEqual({ a: 1 });
    expect(await payloadOf({ a: 1, idempotency_key: "c" })).toEqual({ a: 1, idempotency_key: "c" });
  });
});
