// What people and their browsers entrust to a service of two nodes, with a canary in all of it: a login at an issuer, with its code, its tokens,
// its secret and its cookies; forms with wrong values; idempotency keys; inputs, rules and definitions that are refused. No answer repeats a value.
// @module-tag long
import { once } from "node:events";
import { afterAll, beforeAll, expect, it } from "vitest";
import WebSocket from "ws";
import { CLIENT, OidcIssuer } from "../harness/oidc-issuer.js";
import { describeWithRedis } from "../harness/services.js";
import { until } from "../harness/until.js";
import { TENANT } from "./access-rig.js";
import { at, CanaryService } from "./canary-rig.js";

/** Values of the form's members that are all wrong. */
const VALUES = {
  ...{ name: at("form-pattern"), age: at("form-type"), kind: at("form-enum"), fixed: at("form-const") },
  ...{ at: at("form-format"), list: [at("form-item"), at("form-item")], more: at("form-long") },
  ...{ either: at("form-either"), none: at("form-not") },
};
const FORM = {
  type: "object",
  required: ["missing"],
  additionalProperties: false,
  properties: {
    name: { type: "string", pattern: "^[a-z]$" },
    age: { type: "integer" },
    kind: { enum: ["a", "b"] },
    fixed: { const: "c" },
    at: { type: "string", format: "date-time" },
    list: { type: "array", uniqueItems: true, items: { type: "number" } },
    more: { type: "string", maxLength: 2 },
    either: { anyOf: [{ type: "number" }, { type: "string", maxLength: 1 }] },
    none: { not: { type: "string" } },
  },
} as const;

describeWithRedis("what people entrust to a service of two nodes", (redisUrl) => {
  let canary: CanaryService;
  let issuer: OidcIssuer;

  beforeAll(async () => {
    issuer = await OidcIssuer.open();
    issuer.codePrefix = at("code");
    issuer.claims = { sub: "ann", roles: ["admin"], tenant_id: TENANT, email: at("claim") };
    canary = await CanaryService.open(redisUrl, {
      ...{ SAGA_OIDC_ISSUER: issuer.name, SAGA_OIDC_CLIENT_ID: CLIENT.id, SAGA_OIDC_CLIENT_SECRET: CLIENT.secret },
    });
    canary.more.add(CLIENT.secret);
  });
  afterAll(async () => {
    await canary?.close();
    await issuer?.close();
  });

  const cookieOf = (answer: Response) => {
    const cookies = answer.headers.getSetCookie().map((cookie) => cookie.split(";")[0] ?? "");
    for (const cookie of cookies) {
      const value = cookie.slice(cookie.indexOf("=") + 1);
      if (value !== "") canary.more.add(value);
    }
    return cookies.join("; ");
  };

  /** The way to the issuer and back to the callback, which is not asked yet. */
  async function begin(): Promise<{ readonly callback: URL; readonly cookie: string }> {
    const next = `/console/runs?q=${at("next")}`;
    const begun = await fetch(`${canary.url}/auth/login?next=${encodeURIComponent(next)}`, { redirect: "manual" });
    expect(begun.status).toBe(302);
    const cookie = cookieOf(begun);
    const to = new URL(begun.headers.get("location") ?? "");
    for (const name of ["state", "nonce", "code_challenge"]) canary.more.add(to.searchParams.get(name) ?? "");
    const back = await fetch(to, { redirect: "manual" });
    return { callback: new URL(back.headers.get("location") ?? ""), cookie };
  }

  async function finish({ callback, cookie }: Awaited<ReturnType<typeof begin>>): Promise<Response> {
    const answer = await fetch(`${canary.url}${callback.pathname}${callback.search}`, { headers: { cookie } });
    if (answer.status >= 400) canary.refusals.push(`${answer.status} ${await answer.text()}`);
    return answer;
  }

  it("is nowhere else, of a login that succeeds, and of those that are refused", async () => {
    const login = await begin();
    const answer = await finish(login);
    expect(answer.status).toBe(200);
    const session = cookieOf(answer);
    const asSession = (path: string, init: RequestInit = {}) =>
      fetch(`${canary.url}${path}`, { ...init, headers: { cookie: session, origin: canary.url } });
    expect(await (await asSession("/auth/session")).json()).toMatchObject({ kind: "session", sub: "ann" });
    // The same callback again; without its cookie; with another state; with a code of none.
    expect((await finish(login)).status).toBe(401);
    expect((await finish({ ...(await begin()), cookie: "" })).status).toBe(401);
    expect((await finish({ ...(await begin()), cookie: `saga-login=${at("cookie")}` })).status).toBe(401);
    for (const [name, value] of [
      ["state", at("state")],
      ["code", at("wrong-code")],
    ] as const) {
      const wrong = await begin();
      wrong.callback.searchParams.set(name, value);
      expect((await finish(wrong)).status).toBe(401);
    }
    const denied = await begin();
    denied.callback.searchParams.delete("code");
    denied.callback.searchParams.set("error", "access_denied");
    denied.callback.searchParams.set("error_description", at("denied"));
    expect((await finish(denied)).status).toBe(401);
    issuer.refusal = { error: "invalid_grant", error_description: at("refused") };
    expect((await finish(await begin())).status).toBe(401);
    issuer.refusal = { error: at("refused-code"), error_description: at("refused"), error_uri: at("refused-uri") };
    expect((await finish(await begin())).status).toBe(503);
    issuer.refusal = `{"error": ${at("garbage")}`;
    expect((await finish(await begin())).status).toBe(503);
    issuer.refusal = undefined;
    // Claims that give no rights, and such as are malformed.
    for (const claims of [
      { roles: [at("role")] },
      { tenant_id: at("tenant") },
      { workflows: at("workflows") },
      { sub: "" },
    ]) {
      issuer.claims = { sub: "ann", roles: ["admin"], tenant_id: TENANT, ...claims };
      const { status } = await finish(await begin());
      expect([JSON.stringify(claims), status >= 400]).toEqual([JSON.stringify(claims), !("roles" in claims)]);
    }
    issuer.claims = { sub: "ann", roles: ["admin"], tenant_id: TENANT };
    const begun = await begin();
    issuer.isAway = true;
    expect((await finish(begun)).status).toBe(503);
    issuer.isAway = false;
    expect((await asSession("/auth/logout", { method: "POST" })).status).toBe(204);
    expect((await asSession("/auth/session")).status).toBe(401);
    for (const given of issuer.given) canary.more.add(given);
    await begunRun();
    await canary.expectNoLeak();
  });

  it("is nowhere else, of credentials of streams, cookies and headers", async () => {
    const run = await begunRun();
    const url = `${canary.url.replace("http", "ws")}/api/v1/sagas/${run}/stream`;
    const refused = async (socket: WebSocket) => {
      socket.on("error", () => {});
      const [, response] = (await once(socket, "unexpected-response")) as [
        unknown,
        import("node:http").IncomingMessage,
      ];
      response.setEncoding("utf8");
      let text = "";
      for await (const chunk of response) text += chunk;
      canary.refusals.push(text);
      socket.terminate();
      return response.statusCode;
    };
    expect(await refused(new WebSocket(url, ["saga.v1", `bearer.${at("subprotocol")}`]))).toBe(401);
    expect(await refused(new WebSocket(`${url}?access_token=${at("in-url")}`, ["saga.v1", "bearer.a"]))).toBe(400);
    expect(await refused(new WebSocket(`${url}?access_token=${at("in-url")}&after_seq=${at("after")}`))).toBe(401);
    const wrong: readonly Readonly<Record<string, string>>[] = [
      { authorization: `Basic ${at("basic")}` },
      { authorization: `Bearer ${at("one")} ${at("two")}` },
      { authorization: "", cookie: `saga=${at("session-cookie")}`, origin: canary.url },
      { authorization: "", cookie: `saga=${at("session-cookie")}`, origin: `http://${at("origin")}` },
    ];
    for (const headers of wrong)
      expect((await canary.ask("/api/v1/sagas", { headers })).status).toBeGreaterThanOrEqual(400);
    await canary.refuses(400, "/auth/session", {
      body: { api_key: at("long-key").repeat(10) },
      headers: { origin: canary.url },
    });
    const own = { origin: canary.url, "idempotency-key": at("auth-key") };
    await canary.refuses(400, "/auth/session", { body: { api_key: at("api-key") }, headers: own });
    await canary.expectNoLeak();
  });

  it("is nowhere else, of forms and inputs with wrong values, and no answer repeats one", async () => {
    const ask = { id: "ask", type: "collect_input", assignee: "ann", title: "A form", form_schema: FORM };
    await canary.publish("asks", [ask]);
    const run = await canary.start("asks");
    const task = await until(async () => (await canary.ask(`/api/v1/sagas/${run}/user_tasks`)).json?.items[0]?.id);
    const submit = `/api/v1/sagas/${run}/user_task/${task}/submit`;
    for (const body of [{ result: VALUES }, VALUES]) await canary.refuses(422, submit, { body });
    await canary.refuses(400, submit, { body: { result: at("no-object") } });
    await canary.refuses(400, submit, { body: { result: {}, submitted_by: [at("by")] } });
    for (const [name, value] of Object.entries(VALUES))
      await canary.refuses(422, submit, { body: { result: { [name]: value } } });
    await canary.publish("strict", [{ id: "step", type: "noop" }], { input_schema: FORM });
    for (const path of ["/api/v1/sagas/start", "/api/v1/workflows/strict/test"]) {
      const { status } = await canary.ask(path, { body: { workflow_id: "strict", inputs: VALUES, mocks: {} } });
      expect([path, status >= 400]).toEqual([path, true]);
    }
    const members = {
      workflow_id: "asks",
      run_id: at("run-id"),
      labels: { a: [at("label")] },
      dry_run: at("dry"),
      inputs: at("in"),
    };
    await canary.refuses(400, "/api/v1/sagas/start", { body: members });
    await canary.refuses(400, "/api/v1/sagas/start", {
      body: `{"workflow_id":"asks","inputs":{"__proto__":"${at("proto")}"}}`,
    });
    await canary.refuses(400, "/api/v1/sagas/start", {
      body: `{"workflow_id":"asks","inputs":{"a":"${at("nul")}\\u0000"}}`,
    });
    await canary.refuses(400, "/api/v1/sagas/start", { body: `{"workflow_id":"asks","inputs":{"a":${at("bare")}}}` });
    await canary.refuses(415, "/api/v1/sagas/start", { body: at("text"), headers: { "content-type": "text/plain" } });
    const post = (path: string, body: object) => canary.refuses(400, path, { body });
    await post("/api/v1/events", { topic: "a", headers: { a: [at("header")] }, payload: at("payload") });
    await post("/api/v1/events", { topic: "a", headers: { "saga-tenant": at("tenant-header") }, payload: {} });
    await post(`/api/v1/sagas/${run}/signal/go`, { payload: at("payload") });
    await post(`/api/v1/sagas/${run}/cancel`, { reason: [at("reason")] });
    await post("/api/v1/api_keys", { name: [at("name")], roles: [at("role")], expires_at: at("expiry") });
    await post("/api/v1/bulk", {
      filter: { "label.a": [at("filter")] },
      action: "cancel",
      params: { reason: [at("x")] },
    });
    await canary.expectNoLeak();
  });

  it("is nowhere else, of rules and expressions that fail", async () => {
    const rule = (rule_id: string, when: string) =>
      canary.ask("/api/v1/rules", {
        body: {
          ...{ rule_id, name: rule_id, rule_type: "decision_table", published: true },
          spec: { hit_policy: "first", rows: [{ when, then: { branch: at("then") } }] },
        },
      });
    for (const [id, when] of [
      ["no-row", "inputs.note == 'a'"],
      ["breaks", "inputs.note * 2 > 1"],
      ["lacks", "inputs[inputs.note]"],
    ] as const) {
      expect((await rule(id, when)).status).toBe(201);
      await canary.refuses(422, `/api/v1/rules/${id}/evaluate`, { body: { inputs: { note: at("rule-input") } } });
    }
    await canary.refuses(400, "/api/v1/rules/no-row/evaluate", { body: { inputs: at("rule-inputs") } });
    expect((await rule("malformed", `inputs.note == '${at("rule")}`)).status).toBe(400);
    const steps = [
      ["adds", { type: "transform", expression: "inputs.note * 2" }],
      ["lacks", { type: "transform", expression: "inputs.nothing" }],
      ["asserts", { type: "assert", condition: "inputs.note == 'a'", message: "${inputs.note}" }],
      ["branches", { type: "decision", expression: "inputs.note", branches: { a: { next: "step" } } }],
      ["times", { type: "wait_until", until: "${inputs.note}" }],
      ["raises", { type: "error", code: "${inputs.note}", message: "${inputs.note}", details: "${inputs}" }],
      ["logs", { type: "log", message: "${inputs.note}", fields: { note: "${inputs.note}" } }],
      ["counts", { type: "metric_emit", name: "notes", value: "${inputs.note}", tags: { of: "a" } }],
    ] as const;
    for (const [id, step] of steps) {
      await canary.publish(id, [{ id: "step", ...step }]);
      await canary.reaches(await canary.start(id), id === "logs" ? "succeeded" : "failed");
    }
    await canary.expectNoLeak();
  });

  it("is nowhere else, of idempotency keys that are used again, differ or are malformed", async () => {
    const run = await begunRun();
    const use = (path: string, body: object, key: string) => ({
      path,
      sent: { body, headers: { "idempotency-key": key } },
    });
    const start = (inputs: object, key: string) => use("/api/v1/sagas/start", { workflow_id: "waits", inputs }, key);
    const first = start({ note: at("first") }, at("same-key"));
    expect((await canary.ask(first.path, first.sent)).status).toBe(202);
    const refused: readonly (readonly [number, ReturnType<typeof use>])[] = [
      [409, start({ note: at("second") }, at("same-key"))],
      [400, start({}, at("long").repeat(40))],
      [400, use("/api/v1/sagas/start", { workflow_id: "waits", idempotency_key: at("in-body") }, at("in-header"))],
      [400, use("/api/v1/sagas/start", { workflow_id: "waits", idempotency_key: [at("list")] }, at("in-header"))],
      [400, use("/api/v1/api_keys", { name: "a", roles: ["viewer"] }, at("api-keys-key"))],
    ];
    for (const [status, { path, sent }] of refused) await canary.refuses(status, path, sent);
    const event = (note: string) => use("/api/v1/events", { topic: "a", payload: { note } }, at("event-same-key"));
    const [one, other] = [event(at("one")), event(at("other"))];
    expect((await canary.ask(one.path, one.sent)).status).toBe(202);
    await canary.refuses(409, other.path, other.sent);
    const pause = (reason: string) => use(`/api/v1/sagas/${run}/pause`, { reason }, at("pause-key"));
    expect((await canary.ask(pause(at("a")).path, pause(at("a")).sent)).status).toBe(202);
    await canary.refuses(409, pause(at("b")).path, pause(at("b")).sent);
    const ended = await canary.start("waits-not", undefined, at("key-waits-not"));
    await canary.reaches(ended, "succeeded");
    expect((await canary.ask(`/api/v1/sagas/${ended}`, { method: "DELETE" })).status).toBe(204);
    const again = use("/api/v1/sagas/start", { workflow_id: "waits-not", inputs: {} }, at("key-waits-not"));
    await canary.refuses(409, again.path, again.sent);
    await canary.expectNoLeak();
  });

  /** A run of the tenant that waits. */
  async function begunRun(): Promise<string> {
    const { status } = await canary.ask("/api/v1/workflows/waits", {});
    if (status === 404) {
      await canary.publish("waits", [{ id: "wait", type: "wait_for_signal", signal_name: "go" }]);
      await canary.publish("waits-not", [{ id: "step", type: "noop" }]);
    }
    const run = await canary.start("waits");
    await canary.reaches(run, "paused");
    return run;
  }
});
