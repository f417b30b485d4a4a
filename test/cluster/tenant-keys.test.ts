// Idempotency keys of two tenants: to each of them a key that the other one has used is new, whatever it is for. Every operation of the OpenAPI
// document that takes a key is tried; one that is new has no case here and fails.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/config/package.js";
import { uuidv7 } from "../../src/ids.js";
import { ACTS } from "../faults/helping.js";
import { newRunId } from "../harness/ids.js";
import { until } from "../harness/until.js";
import { OTHER, TENANT } from "./access-rig.js";
import { type Answer, shapeOf, TwoTenants } from "./tenant-rig.js";

interface Case {
  /** Makes what the operation is for. */
  readonly path: (bearer: string) => Promise<string> | string;
  readonly body: object;
  /** Another one; absent where there is none. */
  readonly other?: object;
}

let two: TwoTenants;
beforeAll(async () => {
  two = await TwoTenants.open();
});
afterAll(() => two?.stop());

const at = (workflow: string, act: string, before?: keyof typeof ACTS) => async (bearer: string) => {
  const id = await two.rested(bearer, workflow);
  if (before) await two.act(bearer, id, before);
  return `/sagas/${id}/${act}`;
};
const actAt = (workflow: string, act: keyof typeof ACTS, other?: object, before?: keyof typeof ACTS): Case => ({
  ...{ path: at(workflow, act as string, before), body: ACTS[act] as object, ...(other && { other }) },
});
const nothing = { filter: { business_key: "none" }, action: "pause" };
const record = { record_type: "order", from_state: "new", to_state: "paid" };
const trigger = (config: object) => ({
  trigger_type: "record_transition",
  workflow_id: "ends",
  enabled: false,
  config,
});

/** What the tenant makes under the key, and what it sends to something that is its own. */
const MAKING: Readonly<Record<string, Case>> = {
  startSaga: {
    path: () => "/sagas/start",
    ...{ body: { workflow_id: "ends", inputs: { n: 1 } }, other: { workflow_id: "ends", inputs: { n: 2 } } },
  },
  createBulkJob: { path: () => "/bulk", body: nothing, other: { ...nothing, action: "cancel" } },
  publishEvent: { path: () => "/events", body: { topic: "t", payload: 1 }, other: { topic: "t", payload: 2 } },
  createTrigger: {
    path: () => "/triggers",
    ...{ body: trigger(record), other: trigger({ ...record, to_state: "sent" }) },
  },
};
const SENDING: Readonly<Record<string, Case>> = {
  cancelSaga: { path: at("waits", "cancel"), body: { reason: "enough" }, other: { reason: "no" } },
  signalSaga: { path: at("waits", "signal/go"), body: { payload: { n: 1 } }, other: { payload: { n: 2 } } },
  pauseSaga: actAt("waits", "pause", { reason: "no" }),
  resumeSaga: actAt("waits", "resume", { reason: "no" }, "pause"),
  retrySagaStep: actAt("breaks", "retry_step", { variables: { n: 2 } }),
  skipSagaStep: actAt("breaks", "skip_step", { output: 2 }),
  failSaga: actAt("breaks", "fail", { reason: "no" }),
  retrySagaCompensation: actAt("stuck", "compensations/retry"),
  skipSagaCompensation: actAt("stuck", "compensations/skip"),
  terminateSaga: actAt("stuck", "terminate", { reason: "no" }),
  releaseSaga: {
    path: async (bearer) => {
      const id = await two.rested(bearer, "waits");
      await two.locked.database.sql`
        update runs set revision = revision + 1, fence = fence + 1, paused_reason = 'quarantine',
          record = (record::jsonb || '{"quarantined": true}')::json where id = ${id}`;
      return `/sagas/${id}/release`;
    },
    body: {},
  },
  migrateSaga: actAt("waits", "migrate", { version: 2 }),
  submitUserTask: {
    path: async (bearer) => {
      const id = await two.rested(bearer, "asks");
      const { items } = await two.ask(bearer, "GET", `/sagas/${id}/user_tasks`);
      return `/sagas/${id}/user_task/${items[0].id}/submit`;
    },
    body: { result: { approved: true } },
    other: { result: { approved: false } },
  },
  stopBulkJob: { path: async (bearer) => `/bulk/${await jobOf(bearer)}/stop`, body: {} },
  resumeBulkJob: { path: async (bearer) => `/bulk/${await jobOf(bearer)}/resume`, body: {} },
};

/** The same, where what is made has an id that follows from the key. */
const DERIVING: Readonly<Record<string, Case>> = {
  forkSaga: { path: at("waits", "fork"), body: { step: "wait" }, other: { step: "wait", inputs: { n: 2 } } },
  rerunSaga: { path: at("ends", "rerun"), body: { inputs: { n: 1 } }, other: { inputs: { n: 2 } } },
  fireTrigger: {
    path: async (bearer) => `/triggers/${(await two.ask(bearer, "POST", "/triggers", trigger(record))).id}/fire`,
    ...{ body: { payload: { ...record, n: 1 } }, other: { payload: { ...record, n: 2 } } },
  },
};

async function jobOf(bearer: string): Promise<string> {
  return (await two.ask(bearer, "POST", "/bulk", nothing)).bulk_id;
}

const { paths } = JSON.parse(readFileSync(join(packageRoot(), "docs", "openapi.json"), "utf8")) as {
  readonly paths: Readonly<
    Record<string, Readonly<Record<string, { operationId: string; parameters?: readonly { name: string }[] }>>>
  >;
};
const KEYED = Object.values(paths)
  .flatMap((methods) => Object.values(methods))
  .filter(({ parameters = [] }) => parameters.some(({ name }) => name === "idempotency-key"))
  .map(({ operationId }) => operationId);

/** A repeat of a start says that it is one, and how far the run is. */
const firstOf = (id: string, { status, text, json }: Answer) =>
  id === "startSaga" ? { status, run_id: json.run_id } : { status, text };

const namesOf = (path: string) => path.replace(/[0-9a-f-]{36}/g, "<id>");
/** The same path, of things that there are not. */
const nowhere = (path: string) => path.replace(/[0-9a-f-]{36}/g, () => uuidv7());

async function tryKey(id: string, { path, body, other }: Case): Promise<void> {
  for (const theirBody of other ? [body, other] : [body]) {
    const key = uuidv7();
    const post = async (bearer: string, one: string, sent: object, under: string) =>
      two.send(bearer, "POST", one, sent, under);
    const their = await path(two.theirs);
    const first = await post(two.theirs, their, theirBody, key);
    expect([id, first.status], first.text).toEqual([id, 202 - Number(id === "createTrigger")]);
    const rows = await two.rows();
    const fresh = await post(two.own, await path(two.own), body, uuidv7());
    const own = await path(two.own);
    expect(namesOf(own)).toBe(namesOf(their));
    const used = await post(two.own, own, body, key);
    expect([id, shapeOf(used)]).toEqual([id, shapeOf(fresh)]);
    expect(firstOf(id, used)).not.toEqual(firstOf(id, first));
    expect(firstOf(id, await post(two.own, own, body, key))).toEqual(firstOf(id, used));
    if (their.includes("-")) {
      const foreign = await post(two.own, their, theirBody, key);
      expect([id, shapeOf(foreign)]).toEqual([id, shapeOf(await post(two.own, nowhere(their), theirBody, key))]);
      expect(foreign.status).toBe(404);
    }
    expect(await two.rows()).toEqual(rows);
    expect(firstOf(id, await post(two.theirs, their, theirBody, key))).toEqual(firstOf(id, first));
    expect(await two.rows()).toEqual(rows);
  }
}

describe("an idempotency key of another tenant", () => {
  it("is tried with every operation that takes one", () => {
    expect(KEYED.sort()).toEqual(Object.keys({ ...MAKING, ...DERIVING, ...SENDING, signalWithStart: {} }).sort());
  });

  it("is a new one for a signal with a start, and so is a business key: signalWithStart", async () => {
    const key = uuidv7();
    const body = { workflow_id: "waits", business_key: "shared", signal: { name: "note", payload: { n: 1 } } };
    const send = async (bearer: string) => {
      const { status, json, text } = await two.send(bearer, "POST", "/sagas/signal_with_start", body, key);
      expect(status, text).toBe(202);
      return json;
    };
    const [their, own] = [await send(two.theirs), await send(two.own)];
    expect([their.deduplicated, own.deduplicated]).toEqual([false, false]);
    expect(own.run_id).not.toBe(their.run_id);
    for (const [bearer, first] of [
      [two.theirs, their],
      [two.own, own],
    ] as const) {
      const { run_id, signal_id } = first;
      expect(await send(bearer)).toMatchObject({ run_id, signal_id, deduplicated: true });
      const { items } = await two.ask(bearer, "GET", `/sagas/${run_id}/signals`);
      expect(items).toMatchObject([{ id: signal_id, payload: { n: 1 } }]);
    }
  });

  it.each(Object.entries({ ...MAKING, ...DERIVING }))("is a new one, and what it has made stays: %s", tryKey);
  it.each(Object.entries(SENDING))("is a new one, and what it has done stays: %s", { tags: "long" }, tryKey);

  it.each(Object.entries(MAKING))(
    "is for the platform that of the tenant in the body: %s",
    async (id, { path, body }) => {
      const key = uuidv7();
      const send = async (bearer: string, more: object = {}) =>
        firstOf(id, await two.send(bearer, "POST", await path(bearer), { ...body, ...more }, key));
      const first = await send(two.theirs);
      expect(await send(two.root, { tenant_id: TENANT })).toEqual(first);
      const others = [await send(two.own), await send(two.root)];
      expect(await send(two.root, { tenant_id: OTHER })).toEqual(others[0]);
      expect(new Set([first, ...others].map((one) => JSON.stringify(one))).size).toBe(3);
    },
  );

  it("is a new one where a run starts another under it", async () => {
    const spawn = {
      id: "spawn",
      type: "spawn_saga",
      workflow_id: "ends",
      idempotency_key: "${inputs.key}",
      next: "end",
    };
    await two.publish("spawns", [spawn, { id: "end", type: "end", output: "${vars.spawn.run_id}" }]);
    const key = uuidv7();
    const spawned = async (bearer: string) => {
      // Of one shard, which the ids of what they start have, too.
      const id = await two.rested(bearer, "spawns", { run_id: newRunId(7), inputs: { key } });
      return (await two.ask(bearer, "GET", `/sagas/${id}`)).output as string;
    };
    const first = await spawned(two.theirs);
    const rows = await two.rows();
    const own = await spawned(two.own);
    expect(own).not.toBe(first);
    expect((await two.send(two.own, "GET", `/sagas/${first}`)).status).toBe(404);
    await until(async () => (await two.ask(two.own, "GET", `/sagas/${own}`)).state === "succeeded");
    expect(await two.rows()).toEqual(rows);
    expect([await spawned(two.own), await spawned(two.theirs)]).toEqual([own, first]);
  });
});
