// Whose names are, with access on: workflow ids, rule ids and services belong to the tenant that stored them first, and what the platform stores is
// everyone's to use. How the credentials are verified is tested elsewhere.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PLATFORM } from "../../src/access/index.js";
import { loadDefinitionsDir } from "../../src/api/index.js";
import { silentLog } from "../harness/database.js";
import { verifierOf } from "../harness/verifier.js";
import { compile, otherApi, type Response, useRig, WORKFLOW } from "./rig.js";

const A = "0190a000-0000-7000-8000-00000000000a";
const B = "0190a000-0000-7000-8000-00000000000b";

const verifier = verifierOf({
  anna: { roles: ["author"], tenantId: A },
  ada: { roles: ["admin"], tenantId: A },
  ben: { roles: ["author"], tenantId: B },
  opal: { roles: ["operator"], tenantId: B },
  pia: { roles: ["admin", "platform"] },
  work_a: { roles: ["worker"], tenantId: A, services: ["*"] },
  work_b: { roles: ["worker"], tenantId: B, services: ["own*", "common"] },
  work_p: { roles: ["worker", "platform"], services: ["*"] },
  some_p: { roles: ["admin", "worker", "platform"], tenants: [B], services: ["*"] },
});
type Who = "anna" | "ada" | "ben" | "opal" | "pia" | "work_a" | "work_b" | "work_p" | "some_p";

const rig = useRig({ amqp: true, deps: { verifier } });
const call = (who: Who, method: "GET" | "POST" | "PATCH" | "DELETE", url: string, body?: unknown): Promise<Response> =>
  rig.call(method, `/api/v1${url}`, body, { authorization: `Bearer ${who}` });

const named = (id: string, more: object = {}) => ({ ...WORKFLOW, id, ...more });
const ruled = (rule_id: string, more: object = {}) => ({
  ...{ rule_id, name: rule_id, rule_type: "decision_table", ...more },
  spec: { hit_policy: "first", rows: [{ when: "true", then: { yes: true } }] },
});

const without = ({ request_id: _, ...body }: Record<string, unknown>) => body;

describe.each([
  { what: "workflow", url: "/workflows", document: named },
  { what: "rule", url: "/rules", document: ruled },
])("the id of a $what", ({ what, url, document }) => {
  const post = (who: Who, id: string, more?: object) => call(who, "POST", url, document(id, more));
  const publish = (who: Who, id: string, act = "publish") => call(who, "POST", `${url}/${id}/versions/1/${act}`);

  it("belongs to the tenant that stored it first, and to nobody else", async () => {
    expect((await post("anna", "mine")).status).toBe(201);
    expect((await post("anna", "mine", { name: "once more" })).status).toBe(201);
    for (const more of [{}, { name: "other" }]) {
      const refused = await post("ben", "mine", more);
      expect(refused).toMatchObject({ status: 409, body: { error: "conflict" } });
      expect(JSON.stringify(refused.body)).not.toContain(A);
    }
    const [row] = await rig.database.sql<{ owners: string[]; own: string[] }[]>`
      select array_agg(distinct tenant_id) as owners, array_agg(for_tenant) as own
      from ${rig.database.sql(what === "rule" ? "rules" : "definitions")} where name in ('mine', 'Orders', 'once more')`;
    expect(row?.owners).toEqual([A]);
    expect(new Set(row?.own)).toEqual(new Set([null]));
  });

  it("is not found by another tenant, with the answer of an id that exists nowhere", async () => {
    await post("anna", "hidden");
    for (const act of ["publish", "unpublish"]) {
      const [hidden, nowhere] = [await publish("ben", "hidden", act), await publish("ben", "nowhere", act)];
      expect(hidden.status).toBe(404);
      expect(JSON.stringify(without(hidden.body)).replaceAll("hidden", "nowhere")).toBe(
        JSON.stringify(without(nowhere.body)),
      );
    }
    expect((await publish("anna", "hidden")).body).toMatchObject({ published: true });
    expect((await publish("pia", "hidden", "unpublish")).body).toMatchObject({ published: false });
  });

  it("is the platform's to change where the platform stored it", async () => {
    expect((await post("pia", "common")).status).toBe(201);
    for (const who of ["anna", "some_p"] as const)
      for (const act of ["publish", "unpublish"])
        expect(await publish(who, "common", act), who).toMatchObject({
          status: 403,
          body: { message: expect.stringContaining("platform") },
        });
    for (const more of [{}, { name: "other" }]) expect((await post("anna", "common", more)).status).toBe(409);
    expect((await publish("pia", "common")).body).toMatchObject({ published: true });
  });

  it("is given by the platform to the tenant that the body names, and to none without one", async () => {
    expect((await post("pia", "given", { tenant_id: A.toUpperCase() })).status).toBe(201);
    expect((await publish("anna", "given")).status).toBe(200);
    expect((await post("pia", "given", { name: "other" })).status).toBe(409);
    expect((await post("pia", "given", { tenant_id: B })).status).toBe(409);
    expect((await post("ben", "given")).status).toBe(409);
  });

  it("is stored for the tenant of the credential alone: another tenant_id in the body is 403", async () => {
    for (const tenant_id of [B, "acme"])
      expect(await post("anna", "foreign", { tenant_id })).toMatchObject({ status: 403, body: { error: "forbidden" } });
    expect((await post("anna", "foreign", { tenant_id: A })).status).toBe(201);
  });

  it("has the credential as its creator, whoever the body names", async () => {
    const posted = await post("anna", "made", { created_by: "eve" });
    expect(posted).toMatchObject({
      ...{ status: 201, body: { created_by: "user:anna" } },
      headers: { "saga-ignored-fields": "created_by" },
    });
    expect((await post("ada", "made", posted.body)).status).toBe(200);
  });

  it("is the tenant's that was first of many at once", async () => {
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, nth) => post(nth % 2 ? "anna" : "ben", "raced", { name: `v${nth}` })),
    );
    const [row] = await rig.database.sql<{ owners: number }[]>`
      select count(distinct tenant_id)::int as owners from ${rig.database.sql(what === "rule" ? "rules" : "definitions")}
      where ${rig.database.sql(what === "rule" ? "rule_id" : "workflow_id")} = 'raced'`;
    expect(row?.owners).toBe(1);
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 201, 201, 201, 409, 409, 409, 409]);
  });
});

describe("a rule", () => {
  const evaluate = (who: Who, id: string, more: object = {}) =>
    call(who, "POST", `/rules/${id}/evaluate`, { inputs: {}, ...more });

  it("is evaluated for the tenant of the credential, and exists for its owner", async () => {
    await call("anna", "POST", "/rules", ruled("evaluated", { published: true }));
    await call("pia", "POST", "/rules", ruled("shared", { published: true }));
    expect((await evaluate("anna", "evaluated")).status).toBe(200);
    expect((await evaluate("opal", "evaluated")).status).toBe(404);
    expect((await evaluate("opal", "evaluated", { tenant_id: A })).status).toBe(403);
    expect((await evaluate("opal", "shared")).status).toBe(200);
    expect((await evaluate("pia", "evaluated", { tenant_id: A })).status).toBe(200);
    expect((await evaluate("pia", "evaluated")).status).toBe(404);
  });
});

describe("a rehearsal", () => {
  it("is of a workflow that exists for the credential, and so are the workflows that it starts", async () => {
    const saga = (workflow_id: string) => ({ id: "begin", type: "sub_saga", workflow_id, next: "done" });
    const done = { id: "done", type: "end", output: "fine" };
    await call("anna", "POST", "/workflows", named("inner", { published: true }));
    await call("ben", "POST", "/workflows", named("outer", { steps: [saga("inner"), done], published: true }));
    await call("anna", "POST", "/workflows", named("outer_of_a", { steps: [saga("inner"), done], published: true }));
    const test = (who: Who, id: string) => call(who, "POST", `/workflows/${id}/test`, { mocks: {} });
    expect((await test("ben", "outer_of_a")).status).toBe(404);
    expect((await test("ben", "outer")).body).toMatchObject({ state: "failed", error: { code: "not_found" } });
    expect((await test("anna", "outer_of_a")).body).toMatchObject({ state: "succeeded" });
  });
});

describe("a registration", () => {
  const register = (who: Who, service: string, action: object = {}, more: object = {}) =>
    call(who, "POST", "/registry/register", { service, actions: [{ action_name: "act", ...action }], ...more });
  const http = (host: string) => ({ transport: "http", address: `https://${host}/act` });
  const sharers = async (service: string) =>
    (
      await rig.database.sql<{ tenant: string }[]>`
        select s.tenant_id as tenant from shared_actions s join actions a on a.id = s.action_id where a.service = ${service}`
    ).map(({ tenant }) => tenant);

  it("needs a worker of the service, or an author", async () => {
    expect((await register("work_b", "own-b")).status).toBe(200);
    expect((await register("ben", "any-b")).status).toBe(200);
    expect(await register("work_b", "any-b")).toMatchObject({ status: 403, body: { message: expect.any(String) } });
    expect((await register("opal", "own-c")).status).toBe(403);
  });

  it("of another tenant is not changed: not its members, not by a new version, not by a new action", async () => {
    await register("work_a", "own-a", { description: "first" });
    for (const who of ["work_b", "ben"] as const)
      for (const action of [{ description: "other" }, { version: 2 }, { action_name: "more" }, http("evil.example")])
        expect(await register(who, "own-a", action), JSON.stringify(action)).toMatchObject({ status: 403 });
    expect(await register("work_b", "own-a", { description: "other" }, { only_missing: true })).toMatchObject({
      status: 403,
    });
    const [row] = await rig.database
      .sql`select count(*)::int as n, max(description) as description from actions where service = 'own-a'`;
    expect(row).toEqual({ n: 1, description: "first" });
    expect((await register("work_a", "own-a", { description: "second" })).body.changed).toHaveLength(1);
    expect((await register("pia", "own-a", { description: "third" })).body.changed).toHaveLength(1);
  });

  it("of another tenant that is identical and over gRPC makes the action known to the tenant", async () => {
    const first = await register("work_a", "own-known", { input_schema: { type: "object" }, default_timeout_ms: 5 });
    expect(await sharers("own-known")).toEqual([]);
    const again = await register("work_b", "own-known", { input_schema: { type: "object" }, default_timeout_ms: 5 });
    expect(again.body).toEqual(first.body);
    expect(await sharers("own-known")).toEqual([B]);
    expect(
      (await register("work_b", "own-known", { input_schema: { type: "object" }, default_timeout_ms: 5 })).status,
    ).toBe(200);
    expect(await sharers("own-known")).toEqual([B]);
    const missing = await register(
      "work_b",
      "own-known",
      { input_schema: { type: "object" }, default_timeout_ms: 5 },
      { only_missing: true },
    );
    expect(missing.body).toMatchObject({ registered: 0, changed: [] });
  });

  it("of another tenant that is identical is 403 over http and rmq, unless the service is the platform's", async () => {
    for (const [service, action] of [
      ["own-http", http("a.example")],
      ["own-rmq", { transport: "rmq", address: "own-rmq" }],
    ] as const) {
      expect((await register("work_a", service, action)).status).toBe(200);
      expect((await register("work_b", service, action)).status).toBe(403);
      expect(await sharers(service)).toEqual([]);
    }
    for (const action of [http("p.example"), { action_name: "grpc" }]) {
      expect((await register("work_p", "common", action)).status).toBe(200);
      expect((await register("work_b", "common", action)).body).toMatchObject({ registered: 1, changed: [] });
      expect((await register("work_b", "common", { ...action, description: "other" })).status).toBe(403);
    }
    expect((await register("work_b", "common", { description: "x" }, { only_missing: true })).body.registered).toBe(0);
    expect(await sharers("common")).toEqual([]);
  });

  it("of the platform is not changed, moved or added to by a platform for some tenants, whose own it changes", async () => {
    const shared = { ...http("p.example"), action_name: "shared" };
    expect((await register("pia", "common-p", shared)).status).toBe(200);
    expect((await register("some_p", "common-p", shared)).body).toMatchObject({ registered: 1, changed: [] });
    for (const action of [
      { ...shared, description: "other" },
      { ...shared, ...http("evil.example") },
      { ...shared, version: 2 },
      { action_name: "more" },
    ])
      expect((await register("some_p", "common-p", action)).status, JSON.stringify(action)).toBe(403);
    expect((await register("some_p", "new-p")).body.message).toContain("for some tenants only");
    await register("work_b", "own-some", {});
    expect((await register("some_p", "own-some", { description: "other" })).body.changed).toHaveLength(1);
    const rows = await rig.database.sql`select from actions where service in ('common-p', 'new-p')`;
    expect(rows).toHaveLength(1);
  });

  it("is all or nothing: one action that may not be registered leaves nothing", async () => {
    await register("work_a", "own-taken");
    const actions = [
      { service: "own-fresh", action_name: "act" },
      { service: "own-taken", action_name: "act", description: "other" },
    ];
    expect((await call("ben", "POST", "/registry/register", actions)).status).toBe(403);
    expect(await rig.database.sql`select from actions where service = 'own-fresh'`).toHaveLength(0);
  });

  it("has its transport or host changed by an admin only, also in a new version, which is compared with the newest one", async () => {
    await register("work_a", "own-moved", http("one.example"));
    expect(
      (await register("work_a", "own-moved", { ...http("one.example"), address: "https://one.example/else" })).status,
    ).toBe(200);
    for (const action of [http("two.example"), {}, { version: 2, ...http("two.example") }, { version: 2 }])
      expect(await register("work_a", "own-moved", action), JSON.stringify(action)).toMatchObject({
        status: 403,
        body: { message: expect.stringContaining("admin") },
      });
    expect((await register("anna", "own-moved", http("two.example"))).status).toBe(403);
    expect((await register("ada", "own-moved", { version: 2, ...http("two.example") })).status).toBe(200);
    expect((await register("work_a", "own-moved", { version: 3, ...http("two.example") })).status).toBe(200);
    expect((await register("work_a", "own-moved", { version: 4, ...http("one.example") })).status).toBe(403);
    expect((await register("work_a", "own-moved", http("one.example"))).status).toBe(200);
    expect((await register("work_a", "own-moved", http("two.example"), { only_missing: true })).status).toBe(200);
  });

  it("of one service by two tenants at once is of one of them", async () => {
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, nth) =>
        register(nth % 2 ? "work_a" : "work_b", "own-raced", { action_name: `act${nth}` }),
      ),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 403, 403, 403, 403]);
    const [row] = await rig.database.sql`
      select count(distinct tenant_id)::int as owners, count(*)::int as n from actions where service = 'own-raced'`;
    expect(row).toEqual({ owners: 1, n: 4 });
  });
});

describe("a trigger", () => {
  const cron = (workflow_id: string, more: object = {}) => ({
    ...{ trigger_type: "cron", workflow_id, config: { schedule: "0 0 1 1 *" } },
    ...more,
  });
  const create = async (who: Who, workflow_id: string, more?: object) =>
    call(who, "POST", "/triggers", cron(workflow_id, more));

  it("is its creator's tenant's: another tenant_id is 403, and for other tenants it does not exist", async () => {
    await call("anna", "POST", "/workflows", named("ticked", { published: true }));
    expect((await create("anna", "ticked", { tenant_id: B })).status).toBe(403);
    const { status, body } = await create("anna", "ticked");
    expect([status, body.tenant_id]).toEqual([201, A]);
    const asked: readonly (readonly ["GET" | "POST" | "PATCH" | "DELETE", string, object?])[] = [
      ["GET", ""],
      ["GET", "/fires"],
      ["GET", "/next"],
      ["PATCH", "", { enabled: false }],
      ["POST", "/fire", {}],
      ["DELETE", ""],
    ];
    for (const [method, path, more] of asked) {
      const url = (id: string) => `/triggers/${id}${path}`;
      const other = await call("ben", method, url(body.id), more);
      const nowhere = await call("ben", method, url(B), more);
      expect([method, path, other.status]).toEqual([method, path, 404]);
      expect(JSON.stringify(without(other.body)).replaceAll(body.id, B)).toBe(JSON.stringify(without(nowhere.body)));
    }
    expect((await call("anna", "PATCH", `/triggers/${body.id}`, { enabled: false })).status).toBe(200);
    expect((await call("pia", "DELETE", `/triggers/${body.id}`)).status).toBe(204);
  });

  it("starts workflows that its tenant may start, and no others", async () => {
    await call("anna", "POST", "/workflows", named("of_a", { published: true }));
    await call("pia", "POST", "/workflows", named("of_all", { published: true }));
    expect((await create("ben", "of_a")).status).toBe(404);
    expect((await create("ben", "of_all")).body).toMatchObject({ tenant_id: B });
    expect((await create("pia", "of_a")).status).toBe(404);
    expect((await create("pia", "of_a", { tenant_id: A })).status).toBe(201);
    const own = await create("pia", "of_all");
    expect(own.body).not.toHaveProperty("tenant_id");
    expect((await call("ben", "GET", `/triggers/${own.body.id}`)).status).toBe(404);
  });
});

describe("the definitions folder", () => {
  let dir: string;
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "saga-names-"));
  });
  afterAll(() => rm(dir, { recursive: true }));
  const load = async (documents: Readonly<Record<string, object>>) => {
    for (const [name, document] of Object.entries(documents))
      await writeFile(join(dir, name), JSON.stringify(document));
    const catalog = { action: () => undefined, actionNames: () => [], rule: () => undefined, refresh: async () => {} };
    const never = () => Promise.reject(new Error("not asked"));
    try {
      await loadDefinitionsDir(dir, {
        ...{ sql: rig.database.sql, log: silentLog, compile, principal: PLATFORM },
        triggers: { check: () => never() as never, seed: never },
        catalog: { ...catalog, program: never, published: never, stored: never },
      });
    } finally {
      for (const name of Object.keys(documents)) await rm(join(dir, name));
    }
  };

  it("acts as the platform: its names are everyone's, unless a document names its tenant", async () => {
    await load({ "a.workflow.json": named("filed"), "b.workflow.json": named("filed_for_a", { tenant_id: A }) });
    expect((await call("ben", "POST", "/workflows", named("filed"))).status).toBe(409);
    expect((await call("ben", "POST", "/workflows/filed/versions/1/unpublish")).status).toBe(403);
    expect((await call("ben", "POST", "/workflows/filed_for_a/versions/1/unpublish")).status).toBe(404);
    expect((await call("anna", "POST", "/workflows/filed_for_a/versions/1/unpublish")).status).toBe(200);
  });

  it("stops the start where a tenant has taken a name, and goes on with what has been given away since", async () => {
    await call("anna", "POST", "/workflows", named("squatted"));
    await expect(load({ "c.workflow.json": named("squatted", { name: "mine" }) })).rejects.toThrow(/squatted is taken/);
    await load({ "d.workflow.json": named("adopted") });
    await rig.database.sql`update definitions set tenant_id = ${A} where workflow_id = 'adopted'`;
    await load({ "d.workflow.json": named("adopted") });
    await expect(load({ "d.workflow.json": named("adopted", { name: "new" }) })).rejects.toThrow(/adopted is taken/);
  });
});

describe("with access off", () => {
  it("versions of one id name different tenants, and everyone changes every registration, as before", async () => {
    const app = await otherApi(rig, {});
    const post = async (url: string, payload: object) =>
      (await app.inject({ method: "POST", url: `/api/v1${url}`, payload })).statusCode;
    for (const more of [{ tenant_id: A }, {}, { tenant_id: B }, { tenant_id: "acme" }]) {
      expect(await post("/workflows", named("free", more))).toBe(201);
      expect(await post("/rules", ruled("free", more))).toBe(201);
    }
    expect(await post("/workflows/free/versions/1/publish", {})).toBe(200);
    await call("work_a", "POST", "/registry/register", { service: "own-free", actions: [{ action_name: "act" }] });
    const moved = { service: "own-free", action_name: "act", transport: "http", address: "https://else.example" };
    expect(await post("/registry/register", [moved])).toBe(200);
    expect(await post("/workflows", { ...named("secretive"), steps: [SECRET] })).toBe(201);
    await app.close();
  });
});

const SECRET = { id: "begin", type: "http_request", url: "https://a.example", secret_ref: "any" };
