// The finer rights of authors: which secrets their definitions may name, and what narrowed ones may not do.
import { describe, expect, it } from "vitest";
import { verifierOf } from "../harness/verifier.js";
import { otherApi, type Response, useRig, WORKFLOW } from "./rig.js";

const A = "0190a000-0000-7000-8000-00000000000a";
const B = "0190a000-0000-7000-8000-00000000000b";

const verifier = verifierOf({
  anna: { roles: ["author"], tenantId: A, secrets: ["pay", "mail.*", "theirs", "unbound"] },
  none: { roles: ["author"], tenantId: A },
  all: { roles: ["author"], tenantId: A, secrets: ["*"] },
  ada: { roles: ["admin"], tenantId: A },
  pia: { roles: ["author", "platform"], secrets: ["*"] },
  nora: { roles: ["author"], tenantId: A, workflows: ["billing.*"], secrets: ["*"] },
  nils: { roles: ["admin"], tenantId: A, workflows: ["billing.*"] },
  wide: { roles: ["author"], tenantId: A, workflows: ["*"], services: [] },
});

/** Of the file: `pay` and `mail.out` are of the tenant A, `theirs` is of B, and `unbound` names no tenant. */
const OWNERS: Readonly<Record<string, readonly string[]>> = { pay: [A], "mail.out": [A, B], theirs: [B], unbound: [] };
const secrets = { isOf: (name: string, tenantId: string) => OWNERS[name]?.includes(tenantId) ?? false };

const rig = useRig({ deps: { verifier, secrets } });
const call = (who: string, method: "POST" | "PATCH", url: string, body?: unknown): Promise<Response> =>
  rig.call(method, `/api/v1${url}`, body, { authorization: `Bearer ${who}` });

const done = { id: "done", type: "end" };
const doing = (id: string, step: object, more: object = {}) => ({
  ...{ ...WORKFLOW, id, ...more },
  steps: [{ id: "begin", next: "done", ...step }, done],
});
const request = (secret_ref: string) => ({ type: "http_request", url: "https://a.example", secret_ref });
const webhook = (secret_ref: string) => ({
  type: "webhook_emit",
  url: "https://a.example",
  event_type: "x",
  secret_ref,
});

let nth = 0;
const id = () => `w${nth++}`;

describe("an author's definition", () => {
  const post = (who: string, step: object, more?: object) => call(who, "POST", "/workflows", doing(id(), step, more));

  it("names the author's secrets only, and one that is computed needs all: else posting it is 403", async () => {
    for (const step of [request("pay"), webhook("mail.out"), webhook("mail.none")])
      expect((await post("anna", step)).status).toBe(201);
    for (const step of [
      request("other"),
      webhook("other"),
      { type: "http_request", inputs: { url: "https://a.example", secret_ref: "other" } },
    ]) {
      const refused = await post("anna", step);
      expect(refused).toMatchObject({ status: 403, body: { error: "forbidden" } });
      expect(refused.body.details).toEqual([{ path: "$.steps[0].secret_ref", message: 'the secret "other"' }]);
    }
    for (const computed of ["${inputs.x}", "pay${inputs.x}", "${'pay'}"]) {
      expect((await post("anna", request(computed))).status).toBe(403);
      expect((await post("all", request(computed))).status).toBe(201);
    }
    expect((await post("none", request("pay"))).status).toBe(403);
    expect((await post("none", { type: "noop" })).status).toBe(201);
    expect((await post("ada", request("pay"))).status).toBe(201);
  });

  it("is looked at after the document: what is no definition is 400", async () => {
    expect((await post("none", { ...request("pay"), wrong: 1 })).status).toBe(400);
  });

  it("is looked at when it is published, too, after the 404: another author may have posted it", async () => {
    const name = id();
    await call("anna", "POST", "/workflows", doing(name, request("pay")));
    const publish = (who: string, version = 1) => call(who, "POST", `/workflows/${name}/versions/${version}/publish`);
    expect((await publish("none")).status).toBe(403);
    expect((await publish("none", 2)).status).toBe(404);
    expect((await publish("anna")).status).toBe(200);
    expect((await publish("none")).status).toBe(200);
    expect((await call("none", "POST", `/workflows/${name}/versions/1/unpublish`)).status).toBe(200);
    expect((await publish("none")).status).toBe(403);
  });

  it("is published with secrets of its tenant only, and with any by the platform", async () => {
    for (const secret of ["theirs", "unbound", "absent"]) {
      const name = id();
      expect((await call("all", "POST", "/workflows", doing(name, request(secret)))).status).toBe(201);
      for (const who of ["all", "ada"])
        expect((await call(who, "POST", `/workflows/${name}/versions/1/publish`)).body).toMatchObject({
          error: "forbidden",
          details: [{ message: `"${secret}" is no secret of the definition's tenant` }],
        });
      expect((await post("all", request(secret), { published: true })).status).toBe(403);
      expect((await post("pia", request(secret), { published: true })).status).toBe(201);
      expect((await post("pia", request(secret), { published: true, tenant_id: A })).status).toBe(403);
    }
    expect((await post("all", request("mail.out"), { published: true })).status).toBe(201);
    expect((await post("pia", request("pay"), { published: true, tenant_id: A })).status).toBe(201);
  });
});

describe("a narrowed author", () => {
  const post = (step: object, name = `billing.${id()}`, who = "nora") =>
    call(who, "POST", "/workflows", doing(name, step));

  it("posts workflows within the narrowing only, and does not find others", async () => {
    expect((await post({ type: "noop" })).status).toBe(201);
    expect((await post({ type: "noop" }, "shipping.one")).status).toBe(403);
    await call("all", "POST", "/workflows", doing("shipping.two", { type: "noop" }));
    const publish = (name: string) => call("nora", "POST", `/workflows/${name}/versions/1/publish`);
    expect((await publish("shipping.two")).status).toBe(404);
    await call("all", "POST", "/workflows", doing("billing.two", { type: "noop" }));
    expect((await publish("billing.two")).status).toBe(200);
  });

  it.each(["sub_saga", "spawn_saga"])(
    "names the workflow of a %s literally, and within the narrowing",
    async (type) => {
      expect((await post({ type, workflow_id: "billing.other" })).status).toBe(201);
      for (const workflow_id of ["shipping.one", "${inputs.x}", "billing.${inputs.x}"])
        expect(await post({ type, workflow_id })).toMatchObject({ status: 403, body: { error: "forbidden" } });
      expect((await call("wide", "POST", "/workflows", doing(id(), { type, workflow_id: "${inputs.x}" }))).status).toBe(
        201,
      );
    },
  );

  it.each([
    ["emit_event", { topic: "t" }],
    ["wait_for_event", { topic: "t" }],
    ["emit_signal", { run_id: "${run.id}", signal_name: "s" }],
    ["cancel", { run_id: "${inputs.run}" }],
  ])("has no %s, which would meet runs of other workflows", async (type, attributes) => {
    const step = { type, ...attributes };
    expect(await post(step)).toMatchObject({
      status: 403,
      body: { details: [{ path: "$.steps[0]", message: `a step of type ${type}` }] },
    });
    const name = `billing.${id()}`;
    expect((await call("all", "POST", "/workflows", doing(name, step))).status).toBe(201);
    expect((await call("nora", "POST", `/workflows/${name}/versions/1/publish`)).status).toBe(403);
  });

  it("cancels its own run", async () => {
    const steps = [{ id: "begin", type: "cancel" }];
    const posted = await call("nora", "POST", "/workflows", { ...WORKFLOW, id: `billing.${id()}`, steps });
    expect(posted.status).toBe(201);
  });

  it("has no every-secret as an admin: its list counts", async () => {
    expect((await post(request("pay"), `billing.${id()}`, "nils")).status).toBe(403);
  });

  it("changes no rules, and registers nothing", async () => {
    const rule = {
      rule_id: "r",
      name: "r",
      rule_type: "decision_table",
      spec: { hit_policy: "first", rows: [], default_output: {} },
    };
    expect((await call("all", "POST", "/rules", rule)).status).toBe(201);
    for (const [url, body] of [
      ["/rules", { ...rule, rule_id: "mine" }],
      ["/rules/r/versions/1/publish", {}],
      ["/rules/r/versions/1/unpublish", {}],
      ["/registry/register", { service: "billing", actions: [{ action_name: "act" }] }],
    ] as const)
      expect([url, (await call("nora", "POST", url, body)).status]).toEqual([url, 403]);
    expect((await call("nora", "POST", "/rules/none/versions/1/publish", {})).status).toBe(404);
    expect(
      (await call("wide", "POST", "/registry/register", { service: "wide", actions: [{ action_name: "a" }] })).status,
    ).toBe(200);
  });

  it("has triggers of its workflows, and none on records", async () => {
    const cron = (workflow_id: string) => ({ trigger_type: "cron", workflow_id, config: { schedule: "0 0 1 1 *" } });
    const record = (workflow_id: string) => ({
      ...{ trigger_type: "record_transition", workflow_id },
      config: { record_type: "order", from_state: "a", to_state: "b" },
    });
    for (const name of ["billing.cron", "shipping.cron"])
      await call("all", "POST", "/workflows", { ...doing(name, { type: "noop" }), published: true });
    const [own, other] = [cron("billing.cron"), cron("shipping.cron")];
    expect((await call("nora", "POST", "/triggers", own)).status).toBe(201);
    expect((await call("nora", "POST", "/triggers", other)).status).toBe(404);
    expect((await call("nora", "POST", "/triggers", record("billing.cron"))).status).toBe(403);
    const ofOther = (await call("all", "POST", "/triggers", other)).body.id;
    expect((await call("nora", "PATCH", `/triggers/${ofOther}`, { enabled: false })).status).toBe(404);
    const onRecord = (await call("all", "POST", "/triggers", record("billing.cron"))).body.id;
    expect((await call("nora", "PATCH", `/triggers/${onRecord}`, { enabled: false })).status).toBe(403);
  });
});

describe("with access off", () => {
  it("a definition names any secret, and is published", async () => {
    const app = await otherApi(rig, {}, { secrets });
    for (const secret of ["theirs", "absent", "${inputs.x}"]) {
      const payload = { ...doing(id(), request(secret)), published: true };
      expect((await app.inject({ method: "POST", url: "/api/v1/workflows", payload })).statusCode).toBe(201);
    }
    await app.close();
  });
});
