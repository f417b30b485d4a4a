// A database of a service without access control goes over to one with it, as docs/operations.md says: two machines are replaced one by one, and
// what has no tenant is adopted. Nothing is lost on the way, and another tenant sees none of it.
// @module-tag long
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { packageRoot } from "../../src/config/package.js";
import { uuidv7 } from "../../src/ids.js";
import { createWorker, type Worker } from "../../src/sdk/worker/index.js";
import { handleAll } from "../harness/actions.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { describeWithRedis } from "../harness/services.js";
import { until } from "../harness/until.js";

const COMMAND = join(packageRoot(), "dist", "service", "cli", "main.js");
const OURS = "0190a000-0000-7000-8000-0000000000c1";
const OTHERS = "0190a000-0000-7000-8000-0000000000c2";
const execute = promisify(execFile);

type Json = Record<string, unknown>;
interface Answer {
  readonly status: number;
  readonly body: Json & { readonly items?: readonly Json[]; readonly total?: number };
}

async function ask(url: string, key: string | undefined, method: string, path: string, body?: Json): Promise<Answer> {
  const response = await fetch(`${url}/api/v1${path}`, {
    method,
    headers: {
      ...(body && { "content-type": "application/json" }),
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
    },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: text === "" ? {} : JSON.parse(text) };
}

/** One workflow for each thing that a run can wait for. */
const WAITS: Readonly<Record<string, Json>> = {
  signal: { type: "wait_for_signal", signal_name: "go" },
  event: { type: "wait_for_event", topic: "parcel.shipped" },
  task: { type: "collect_input", assignee: "ann", form_schema: { type: "object" } },
  // Over only after the other machine has been replaced, whose starts take seconds.
  timer: { type: "wait_duration", duration_ms: 15_000 },
  action: { type: "action", action: "shop.charge", inputs: {} },
};

describeWithRedis("a service without access control, with data of every kind, and then with it", (redis) => {
  let database: TestDatabase;
  let settings: Record<string, string>;
  let services: ServiceProcess[] = [];
  let worker: Worker | undefined;
  const runs: Record<string, string> = {};
  const held: string[] = [];
  let trigger = "";
  let invoicing = "";
  let job = "";
  let keys: { readonly ours: string; readonly worker: string; readonly others: string; readonly platform: string };

  const command = async (...args: readonly string[]) =>
    (await execute(process.execPath, [COMMAND, ...args], { env: { DATABASE_URL: database.url } })).stdout.trim();
  const makeKey = (name: string, ...more: readonly string[]) => command("key", "create", "--name", name, ...more);
  const url = () => services[0]?.url ?? "";
  const open = (method: string, path: string, body?: Json) => ask(url(), undefined, method, path, body);
  const ours = (method: string, path: string, body?: Json) => ask(url(), keys.ours, method, path, body);
  const others = (method: string, path: string, body?: Json) => ask(url(), keys.others, method, path, body);

  beforeAll(async () => {
    database = await createTestDatabase({ max: 2 });
    settings = { DATABASE_URL: database.url, REDIS_URL: redis, REDIS_PREFIX: `test:${uuidv7()}:`, SAGA_WORKERS: "1" };
    settings.SAGA_BULK_PER_SECOND = "2";
    services = [await createService(settings), await createService(settings)];
    for (const service of services) await service.start();
  });
  afterAll(async () => {
    await worker?.stop();
    await Promise.all(services.map((service) => service.stop()));
    await database?.drop();
  });

  async function start(workflow: string, more: Json = {}): Promise<string> {
    const { status, body } = await open("POST", "/sagas/start", { workflow_id: workflow, ...more });
    expect(status).toBe(202);
    return String(body.run_id);
  }

  it("has runs that wait for each thing, triggers, a rule, a registration and a bulk job", async () => {
    const action = { action_name: "charge", transport: "grpc" };
    expect((await open("POST", "/registry/register", { service: "shop", actions: [action] })).status).toBe(200);
    for (const [name, wait] of Object.entries(WAITS)) {
      const steps = [{ id: "wait", ...wait }];
      const document = { id: name, name, published: true, start: "wait", steps };
      expect((await open("POST", "/workflows", document)).status).toBe(201);
      runs[name] = await start(name, { idempotency_key: `first ${name}` });
    }
    const rule = { rule_id: "rate", name: "Rate", published: true, rule_type: "decision_table" };
    const rows = [{ when: "inputs.total > 100", then: { percent: 5 } }];
    expect((await open("POST", "/rules", { ...rule, spec: { hit_policy: "first", rows } })).status).toBe(201);
    const night = { trigger_type: "cron", workflow_id: "timer", config: { schedule: "0 3 * * *" } };
    trigger = String((await open("POST", "/triggers", night)).body.id);
    const config = { record_type: "order", from_state: "packed", to_state: "shipped", input_mapping: {} };
    const invoice = { trigger_type: "record_transition", workflow_id: "timer", config };
    invoicing = String((await open("POST", "/triggers", invoice)).body.id);
    for (let nth = 0; nth < 12; nth++) held.push(await start("signal", { labels: { held: "yes" } }));
    const bulk = await open("POST", "/bulk", { filter: { "label.held": "yes" }, action: "pause" });
    expect(bulk).toMatchObject({ status: 202, body: { matched: 12 } });
    job = String(bulk.body.bulk_id);
    expect((await open("POST", `/bulk/${job}/stop`)).status).toBe(202);
    await until(async () => (await open("GET", "/sagas?state=paused,running")).body.total === 17, {
      what: "the waits",
    });
  });

  it("does not start with access control beside the others, unless SAGA_AUTH_ROLLOUT says so", async () => {
    const eager = await createService({ ...settings, SAGA_AUTH: "api_key" });
    await eager.start({ ready: false });
    expect(await eager.exit()).not.toBe(0);
    expect(eager.log.join("\n")).toContain("SAGA_AUTH_ROLLOUT=1");
  });

  it("is replaced machine by machine, and every run goes on meanwhile", async () => {
    const on = { ...settings, SAGA_AUTH: "api_key", SAGA_AUTH_ROLLOUT: "1" };
    keys = {
      platform: await makeKey("ops", "--roles", "platform,admin"),
      ours: await makeKey("ours", "--roles", "admin", "--tenant", OURS),
      worker: await makeKey("worker", "--roles", "worker", "--services", "shop", "--tenant", OURS),
      others: await makeKey("others", "--roles", "admin", "--tenant", OTHERS),
    };
    for (const nth of [1, 0]) {
      const successor = await createService(on);
      await services[nth]?.stop();
      services[nth] = await successor.start();
      // In between, one machine asks for keys and the other does not: both have all runs.
      const seen = await ask(services[1]?.url ?? "", keys.platform, "GET", "/sagas");
      expect(seen.body.total).toBe(17);
      if (nth === 1) expect((await open("GET", "/sagas")).body.total).toBe(17);
    }
    expect((await open("GET", "/sagas")).status).toBe(401);
    const { body } = await ask(url(), keys.platform, "GET", "/cluster");
    expect(body).toMatchObject({ access: "on", access_rollout: true });
  });

  it("shows a tenant nothing until it is adopted, and then everything, and repeats no start", async () => {
    expect((await ours("GET", "/sagas")).body.total).toBe(0);
    let left = 1;
    for (let tries = 0; left > 0 && tries < 10; tries++)
      left = (JSON.parse(await command("tenant", "adopt", OURS, "-o", "json")) as { left: number }).left;
    expect(left).toBe(0);
    expect((await ours("GET", "/sagas")).body.total).toBe(17);
    for (const [list, total] of [
      ["workflows", 5],
      ["rules", 1],
      ["triggers", 2],
      ["bulk", 1],
      ["registry/actions", 1],
    ])
      expect([list, (await ours("GET", `/${list}`)).body.total]).toEqual([list, total]);
    const again = await ours("POST", "/sagas/start", { workflow_id: "signal", idempotency_key: "first signal" });
    // The tenant is part of what a start asks for, so a repeat without one is another request: it starts no second run.
    expect(again.status).toBe(409);
    expect((await ours("GET", "/sagas")).body.total).toBe(17);
  });

  it("shows another tenant none of it, and lets it change nothing", async () => {
    for (const list of ["sagas", "workflows", "rules", "triggers", "bulk", "registry/actions", "user_tasks", "workers"])
      expect([list, (await others("GET", `/${list}`)).body.items]).toEqual([list, []]);
    const things = [`sagas/${runs.signal}`, "workflows/signal", "rules/rate", `triggers/${trigger}`, `bulk/${job}`];
    for (const path of things) expect([path, (await others("GET", `/${path}`)).status]).toEqual([path, 404]);
    const changes: [string, Json][] = [
      [`/sagas/${runs.signal}/signal/go`, { payload: {} }],
      [`/sagas/${runs.signal}/cancel`, {}],
      [`/triggers/${trigger}/fire`, {}],
      [`/bulk/${job}/resume`, {}],
      ["/rules/rate/evaluate", { inputs: { total: 200 } }],
      ["/sagas/start", { workflow_id: "signal" }],
    ];
    for (const [path, body] of changes) expect([path, (await others("POST", path, body)).status]).toEqual([path, 404]);
    // Its event is its own: it wakes no run and fires no trigger of the first tenant.
    expect((await others("POST", "/events", { topic: "parcel.shipped" })).status).toBe(202);
    expect((await ours("GET", `/sagas/${runs.event}`)).body.state).toBe("paused");
  });

  it("needs no rollout any more once all machines are replaced, and they are once more, without it", async () => {
    const last = { ...settings, SAGA_AUTH: "api_key" };
    for (const nth of [0, 1]) {
      const successor = await createService(last);
      await services[nth]?.stop();
      services[nth] = await successor.start();
    }
    expect((await ask(url(), keys.platform, "GET", "/cluster")).body).not.toHaveProperty("access_rollout");
  });

  it("goes on with everything under the keys of the tenant", async () => {
    const grpc = services[1]?.grpcAddress ?? "";
    worker = createWorker({ service: "shop", grpc, api: url(), token: async () => keys.worker });
    handleAll(worker, "shop", [{ name: "charge", execute: () => ({}) }]);
    await worker.start();
    expect((await ours("POST", `/sagas/${runs.signal}/signal/go`, { payload: {} })).status).toBe(202);
    expect((await ours("POST", "/events", { topic: "parcel.shipped", payload: {} })).status).toBe(202);
    const [task] = (await ours("GET", `/sagas/${runs.task}/user_tasks`)).body.items ?? [];
    const submitted = await ours("POST", `/sagas/${runs.task}/user_task/${task?.id}/submit`, { result: { a: 1 } });
    expect(submitted.status).toBe(202);
    for (const [name, id] of Object.entries(runs)) {
      const { body } = await ours("GET", `/sagas/${id}?wait_ms=40000`);
      expect([name, body.state, body.tenant_id]).toEqual([name, "succeeded", OURS]);
      const { body: log } = await ours("GET", `/sagas/${id}/events?limit=500`);
      expect(log.items?.map(({ seq }) => seq)).toEqual(log.items?.map((_, nth) => nth + 1));
    }

    expect((await ours("POST", "/rules/rate/evaluate", { inputs: { total: 200 } })).body.output).toEqual({
      percent: 5,
    });
    expect((await ours("POST", `/triggers/${trigger}/fire`)).status).toBe(202);
    const payload = { record_type: "order", from_state: "packed", to_state: "shipped" };
    expect((await ours("POST", "/events", { topic: "record.transition", payload })).status).toBe(202);
    for (const id of [trigger, invoicing])
      await until(async () => (await ours("GET", `/sagas?trigger_id=${id}`)).body.total === 1, {
        what: `a run of ${id}`,
      });

    expect((await ours("POST", `/bulk/${job}/resume`)).status).toBe(202);
    await until(async () => (await ours("GET", `/bulk/${job}`)).body.state === "done", { what: "the end of the job" });
    expect((await ours("GET", `/bulk/${job}`)).body).toMatchObject({ matched: 12, done: 12, refused: 0 });
    const paused = await ours("GET", "/sagas?label.held=yes&paused_reason=operator");
    expect(paused.body.total).toBe(held.length);
    expect((await ours("GET", "/sagas")).body.total).toBe(19);
  }, 120_000);
});
