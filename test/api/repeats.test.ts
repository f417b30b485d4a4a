// Repeats under an idempotency key over HTTP: the first answer, byte for byte, whatever has happened since; and what counts as the same body.
import { describe, expect, it } from "vitest";
import { defaultAnswer, insertRun, useRig, WORKFLOW } from "./rig.js";

const rig = useRig();
let keys = 0;
const newKey = () => ({ "idempotency-key": `key-${++keys}` });

/** The answer as it is on the wire. */
async function bytes(url: string, body: object | undefined, headers: Record<string, string>) {
  const type = body === undefined ? {} : { "content-type": "application/json" };
  const payload = body === undefined ? undefined : JSON.stringify(body);
  const { statusCode, body: text } = await rig.app.inject({
    ...{ method: "POST", url: `/api/v1/${url}`, headers: { ...type, ...headers } },
    ...(payload !== undefined && { payload }),
  });
  return [statusCode, text] as const;
}

const CRON = {
  trigger_type: "cron",
  workflow_id: "orders",
  config: { schedule: "*/5 * * * *", inputs: { b: 1, a: 2 } },
};

async function publishWorkflow(): Promise<void> {
  await rig.call("POST", "/api/v1/workflows", { ...WORKFLOW, id: "orders", published: true });
}

describe("a repeat gets the first answer, byte for byte", () => {
  it("of a trigger that was changed since, and has had its ticks", async () => {
    await publishWorkflow();
    const key = newKey();
    const first = await bytes("triggers", CRON, key);
    expect(first[0]).toBe(201);
    const { id } = JSON.parse(first[1]);
    await rig.database.sql`
      update triggers set last_fired_at = now(), next_fire_at = now() + interval '1 hour' where id = ${id}`;
    await rig.call("PATCH", `/api/v1/triggers/${id}`, { enabled: false, config: { schedule: "0 3 * * *" } });
    expect(await bytes("triggers", CRON, key)).toEqual(first);
  });

  it("of a fire, also where several arrive at once", async () => {
    await publishWorkflow();
    const { body } = await rig.call("POST", "/api/v1/triggers", CRON);
    const key = newKey();
    const url = `triggers/${body.id}/fire`;
    const answers = await Promise.all(Array.from({ length: 5 }, () => bytes(url, undefined, key)));
    const later = await bytes(url, undefined, key);
    expect(JSON.parse(later[1])).toMatchObject({ fire_id: expect.any(String), run_id: expect.any(String) });
    for (const answer of answers) expect(answer).toEqual(later);
    expect((await rig.call("GET", `/api/v1/triggers/${body.id}/fires`)).body.total).toBe(1);
  });

  it("of a fire whose node died before its run was durable", async () => {
    await publishWorkflow();
    const { body } = await rig.call("POST", "/api/v1/triggers", CRON);
    const key = newKey();
    const url = `triggers/${body.id}/fire`;
    const first = await bytes(url, undefined, key);
    // As the node left it that decided the fire.
    await rig.database.sql`
      update trigger_fires set resulting_run_id = null, inputs = '{}', due_at = now() + interval '10 seconds'
      where trigger_id = ${body.id}`;
    expect(await bytes(url, undefined, key)).toEqual(first);
  });

  it("of a bulk job, of its stop and of its resume, while other stops and resumes come between", async () => {
    await insertRun(rig, { workflow_id: "many" });
    const [made, stopped, resumed] = [newKey(), newKey(), newKey()];
    const job = { filter: { workflow_id: "many" }, action: "pause" };
    const first = await bytes("bulk", job, made);
    expect(JSON.parse(first[1]).matched).toBe(1);
    const { bulk_id: id } = JSON.parse(first[1]);
    const stop = await bytes(`bulk/${id}/stop`, undefined, stopped);
    const resume = await bytes(`bulk/${id}/resume`, undefined, resumed);
    expect([JSON.parse(stop[1]), JSON.parse(resume[1])]).toMatchObject([
      { state: "stopped", changed: true },
      { state: "running", changed: true },
    ]);
    const repeats = await Promise.all(Array.from({ length: 4 }, () => bytes(`bulk/${id}/stop`, undefined, stopped)));
    for (const repeat of repeats) expect(repeat).toEqual(stop);
    expect(await bytes(`bulk/${id}/resume`, {}, resumed)).toEqual(resume);
    expect((await rig.call("GET", `/api/v1/bulk/${id}`)).body.state, "a repeat changes nothing").toBe("running");
    expect(await bytes("bulk", job, made)).toEqual(first);
    const concurrent = newKey();
    const all = await Promise.all(Array.from({ length: 4 }, () => bytes(`bulk/${id}/stop`, undefined, concurrent)));
    for (const answer of all) expect(answer).toEqual([202, expect.stringContaining('"changed":true')]);
  });

  it("of an event", async () => {
    const key = newKey();
    const [first, repeat] = [await bytes("events", { topic: "t" }, key), await bytes("events", { topic: "t" }, key)];
    expect(repeat).toEqual(first);
  });
});

describe("a body that spells a default out is the same", () => {
  it("of an event, a trigger and a bulk job", async () => {
    await publishWorkflow();
    const { config } = CRON;
    const spelled = { ...config, overlap_policy: "allow", catchup: "latest", catchup_window_ms: 3_600_000 };
    for (const [url, body, ...same] of [
      [
        "events",
        { topic: "t" },
        { topic: "t", headers: {}, payload: {} },
        { topic: "t", headers: null, payload: null },
      ],
      [
        ...["triggers", CRON, { ...CRON, enabled: true, version: null, tenant_id: null }],
        { ...CRON, config: spelled },
        { ...CRON, config: { ...config, catchup: null } },
      ],
      [
        ...["bulk", { filter: { workflow_id: "w" }, action: "cancel" }],
        { filter: { workflow_id: "w", state: null }, action: "cancel", params: {}, limit: 10_000 },
        { filter: { workflow_id: "w" }, action: "cancel", params: { compensate: true, reason: null }, limit: null },
      ],
    ] as const) {
      const key = newKey();
      const first = await bytes(url as string, body as object, key);
      expect(first[0]).toBeLessThan(300);
      for (const each of same) expect((await bytes(url as string, each as object, key))[0]).toBe(first[0]);
    }
  });

  it("of an act and of a migration: the hash is that of the shorter body", async () => {
    const run = await insertRun(rig);
    rig.answer = (command) =>
      command.type === "cancel" ? defaultAnswer(command) : { type: "acted", state: "paused", changed: true };
    const hashOf = async (url: string, body: object) => {
      await rig.call("POST", `/api/v1/sagas/${run}/${url}`, body, { "idempotency-key": "hash" });
      return rig.asked.at(-1)?.options;
    };
    for (const [url, body, spelled] of [
      ["retry_step", {}, { variables: {} }],
      ["skip_step", {}, { output: null }],
      ["pause", {}, { reason: null }],
      ["cancel", {}, { compensate: true, reason: null }],
      ["migrate", { version: 2 }, { version: 2, steps: {}, check: false }],
    ] as const) {
      const [short, long] = [await hashOf(url, body), await hashOf(url, spelled)];
      expect([url, long?.requestHash]).toEqual([url, short?.requestHash]);
    }
  });
});
