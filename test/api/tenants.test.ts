// Commands over HTTP with access on: each has the reach and the actor of its credential, what is made is of its tenant, and what is another's is
// answered as what exists nowhere. What a run does with a reach is test/run/reach.test.ts.
import type { FastifyInstance } from "fastify";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { RunId } from "../../machines/index.js";
import { derivedUuid, uuidv7 } from "../../src/ids.js";
import { SHARDS } from "../../src/shard/placement.js";
import { revokeKey } from "../../src/store/lists/api-keys.js";
import { createJob, revokeJobsOf, runningJobs } from "../../src/store/lists/bulk-jobs.js";
import { newRunId } from "../harness/ids.js";
import { verifierOf } from "../harness/verifier.js";
import { defaultAnswer, insertRun, otherApi, useRig } from "./rig.js";

const [TENANT, OTHER] = ["0190a000-0000-7000-8000-0000000000f1", "0190a000-0000-7000-8000-0000000000f2"];
const rig = useRig();
const verifier = verifierOf({
  ann: { roles: ["operator"], tenantId: TENANT },
  bob: { roles: ["operator"], tenantId: OTHER },
  clerk: { roles: ["operator"], tenantId: TENANT, workflows: ["billing.*"] },
  wide: { roles: ["operator"], tenantId: TENANT, workflows: ["*"] },
  author: { roles: ["author"], tenantId: TENANT },
  root: { roles: ["operator", "platform"] },
  boss: { roles: ["admin"], tenantId: TENANT },
  billing: { roles: ["admin"], tenantId: TENANT, workflows: ["billing.*"] },
  some: { roles: ["operator", "platform"], tenants: [TENANT, OTHER] },
});
let app: FastifyInstance;
/** Lines of the security log. */
const logged: unknown[][] = [];
const SECURITY = { did: (...line: unknown[]) => logged.push(line), refused: () => {} };

beforeAll(async () => {
  app = await otherApi(rig, {}, { verifier, security: SECURITY as never });
});
afterAll(() => app?.close());
beforeEach(() => {
  rig.asked.length = 0;
  rig.started.length = 0;
  rig.answer = (command) =>
    /^(pause|resume|retry_|skip_|fail$|terminate|migrate|release)/.test(command.type)
      ? { type: "acted", state: "paused", changed: true }
      : defaultAnswer(command);
});

interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of any shape.
  readonly body: any;
  readonly headers: Readonly<Record<string, unknown>>;
}

async function post(
  who: string,
  url: string,
  body: unknown = {},
  headers: Record<string, string> = {},
): Promise<Answer> {
  const authorization = { authorization: `Bearer ${who}` };
  const response = await app.inject({
    ...{ method: "POST", url: `/api/v1${url}`, payload: JSON.stringify(body) },
    headers: { "content-type": "application/json", ...authorization, ...headers },
  });
  return { status: response.statusCode, body: response.json(), headers: response.headers };
}

const keyed = (key: string) => ({ "idempotency-key": key });

/** Without what differs from request to request. */
function shown({ status, body: { request_id: _, ...body } }: Answer, id: string) {
  return JSON.parse(JSON.stringify({ status, body }).replaceAll(id, "<id>"));
}

const ACTS: readonly (readonly [string, object?])[] = [
  ["cancel"],
  ["signal/go"],
  ["pause"],
  ["resume"],
  ["retry_step"],
  ["skip_step"],
  ["fail"],
  ["compensations/retry"],
  ["compensations/skip"],
  ["terminate", { reason: "no" }],
  ["release"],
  ["migrate", { version: 2 }],
];

describe("a command over HTTP", () => {
  it.each(ACTS)("has the reach and the actor of its credential: %s", async (act, body = {}) => {
    const runId = newRunId();
    for (const headers of [{}, keyed(`${act}/${runId}`)]) await post("clerk", `/sagas/${runId}/${act}`, body, headers);
    expect(rig.asked).toHaveLength(2);
    for (const { command, options } of rig.asked) {
      expect(command).toMatchObject({ actor: "user:clerk" });
      expect(options?.reach.tenants).toEqual([TENANT]);
      expect(options?.reach.workflows?.texts).toEqual(["billing.*"]);
    }
    await post("root", `/sagas/${runId}/${act}`, body);
    expect(rig.asked.at(-1)?.options?.reach).toEqual({ tenants: "*" });
  });

  it("names an undo of another tenant's run as one of a run that does not exist", async () => {
    const runId = await insertRun(rig, { tenant_id: TENANT });
    await rig.database.sql`
      insert into undo (owner_run_id, step_id, entry, action, forward_idempotency_key, state)
      values (${runId}, 's', 1, 'shop.refund@1', 'k', 'owed')`;
    for (const act of ["retry", "skip"]) {
      const ask = (who: string, id: string) => post(who, `/sagas/${id}/compensations/${act}`, { ordinal: 1 });
      const nowhere = newRunId();
      const hidden = shown(await ask("bob", runId), runId);
      expect([hidden.status, hidden]).toEqual([404, shown(await ask("bob", nowhere), nowhere)]);
      expect((await ask("ann", runId)).status).toBe(202);
    }
  });

  it("says nothing of how another tenant's run could be migrated", async () => {
    const runId = await insertRun(rig, { tenant_id: TENANT });
    const nowhere = newRunId();
    const check = (who: string, id: string) => post(who, `/sagas/${id}/migrate`, { version: 2, check: true });
    expect(shown(await check("bob", runId), runId)).toEqual(shown(await check("bob", nowhere), nowhere));
    expect(shown(await check("clerk", runId), runId)).toEqual(shown(await check("clerk", nowhere), nowhere));
  });
});

describe("a submit", () => {
  async function task(tenant_id?: string): Promise<{ runId: RunId; id: string }> {
    const runId = await insertRun(rig, { ...(tenant_id && { tenant_id }), workflow_id: "forms" });
    const id = uuidv7();
    await rig.database.sql`
      insert into user_tasks (id, run_id, step_id, assignee, opened_at) values (${id}, ${runId}, 's', 'ann', now())`;
    return { runId, id };
  }
  const submit = (who: string, { runId, id }: { runId: string; id: string }, body: object) =>
    post(who, `/sagas/${runId}/user_task/${id}/submit`, body);

  it("of another tenant's task is answered as of a task that does not exist", async () => {
    const foreign = await task(TENANT);
    for (const who of ["bob", "clerk"]) {
      const nowhere = { ...foreign, id: uuidv7() };
      const answers = [await submit(who, foreign, {}), await submit(who, nowhere, {})] as const;
      expect(answers[0].status).toBe(404);
      expect(shown(answers[0], foreign.id)).toEqual(shown(answers[1], nowhere.id));
    }
    expect(rig.asked).toEqual([]);
  });

  it("is whose the credential is, and the answer says that the body was not believed", async () => {
    const own = await task(TENANT);
    const cases: readonly (readonly [object, string | undefined])[] = [
      [{ result: { n: 1 }, submitted_by: "the boss" }, "submitted_by"],
      [{ n: 1, submitted_by: "the boss" }, "submitted_by"],
      [{ result: { n: 1 }, submitted_by: "the boss", other: 1 }, "other, submitted_by"],
      [{ result: { n: 1 }, submitted_by: "user:ann" }, undefined],
      [{ result: { n: 1 } }, undefined],
    ];
    for (const [body, ignored] of cases) {
      const { status, headers } = await submit("ann", own, body);
      expect([status, headers["saga-ignored-fields"]]).toEqual([202, ignored]);
      expect(rig.asked.at(-1)?.command).toMatchObject({ submittedBy: "user:ann", actor: "user:ann" });
    }
  });
});

describe("a start", () => {
  const start = (who: string, body: object = {}) => post(who, "/sagas/start", { workflow_id: "orders", ...body });

  it("is of the tenant of its credential, and says who started it", async () => {
    for (const body of [{}, { tenant_id: TENANT }, { tenant_id: TENANT.toUpperCase() }])
      expect((await start("ann", body)).status).toBe(202);
    expect(rig.started.map(({ tenantId, actor }) => [tenantId, actor])).toEqual(Array(3).fill([TENANT, "user:ann"]));
  });

  it("for another tenant is refused", async () => {
    for (const who of ["ann", "clerk"]) {
      const { status, body } = await start(who, { tenant_id: OTHER });
      expect([status, body.error]).toEqual([403, "forbidden"]);
    }
    expect(rig.started).toEqual([]);
  });

  it("of the platform is of the tenant that it names, or of none", async () => {
    expect((await start("root", { tenant_id: OTHER })).status).toBe(202);
    expect((await start("root")).status).toBe(202);
    expect(rig.started.map(({ tenantId }) => tenantId)).toEqual([OTHER, undefined]);
  });

  it("of a platform for some tenants names one of them", async () => {
    expect((await start("some", { tenant_id: OTHER })).status).toBe(202);
    for (const tenant of [{}, { tenant_id: uuidv7() }]) expect((await start("some", tenant)).status).toBe(403);
    expect(rig.started.map(({ tenantId }) => tenantId)).toEqual([OTHER]);
  });

  it("of a workflow beyond the narrowing is answered as of one that does not exist, also under a known key", async () => {
    const beyond = await start("clerk", { idempotency_key: "k" });
    expect([beyond.status, beyond.body.message]).toEqual([404, "there is no published workflow orders"]);
    expect((await start("clerk", { version: 3 })).body.message).toBe("there is no published workflow orders version 3");
    expect(rig.started).toEqual([]);
    expect((await start("clerk", { workflow_id: "billing.late" })).status).toBe(202);
  });

  it("cannot take an id that the service derives", async () => {
    const run_id = derivedUuid("a run of a trigger");
    const { status, body } = await start("ann", { run_id });
    expect([status, body.details?.[0].path]).toEqual([400, "$.run_id"]);
    expect((await start("ann", { run_id: uuidv7() })).status).toBe(202);
    // With access off it may, as before.
    expect((await rig.call("POST", "/api/v1/sagas/start", { workflow_id: "orders", run_id })).status).toBe(202);
  });
});

describe("a rerun", () => {
  it("of another tenant's run is answered as of a run that does not exist", async () => {
    const terminal_at = new Date().toISOString();
    const runId = await insertRun(rig, { tenant_id: TENANT, state: "succeeded", terminal_at });
    for (const who of ["bob", "clerk"]) {
      const nowhere = newRunId();
      const [foreign, unknown] = [await post(who, `/sagas/${runId}/rerun`), await post(who, `/sagas/${nowhere}/rerun`)];
      expect(foreign.status).toBe(404);
      expect(shown(foreign, runId)).toEqual(shown(unknown, nowhere));
    }
    expect((await post("ann", `/sagas/${runId}/rerun`)).status).toBe(202);
    expect(rig.started).toMatchObject([{ tenantId: TENANT, actor: "user:ann", rerunOf: runId }]);
  });
});

describe("an event", () => {
  const publish = (who: string, body: object) => post(who, "/events", body);
  const stored = (topic: string) =>
    rig.database.sql`select tenant_id from events where topic = ${topic} order by ordinal`;

  it("is of the tenant of its credential, or of the one that the platform names", async () => {
    const topic = `of-tenant.${uuidv7()}`;
    for (const [who, body] of [
      ["ann", {}],
      ["root", { tenant_id: OTHER }],
      ["root", {}],
    ] as const)
      expect((await publish(who, { topic, ...body })).status).toBe(202);
    expect(await stored(topic)).toMatchObject([{ tenant_id: TENANT }, { tenant_id: OTHER }, { tenant_id: null }]);
  });

  it("for another tenant is refused, and so is every event of a narrowed credential", async () => {
    const topic = `refused.${uuidv7()}`;
    const answers = [await publish("ann", { topic, tenant_id: OTHER }), await publish("clerk", { topic })];
    expect(answers.map(({ status, body }) => [status, body.error])).toEqual(Array(2).fill([403, "forbidden"]));
    expect(await stored(topic)).toHaveLength(0);
  });

  it("may come from a credential whose workflows are all of them", async () => {
    const topic = `all.${uuidv7()}`;
    expect((await publish("wide", { topic })).status).toBe(202);
    expect(await stored(topic)).toMatchObject([{ tenant_id: TENANT }]);
  });

  it("has its key within its tenant: a repeat is a repeat, and another tenant's key is another", async () => {
    const body = { topic: `keyed.${uuidv7()}`, idempotency_key: uuidv7() };
    const sent = async (who: string, more: object = {}) => (await publish(who, { ...body, ...more })).body.event_id;
    const first = await sent("ann");
    expect(await sent("ann")).toBe(first);
    expect(await sent("root", { tenant_id: TENANT })).toBe(first);
    const others = [await sent("bob"), await sent("root")];
    expect(new Set([first, ...others]).size).toBe(3);
    expect([await sent("bob"), await sent("root")]).toEqual(others);
    expect((await publish("ann", { ...body, payload: { n: 1 } })).status).toBe(409);
    expect((await publish("bob", { ...body, payload: { n: 1 } })).status).toBe(409);
  });

  it.each(["saga-tenant", "Saga-Tenant", "SAGA-TENANT"])(
    "cannot have the header %s, also with access off",
    async (name) => {
      const body = { topic: "headers", headers: { [name]: OTHER } };
      for (const { status, body: error } of [
        await publish("ann", body),
        await rig.call("POST", "/api/v1/events", body),
      ])
        expect([status, error.details[0].path]).toEqual([400, `$.headers["${name}"]`]);
    },
  );
});

describe("the evaluation of a rule", () => {
  const evaluate = (who: string, rule: string, body: object = {}) =>
    post(who, `/rules/${rule}/evaluate`, { inputs: {}, ...body });

  beforeAll(async () => {
    const rows = [{ when: "true", then: { ok: true } }];
    const rule = { version: 1, name: "r", rule_type: "decision_table", spec: { hit_policy: "first", rows } };
    for (const [rule_id, tenant] of [["theirs", { tenant_id: TENANT }] as const, ["everyones", {}] as const])
      expect(
        (await rig.call("POST", "/api/v1/rules", { rule_id, ...rule, ...tenant, published: true })).body,
      ).toMatchObject({ published: true });
  });

  it("is for the tenant of the credential", async () => {
    expect((await evaluate("ann", "theirs")).status).toBe(200);
    expect((await evaluate("bob", "everyones")).status).toBe(200);
    const [foreign, unknown] = [await evaluate("bob", "theirs"), await evaluate("bob", "nowhere")];
    expect(foreign.status).toBe(404);
    expect(shown(foreign, "theirs")).toEqual(shown(unknown, "nowhere"));
  });

  it("for another tenant is refused, and the platform names the tenant", async () => {
    expect((await evaluate("bob", "theirs", { tenant_id: TENANT })).status).toBe(403);
    expect((await evaluate("root", "theirs", { tenant_id: TENANT })).status).toBe(200);
  });
});

describe("a document", () => {
  it.each(["workflows", "rules"])("was created by whom the credential names, whatever it says (%s)", async (kind) => {
    const body = (id: string) =>
      kind === "workflows"
        ? { id, name: "w", start: "s", steps: [{ id: "s", type: "noop" }] }
        : {
            ...{ rule_id: id, name: "r", rule_type: "decision_table" },
            spec: { hit_policy: "first", rows: [{ when: "true", then: {} }] },
          };
    const id = () => `by.${uuidv7()}`;
    for (const [created_by, ignored] of [
      [undefined, undefined],
      ["the boss", "created_by"],
      ["user:author", undefined],
    ]) {
      const stored = await post("author", `/${kind}`, { ...body(id()), ...(created_by && { created_by }) });
      expect([stored.status, stored.body.created_by]).toEqual([201, "user:author"]);
      expect(stored.headers["saga-ignored-fields"]).toBe(ignored);
    }
    expect((await post("author", `/${kind}`, { ...body(id()), created_by: 7 })).status).toBe(400);
    // With access off nothing else is known.
    const off = await rig.call("POST", `/api/v1/${kind}`, { ...body(id()), created_by: "the boss" });
    expect(off.body.created_by).toBe("the boss");
  });

  it("of a trigger may say who created it: it is whom the credential names, and a repeat is one whatever it says", async () => {
    const workflow = { id: `by.${uuidv7()}`, name: "w", start: "s", steps: [{ id: "s", type: "noop" }] };
    await post("author", "/workflows", { ...workflow, published: true });
    const trigger = { trigger_type: "cron", workflow_id: workflow.id, config: { schedule: "0 3 * * *" } };
    const key = keyed(uuidv7());
    const ids = new Set<string>();
    for (const [more, ignored] of [
      [{}, undefined],
      [{ created_by: "the boss" }, "created_by"],
      [{ created_by: "user:author" }, undefined],
      [{ created_by: null }, undefined],
    ] as const) {
      const stored = await post("author", "/triggers", { ...trigger, ...more }, key);
      expect([stored.status, stored.body.created_by]).toEqual([201, "user:author"]);
      expect(stored.headers["saga-ignored-fields"]).toBe(ignored);
      ids.add(stored.body.id);
    }
    expect(ids.size).toBe(1);
    for (const more of [{ created_by: 7 }, { created_at: "2026-11-21T00:00:00Z" }, { id: uuidv7() }])
      expect((await post("author", "/triggers", { ...trigger, ...more })).status).toBe(400);
    // With access off it is no one's.
    const off = await rig.call("POST", "/api/v1/triggers", { ...trigger, created_by: "the boss" });
    expect(off).toMatchObject({
      status: 201,
      body: { created_by: "api" },
      headers: { "saga-ignored-fields": "created_by" },
    });
  });
});

describe("erasing", () => {
  const erase = async (who: string, id: string) => {
    const headers = { authorization: `Bearer ${who}` };
    const { statusCode, body } = await app.inject({ method: "DELETE", url: `/api/v1/sagas/${id}`, headers });
    return { status: statusCode, body: body && JSON.parse(body), headers: {} };
  };
  const endedRun = async (workflow_id: string, tenant_id: string) => {
    const id = await insertRun(rig, { workflow_id, tenant_id });
    await rig.database.sql`update runs set state = 'succeeded', terminal_at = now() where id = ${id}`;
    return id;
  };

  it("is an admin's of the tenant and the workflow, and is logged", async () => {
    const [own, foreign, nowhere] = [await endedRun("orders", TENANT), await endedRun("orders", OTHER), newRunId()];
    expect((await erase("author", own)).status).toBe(403);
    const absent = shown(await erase("boss", nowhere), nowhere);
    expect(absent.status).toBe(404);
    expect(shown(await erase("boss", foreign), foreign)).toEqual(absent);
    expect(shown(await erase("billing", own), own)).toEqual(absent);
    logged.length = 0;
    expect((await erase("boss", own)).status).toBe(204);
    expect(logged).toEqual([["run erased", expect.anything(), expect.objectContaining({ run_id: own })]]);
    expect(shown(await erase("boss", own), own)).toEqual(absent);
    const rows = await rig.database
      .sql`select erased_by, tenant_id from erased_runs where run_id = any(${[own, foreign]}::uuid[])`;
    expect(rows).toEqual([{ erased_by: "user:boss", tenant_id: TENANT }]);
  });
});

describe("a bulk job", () => {
  const label = uuidv7();
  const runs: { own: RunId[]; narrow: RunId[]; foreign: RunId[]; none: RunId[] } = {
    ...{ own: [], narrow: [], foreign: [], none: [] },
  };
  const filter = { business_key: label };
  const pauseAll = (who: string, more: object = {}, headers = {}) =>
    post(who, "/bulk", { filter, action: "pause", ...more }, headers);
  const targets = async (id: string) =>
    (await rig.database.sql<{ run_id: RunId }[]>`select run_id from bulk_targets where bulk_id = ${id}`)
      .map(({ run_id }) => run_id)
      .sort();

  beforeAll(async () => {
    const run = (workflow_id: string, tenant_id?: string) =>
      insertRun(rig, { business_key: label, workflow_id, ...(tenant_id && { tenant_id }) });
    runs.own = [await run("orders", TENANT), await run("orders", TENANT)];
    runs.narrow = [await run("billing.late", TENANT)];
    runs.foreign = [await run("orders", OTHER)];
    runs.none = [await run("orders")];
  });

  it("cannot reach further than its creator, whatever its filter says", async () => {
    const { own, narrow, foreign, none } = runs;
    const all: readonly (readonly [string, object, RunId[]])[] = [
      ["ann", {}, [...own, ...narrow]],
      ["ann", { filter: { ...filter, tenant_id: OTHER } }, []],
      ["clerk", {}, narrow],
      ["bob", {}, foreign],
      ["root", {}, [...own, ...narrow, ...foreign, ...none]],
      ["root", { tenant_id: OTHER }, foreign],
    ];
    for (const [who, more, expected] of all) {
      const { status, body } = await pauseAll(who, more);
      expect([who, status, body.matched]).toEqual([who, 202, expected.length]);
      expect(await targets(body.bulk_id)).toEqual([...expected].sort());
    }
  });

  it("that erases is an admin's", async () => {
    const erasing = (who: string, filter: object) => post(who, "/bulk", { filter, action: "erase" });
    const none = { business_key: uuidv7() };
    expect(await erasing("ann", none)).toMatchObject({
      status: 403,
      body: { message: expect.stringContaining("admin") },
    });
    expect((await erasing("ann", { nonsense: 1 })).status, "the body first").toBe(400);
    const { status, body } = await erasing("boss", none);
    expect([status, body.matched]).toEqual([202, 0]);
    await post("boss", `/bulk/${body.bulk_id}/stop`);
    expect((await post("ann", `/bulk/${body.bulk_id}/resume`)).status, "nor may others let it go on").toBe(403);
    expect((await post("boss", `/bulk/${body.bulk_id}/resume`)).status).toBe(202);
  });

  it("keeps its creator's actor, tenant and reach", async () => {
    const [{ body: narrow }, { body: named }] = [await pauseAll("clerk"), await pauseAll("root", { tenant_id: OTHER })];
    const row = async (id: string) =>
      (await rig.database.sql`select actor, tenant_id, reach from bulk_jobs where id = ${id}`)[0];
    const reach = { tenants: [TENANT], workflows: ["billing.*"] };
    expect(await row(narrow.bulk_id)).toEqual({ actor: "user:clerk", tenant_id: TENANT, reach });
    expect(await row(named.bulk_id)).toEqual({ actor: "user:root", tenant_id: OTHER, reach: { tenants: [OTHER] } });
  });

  it("for another tenant is refused", async () => {
    expect((await pauseAll("ann", { tenant_id: OTHER })).status).toBe(403);
  });

  it("of another tenant, or of more workflows, is answered as one that does not exist", async () => {
    const { body: own } = await pauseAll("ann");
    const get = async (who: string, id: string): Promise<Answer> => {
      const url = `/api/v1/bulk/${id}`;
      const response = await app.inject({ method: "GET", url, headers: { authorization: `Bearer ${who}` } });
      return { status: response.statusCode, body: response.json(), headers: response.headers };
    };
    const asks = [
      get,
      ...["stop", "resume"].map((act) => (who: string, id: string) => post(who, `/bulk/${id}/${act}`)),
    ];
    for (const ask of asks)
      for (const who of ["bob", "clerk"]) {
        const nowhere = uuidv7();
        const foreign = await ask(who, own.bulk_id);
        expect(foreign.status).toBe(404);
        expect(shown(foreign, own.bulk_id)).toEqual(shown(await ask(who, nowhere), nowhere));
      }
    expect(shown(await get("ann", own.bulk_id), own.bulk_id)).toMatchObject({
      status: 200,
      body: { state: "running" },
    });
    expect((await post("ann", `/bulk/${own.bulk_id}/stop`)).body).toMatchObject({ state: "stopped", changed: true });
  });

  it("has its key within its tenant, and is not told to one who may reach less", async () => {
    const headers = keyed(uuidv7());
    const id = async (who: string, more = {}) => (await pauseAll(who, more, headers)).body.bulk_id;
    const first = await id("ann");
    expect(await id("ann")).toBe(first);
    expect(await id("root", { tenant_id: TENANT })).toBe(first);
    expect(new Set([first, await id("bob"), await id("root")]).size).toBe(3);
    expect((await pauseAll("clerk", {}, headers)).status).toBe(409);
  });

  it("of a key that is revoked is stopped with it, also one that a node creates which has not heard of it", async () => {
    const { sql } = rig.database;
    const key = uuidv7().replaceAll("-", "").slice(0, 16);
    await sql`
      insert into api_keys (id, secret_hash, name, roles, created_by) values (${key}, ${key}, 'k', '["operator"]', 'user:ann')`;
    const create = async () => {
      const id = uuidv7();
      const about = { id, action: "pause", filter: {}, params: {}, actor: `key:${key}`, requestHash: "" };
      const reach = { tenants: [TENANT] };
      await createJob(sql, reach, { ...about, reach }, { businessKey: label }, 10);
      return id;
    };
    const states = (...ids: string[]) =>
      sql`select state, revoked from bulk_jobs where id = any(${ids}::text[]::uuid[]) order by id`;
    const ran = async (id: string) => (await runningJobs(sql, SHARDS, 1_000)).some((job) => job.id === id);
    const before = await create();
    expect(await ran(before)).toBe(true);
    // A key that has expired stops none.
    await sql`update api_keys set expires_at = now() - interval '1 hour' where id = ${key}`;
    expect([await ran(before), [...(await states(before))]]).toEqual([true, [{ state: "running", revoked: false }]]);
    expect(await revokeKey(sql, key, { tenants: "*" })).toMatchObject({ id: key });
    expect([await ran(before), [...(await states(before))]]).toEqual([false, [{ state: "stopped", revoked: true }]]);
    const after = await create();
    expect([...(await states(after))]).toEqual([{ state: "running", revoked: false }]);
    expect([await ran(after), [...(await states(after))]]).toEqual([false, [{ state: "stopped", revoked: true }]]);
  });

  it("stops for good when the credential of its creator is revoked", async () => {
    const [{ body: job }, { body: others }] = [await pauseAll("ann"), await pauseAll("bob")];
    const { sql } = rig.database;
    expect(await revokeJobsOf(sql, "user:ann")).toBeGreaterThan(0);
    expect(await revokeJobsOf(sql, "user:ann")).toBe(0);
    expect((await post("ann", `/bulk/${job.bulk_id}/resume`)).body).toMatchObject({ state: "stopped", changed: false });
    expect((await post("bob", `/bulk/${others.bulk_id}/stop`)).body).toMatchObject({ state: "stopped", changed: true });
    expect((await post("bob", `/bulk/${others.bulk_id}/resume`)).body).toMatchObject({
      state: "running",
      changed: true,
    });
  });
});
