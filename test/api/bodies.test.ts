// Bodies that leave something out: absent ones, `null` for optional members, and bodies of two forms. The routes and their bodies come
// from the OpenAPI document, so that a new route is tried too.
import type { AddressInfo } from "node:net";
import { beforeAll, describe, expect, it } from "vitest";
import { defaultAnswer, insertRun, useRig, WORKFLOW } from "./rig.js";
import { ask } from "./wire.js";

interface Schema {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
}
interface Route {
  readonly method: string;
  readonly path: string;
  readonly schema: Schema;
  readonly example: unknown;
}

const rig = useRig();
let port = 0;
let routes: readonly Route[] = [];
const ids: Record<string, string> = { name: "delivered", step_id: "charge", version: "1" };

beforeAll(async () => {
  rig.answer = (command) =>
    /^(signal|submit|cancel|result|failure|heartbeat|fork)$/.test(command.type)
      ? defaultAnswer(command)
      : { type: "acted", state: "paused", changed: true };
  await rig.app.listen({ port: 0, host: "127.0.0.1" });
  port = (rig.app.server.address() as AddressInfo).port;
  routes = documentedRoutes((await rig.call("GET", "/openapi.json")).body);
  const run = await insertRun(rig, { workflow_id: "order" });
  const ended = await insertRun(rig, { state: "failed", terminal_at: new Date().toISOString() });
  await rig.database.sql`
    insert into user_tasks (id, run_id, step_id, assignee)
    values ('0190a000-0000-7000-8000-0000000000bb', ${run}, 'ask', 'ann')`;
  const example = (name: string) => routes.find(({ method, path }) => `${method} ${path}` === name)?.example;
  for (const name of ["workflows", "rules"])
    expect((await rig.call("POST", `/api/v1/${name}`, example(`POST /api/v1/${name}`))).status).toBe(201);
  await rig.call("POST", "/api/v1/workflows", { ...WORKFLOW, id: "orders", published: true });
  const trigger = await rig.call("POST", "/api/v1/triggers", example("POST /api/v1/triggers"));
  const bulk = await rig.call("POST", "/api/v1/bulk", example("POST /api/v1/bulk"));
  Object.assign(ids, { run_id: run, ended, task_id: "0190a000-0000-7000-8000-0000000000bb" });
  Object.assign(ids, { wf_id: "order", rule_id: "shipping", trigger: trigger.body.id, bulk: bulk.body.bulk_id });
});

interface Operation {
  readonly requestBody?: { readonly content: Readonly<Record<string, { schema: Schema; example: unknown }>> };
}

function documentedRoutes({ paths }: { paths: Readonly<Record<string, Record<string, Operation>>> }): Route[] {
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).flatMap(([method, { requestBody }]) => {
      const json = requestBody?.content["application/json"];
      return json ? [{ method: method.toUpperCase(), path, ...json }] : [];
    }),
  );
}

/** The path of a route, with things that exist. */
function urlOf({ path }: Route): string {
  const id = path.includes("/triggers/") ? ids.trigger : path.includes("/bulk/") ? ids.bulk : ids.run_id;
  const of = /\/(rerun|fork)$/.test(path) ? ids.ended : id;
  return path.replace("{id}", String(of)).replace(/\{(\w+)\}/g, (_, name) => String(ids[name]));
}

/** A request to a route that may be asked twice: another document is another version, and a key is used once. */
const asked = async (route: Route, body: unknown) => {
  const { status, body: answer } = await rig.call(route.method as "POST", urlOf(route), body);
  return { at: `${route.method} ${route.path} ${JSON.stringify(body)}`, status, answer };
};

describe("a request without content", () => {
  const EMPTY = {
    "no body": { headers: {} },
    "a form that is empty, as `curl -d ''` sends it": {
      headers: { "content-type": "application/x-www-form-urlencoded", "content-length": "0" },
    },
    "a content type alone": { headers: { "content-type": "text/csv" } },
    "a content type that is none": { headers: { "content-type": "nonsense", "content-length": "0" } },
    "JSON of no bytes": { headers: { "content-type": "application/json", "content-length": "0" } },
    "an empty chunked body": { headers: { "transfer-encoding": "chunked" }, chunked: true },
    "an empty chunked body of JSON": {
      headers: { "transfer-encoding": "chunked", "content-type": "application/json" },
      chunked: true,
    },
    "an empty chunked body of text": {
      headers: { "transfer-encoding": "chunked", "content-type": "text/plain" },
      chunked: true,
    },
    "an empty chunked body of a content type that is none": {
      headers: { "transfer-encoding": "chunked", "content-type": "nonsense" },
      chunked: true,
    },
  } as const;

  it.each(Object.entries(EMPTY))("%s, is one with {} on every route", async (_, form) => {
    expect(routes.length).toBeGreaterThan(30);
    for (const route of routes) {
      const { method } = route;
      const path = urlOf(route);
      const bytes = [
        `${method} ${path} HTTP/1.1`,
        "host: localhost",
        ...Object.entries(form.headers).map(([name, value]) => `${name}: ${value}`),
        "",
        "chunked" in form ? "0\r\n\r\n" : "",
      ].join("\r\n");
      const [given, whole] = [await ask(port, bytes), await ask(port, { method, path, body: "{}" })];
      const told = ({ status, json }: typeof given) => ({ status, error: json?.error, details: json?.details });
      expect({ at: `${method} ${path}`, ...told(given) }).toEqual({ at: `${method} ${path}`, ...told(whole) });
    }
  });

  it("is 400 where the body has required members, and names them", async () => {
    const { status, json } = await ask(port, "POST /api/v1/sagas/start HTTP/1.1\r\nhost: localhost\r\n\r\n");
    expect([status, json.error, json.details]).toEqual([
      ...[400, "bad_request"],
      [{ path: "$.workflow_id", message: "is required" }],
    ]);
  });

  it("differs from one with content that is not JSON: 415, as soon as there is a byte of it", async () => {
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "nonsense"]) {
      const headers = { "content-type": type };
      const path = "/api/v1/sagas/start";
      const whole = await ask(port, { method: "POST", path, headers, body: '{"workflow_id":"w"}' });
      const begun = await ask(
        port,
        `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: ${type}\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n`,
      );
      expect([type, whole.status, begun.status, begun.json.error]).toEqual([type, 415, 415, "bad_request"]);
    }
  });
});

/** The body with null for every optional member that it does not have. */
function withNulls(schema: Schema, value: unknown): unknown {
  if (Array.isArray(value) && schema.items) return value.map((item) => withNulls(schema.items as Schema, item));
  if (typeof value !== "object" || value === null || !schema.properties) return value;
  const given = value as Readonly<Record<string, unknown>>;
  const members = Object.entries(schema.properties).map(([name, member]) => [
    name,
    name in given ? withNulls(member, given[name]) : null,
  ]);
  return { ...given, ...Object.fromEntries(members) };
}

/**
 * Routes that need an undo that failed, another version, a page of the service, or a later clock: they refuse the example, for a reason that is not in the
 * form of the body.
 */
const REFUSING = /\/(compensations\/skip|migrate|fork|migrations\/check|auth\/session|backfill)$/;

describe("null for an optional member", () => {
  it("counts as absent in the body of every operation", async () => {
    let tried = 0;
    // What is unpublished is there for no other route.
    const last = (route: Route) => Number(route.path.endsWith("/unpublish"));
    for (const route of routes.toSorted((left, right) => last(left) - last(right))) {
      const { schema, example } = route;
      const keyless = { ...(example as object), idempotency_key: undefined };
      const [plain, nulls] = [await asked(route, keyless), await asked(route, withNulls(schema, keyless))];
      if (!REFUSING.test(route.path)) expect(plain.status, plain.at).toBeLessThan(300);
      expect([nulls.at, nulls.status, nulls.answer.details]).toEqual([nulls.at, plain.status, plain.answer.details]);
      for (const name of Object.keys(schema.properties ?? {})) {
        if (schema.required?.includes(name)) continue;
        const { [name]: _, ...without } = keyless as Record<string, unknown>;
        const [absent, is] = [await asked(route, without), await asked(route, { ...without, [name]: null })];
        expect([is.at, is.status, is.answer.details]).toEqual([is.at, absent.status, absent.answer.details]);
        tried++;
      }
    }
    expect(tried).toBeGreaterThan(50);
  });

  it("is not passed on", async () => {
    const nothing = {
      version: null,
      entrypoint: null,
      tenant_id: null,
      run_id: null,
      business_key: null,
      labels: null,
    };
    await rig.call("POST", "/api/v1/sagas/start", { workflow_id: "w", ...nothing, inputs: { a: null }, dry_run: null });
    expect(rig.started.at(-1)).toMatchObject({ inputs: { a: null }, dryRun: false, version: undefined });
    expect(rig.started.at(-1)?.labels).toBeUndefined();
    const url = `/api/v1/sagas/${ids.run_id}/actions/charge/result`;
    await rig.call("POST", url, { result: { receipt: null }, error: null, attempt: null });
    expect(rig.asked.at(-1)?.command).toMatchObject({ type: "result", result: { receipt: null } });
    const error = { code: "declined", message: "no", retryable: null, outcome_unknown: null };
    await rig.call("POST", url, { result: null, error });
    expect(rig.asked.at(-1)?.command).toMatchObject({ type: "failure", retryable: true, outcomeUnknown: false });
  });

  it("of a registration is not stored", async () => {
    const nulls = { description: null, default_retry: null, default_timeout_ms: null, transport: null, address: null };
    const action = { action_name: "quiet", ...nulls, input_schema: { enum: [null] } };
    const { body } = await rig.call("POST", "/api/v1/registry/register", { service: "shop", actions: [action] });
    expect(body.actions[0]).not.toHaveProperty("description");
    expect(body.actions[0]).toMatchObject({ transport: "grpc", input_schema: { enum: [null] } });
  });

  it("of a filter of a bulk job chooses nothing, and an unknown one is still refused", async () => {
    const job = { filter: { workflow_id: "order", version: null, state: null, "label.team": null }, action: "pause" };
    expect((await rig.call("POST", "/api/v1/bulk", job)).body.matched).toBe(1);
    const unknown = { filter: { workflow: null }, action: "pause" };
    expect((await rig.call("POST", "/api/v1/bulk", unknown)).body.details[0].path).toBe("$.filter.workflow");
  });

  it("of a member that is required is 400", async () => {
    for (const [url, body] of [
      ["sagas/start", { workflow_id: null }],
      [`sagas/${ids.run_id}/terminate`, { reason: null }],
      [`sagas/${ids.run_id}/actions/charge/result`, { result: null, error: null }],
      ["registry/register", { service: "shop", actions: null }],
    ] as const) {
      const { status, body: answer } = await rig.call("POST", `/api/v1/${url}`, body);
      expect([url, status, answer.error]).toEqual([url, 400, "bad_request"]);
    }
  });
});

describe("a body of two forms", () => {
  const signal = async (body: object) => {
    const { status, headers } = await rig.call("POST", `/api/v1/sagas/${ids.run_id}/signal/paid`, body);
    const { command } = rig.asked.at(-1) ?? {};
    expect(status).toBe(202);
    return { payload: command?.type === "signal" && command.payload, ignored: headers["saga-ignored-fields"] };
  };
  const submit = async (body: object) => {
    const url = `/api/v1/sagas/${ids.run_id}/user_task/${ids.task_id}/submit`;
    const { headers } = await rig.call("POST", url, body);
    const { command } = rig.asked.at(-1) ?? {};
    if (command?.type !== "submit") throw new Error("nothing was submitted");
    const { result, submittedBy } = command;
    return { result, submittedBy, ignored: headers["saga-ignored-fields"] };
  };

  it("a signal with `payload` and other members has that payload, and the others are named", async () => {
    expect(await signal({ payload: { a: 1 }, sent_at: "now", "trace-id": "7" })).toEqual({
      ...{ payload: { a: 1 }, ignored: "sent_at, trace-id" },
    });
    expect(await signal({ payload: { a: 1 }, idempotency_key: "with-others", source: "bank" })).toEqual({
      ...{ payload: { a: 1 }, ignored: "source" },
    });
    expect(rig.asked.at(-1)?.options).toMatchObject({ keep: true });
  });

  it("a signal without `payload`, or with null for it, is the payload as a whole", async () => {
    expect(await signal({ amount: null })).toEqual({ payload: { amount: null } });
    expect(await signal({ payload: null })).toEqual({ payload: {} });
    expect(await signal({ payload: null, idempotency_key: null })).toEqual({ payload: {} });
    expect(await signal({ payload: null, amount: 5 })).toEqual({ payload: { amount: 5 } });
  });

  it("a submit with `result` and other members has that result, and the others are named", async () => {
    const result = { approved: true };
    expect(await submit({ result, submitted_by: "ann", form_version: 3 })).toEqual({
      ...{ result, submittedBy: "ann", ignored: "form_version" },
    });
    expect(await submit({ result, submitted_by: null })).toEqual({ result, submittedBy: undefined });
  });

  it("a submit without `result`, or with null for it, is the result as a whole", async () => {
    expect(await submit({ approved: true, note: null })).toMatchObject({ result: { approved: true, note: null } });
    const long = "🎉".repeat(256);
    expect(await submit({ submitted_by: long })).toMatchObject({ submittedBy: long });
    expect((await submit({ submitted_by: `${long}a` })).submittedBy).toBeUndefined();
    expect(await submit({ result: null, approved: true, submitted_by: "ann" })).toMatchObject({
      ...{ result: { approved: true, submitted_by: "ann" }, submittedBy: "ann" },
    });
  });
});

describe("a document with nulls", () => {
  const nothing = {
    ...{ description: null, tenant_id: null, input_schema: null, timeout_ms: null, created_by: null },
    ...{
      on_failure: null,
      on_undo_failure: null,
      migrations: null,
      concurrency: null,
      history: null,
      rate_limit: null,
    },
    retention: { days: 30, succeeded_days: null, failed_days: null, cancelled_days: null },
  };

  it("is stored, and returned as it was posted", async () => {
    const given = { ...WORKFLOW, id: "nulls", version: null, entrypoints: null, ...nothing };
    const { status, body } = await rig.call("POST", "/api/v1/workflows", { ...given, published: true });
    expect([status, body]).toEqual([201, { ...given, version: 1, published: true, created_at: expect.any(String) }]);
    expect((await rig.call("GET", "/api/v1/workflows/nulls")).body).toEqual(body);
    expect((await rig.call("POST", "/api/v1/sagas/start", { workflow_id: "nulls" })).status).toBe(202);
    const spec = { hit_policy: "first", rows: [], default_output: {} };
    const rule = { rule_id: "nulls", name: "N", rule_type: "decision_table", spec, version: null, created_by: null };
    expect((await rig.call("POST", "/api/v1/rules", { ...rule, published: true })).status).toBe(201);
    const config = { schedule: "0 3 * * *", inputs: null, catchup: null };
    const trigger = {
      trigger_type: "cron",
      workflow_id: "nulls",
      version: null,
      tenant_id: null,
      enabled: null,
      config,
    };
    expect((await rig.call("POST", "/api/v1/triggers", trigger)).body).toMatchObject({ enabled: true, config });
  });
});
