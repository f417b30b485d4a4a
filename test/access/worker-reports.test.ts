// Reports of workers to a real service with access on: what the token of a dispatch is good for, what a worker's credential is good for, and
// workers of the SDK whose credentials end. Credentials are names of principals here.
import { randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import fastify from "fastify";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { Unauthenticated, type Verifier } from "../../src/access/index.js";
import { type NodeHandle, startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { createHttpWorker } from "../../src/sdk/worker/http/index.js";
import { createWorker } from "../../src/sdk/worker/index.js";
import { createRabbitMqWorker } from "../../src/sdk/worker/rabbitmq/index.js";
import { RawWorker, type Wire } from "../dispatch/rig.js";
import { type Action, handleAll } from "../harness/actions.js";
import { createAuthority, describeWithOpenssl } from "../harness/certificates.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { freePorts } from "../harness/ports.js";
import { brokerSettings } from "../harness/rabbitmq.js";
import { describeWithRabbitMq } from "../harness/services.js";
import { until } from "../harness/until.js";
import { principalOf } from "../harness/verifier.js";
import { rowsOf } from "../store/commit-rows.js";

const A = "0190a000-0000-7000-8000-00000000000a";
const B = "0190a000-0000-7000-8000-00000000000b";

const PRINCIPALS = {
  root: principalOf("root", { roles: ["platform", "admin", "worker"], services: ["*"] }),
  alice: principalOf("alice", { roles: ["worker"], tenantId: A, services: ["pay", "queue.pay"] }),
  bob: principalOf("bob", { roles: ["worker"], tenantId: B, services: ["pay"] }),
  mallory: principalOf("mallory", { roles: ["worker"], tenantId: A, services: ["other*"] }),
  viewer: principalOf("viewer", { roles: ["viewer"], tenantId: A }),
};

/** Credentials of alice that the tests end: each verifies until then. */
const issued = new Map<string, AbortController>();

const verifier: Verifier = {
  verify: (bearer) => {
    const end = issued.get(bearer);
    if (end && !end.signal.aborted) return { ...PRINCIPALS.alice, ended: end.signal };
    const principal = Object.hasOwn(PRINCIPALS, bearer) && PRINCIPALS[bearer as keyof typeof PRINCIPALS];
    if (!principal) throw new Unauthenticated("no principal of this test");
    return principal;
  },
};

let database: TestDatabase;
let node: NodeHandle;
let url: string;
/** A worker of `pay` over HTTP that accepts every call and says nothing. */
let worker: Server;
const calls: Wire[] = [];

async function start(env: Record<string, string> = {}): Promise<void> {
  database = await createTestDatabase();
  await startService(env);
  worker = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => {
      body += chunk;
    });
    request.on("end", () => {
      calls.push(JSON.parse(body));
      response.writeHead(202).end();
    });
  });
  await new Promise<void>((resolve) => void worker.listen(0, "127.0.0.1", resolve));
}

async function startService(env: Record<string, string> = {}): Promise<void> {
  const ports = { HTTP_PORT: "0", GRPC_PORT: "0", LOG_LEVEL: "silent", SAGA_WORKER_ALLOW: "127.0.0.0/8" };
  const { config } = loadConfig({ SAGA_AUTH: "api_key", ...ports, ...env });
  node = await startNode({ config, databaseUrl: database.url, log: silentLog, verifier });
  url = `${config.tls ? "https" : "http"}://127.0.0.1:${node.httpPort}`;
}

async function stop(): Promise<void> {
  worker.close();
  await node.stop();
  await database.drop();
}

interface Asked {
  readonly token?: string;
  readonly callback?: string;
  readonly body?: unknown;
}

async function ask(method: string, path: string, { token, callback, body }: Asked = {}) {
  const response = await fetch(path.startsWith("http") ? path : `${url}${path}`, {
    method,
    headers: {
      ...(body !== undefined && { "content-type": "application/json" }),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(callback !== undefined && { "saga-callback-token": callback }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: (await response.json()) as Wire };
}

async function asRoot(method: string, path: string, body?: unknown) {
  const answer = await ask(method, path, { token: "root", body });
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
  return answer.body;
}

/** A workflow of one step, `charge`, and a run of it for the tenant. */
async function run(action: string, step: object = {}, tenantId = A): Promise<string> {
  const id = `w-${randomUUID()}`;
  const retry = { max_attempts: 1, initial_backoff_ms: 1 };
  const charge = { id: "charge", type: "action", action, retry, next: "end", ...step };
  const steps = [charge, { id: "end", type: "end" }];
  await asRoot("POST", "/api/v1/workflows", { id, version: 1, name: id, start: "charge", steps, published: true });
  const body = { workflow_id: id, inputs: {}, tenant_id: tenantId };
  return (await asRoot("POST", "/api/v1/sagas/start", body)).run_id;
}

const register = (service: string, actions: object[]) =>
  asRoot("POST", "/api/v1/registry/register", { service, actions });

const stateOf = async (runId: string) => (await asRoot("GET", `/api/v1/sagas/${runId}`)).state;

/** The call of the run's step, once the worker has it. */
const callOf = (runId: string, nth = 1): Promise<Wire> =>
  until(() => calls.filter(({ run_id }) => run_id === runId)[nth - 1], { what: "the call of the worker" });

const ended = (runId: string, state = "succeeded") =>
  until(async () => (await stateOf(runId)) === state, { what: `the run to be ${state}` });

const RESULT = { result: { receipt: "r-1" } };

/** The URL of the report without its query. */
const bare = (call: Wire) => call.callback_url.replace(/\?.*/, "");

describe("with access on", () => {
  beforeAll(async () => {
    await start();
    const address = `http://127.0.0.1:${(worker.address() as AddressInfo).port}/pay`;
    await register("pay", [
      { action_name: "charge", transport: "http", address },
      { action_name: "refund", transport: "http", address },
      { action_name: "stream" },
    ]);
  });
  afterAll(stop);

  describe("the token of a dispatch", () => {
    it("is the credential of its reports, once, and needs no other", async () => {
      const runId = await run("pay.charge", { heartbeat_timeout_ms: 30_000 });
      const { callback_token: callback, callback_url: report } = await callOf(runId);
      expect(report).not.toContain(callback);
      const heartbeat = await ask("POST", report.replace("/result", "/heartbeat"), { callback, body: {} });
      expect(heartbeat).toEqual({ status: 202, body: { accepted: true, stale: false } });
      expect(await ask("POST", report, { callback, body: RESULT })).toEqual({
        ...{ status: 202, body: { accepted: true, stale: false } },
      });
      await ended(runId);
      const again = await ask("POST", report, { callback, body: { result: { receipt: "r-2" } } });
      expect(again).toEqual({ status: 202, body: { accepted: true, stale: true } });
      const { variables } = await asRoot("GET", `/api/v1/sagas/${runId}`);
      expect(JSON.stringify(variables)).not.toContain("r-2");
    });

    it("is the credential of nothing else, and comes in the header only", async () => {
      const runId = await run("pay.charge");
      const call = await callOf(runId);
      const { callback_token: callback } = call;
      for (const [method, path] of [
        ["GET", `/api/v1/sagas/${runId}`],
        ["POST", `/api/v1/sagas/${runId}/cancel`],
        ["GET", "/api/v1/workers"],
      ] as const)
        expect((await ask(method, path, { callback })).status).toBe(401);
      for (const inUrl of [`access_token=${callback}`, `saga-callback-token=${callback}`, `callback_token=${callback}`])
        expect((await ask("POST", `${bare(call)}?${inUrl}`, { body: RESULT })).status).toBe(401);
      expect((await ask("POST", call.callback_url, { token: callback, body: RESULT })).status).toBe(401);
      expect((await ask("POST", call.callback_url, { callback: "", body: RESULT })).status).toBe(401);
      expect((await ask("POST", call.callback_url, { body: RESULT })).status).toBe(401);
      expect(await stateOf(runId)).toBe("running");
    });

    it("is 401 for another run, step, attempt or dispatch in the URL, and 400 for another one in the body", async () => {
      const [one, other] = [await run("pay.charge"), await run("pay.charge")];
      const [call, stranger] = [await callOf(one), await callOf(other)];
      const { callback_token: callback } = call;
      const refused = async (path: string) =>
        expect((await ask("POST", path, { callback, body: RESULT })).status).toBe(401);
      await refused(stranger.callback_url);
      await refused(bare(stranger));
      await refused(bare(call).replace("/charge/", "/end/"));
      await refused(`${bare(call)}?attempt=2`);
      await refused(`${bare(call)}?attempt=1&attempt=2`);
      await refused(`${bare(call)}?dispatch_id=${stranger.dispatch_id}`);
      await refused(`${bare(call)}?attempt=1&dispatch_id=${stranger.dispatch_id}`);
      const differing = [{ run_id: other }, { step_id: "end" }, { attempt: 2 }, { dispatch_id: stranger.dispatch_id }];
      for (const more of differing) {
        const answer = await ask("POST", bare(call), { callback, body: { ...RESULT, ...more } });
        expect([answer.status, answer.body.error]).toEqual([400, "bad_request"]);
      }
      expect([await stateOf(one), await stateOf(other)]).toEqual(["running", "running"]);
      // In upper case, and without the query, it is the same call.
      const body = { ...RESULT, run_id: one.toUpperCase(), attempt: 1, dispatch_id: call.dispatch_id };
      const upper = bare(call).replace(one, one.toUpperCase());
      expect(await ask("POST", upper, { callback, body })).toMatchObject({ status: 202, body: { stale: false } });
      await ended(one);
    });

    it("of a step does not answer its undo, nor that of the undo the step", async () => {
      const id = `w-${randomUUID()}`;
      const charge = { id: "charge", type: "action", action: "pay.charge", compensation: { action: "pay.refund" } };
      const steps = [
        { ...charge, next: "wrong" },
        { id: "wrong", type: "error", code: "no", message: "no" },
      ];
      await asRoot("POST", "/api/v1/workflows", { id, version: 1, name: id, start: "charge", steps, published: true });
      const start = { workflow_id: id, inputs: {}, tenant_id: A };
      const { run_id: runId } = await asRoot("POST", "/api/v1/sagas/start", start);
      const forward = await callOf(runId);
      expect((await ask("POST", bare(forward), { callback: forward.callback_token, body: RESULT })).status).toBe(202);
      const undo = await callOf(runId, 2);
      expect(undo).toMatchObject({ phase: "COMPENSATION", step_id: "charge" });
      const crossed = await ask("POST", undo.callback_url, { callback: forward.callback_token, body: RESULT });
      expect(crossed.status).toBe(401);
      const late = await ask("POST", bare(undo), { callback: forward.callback_token, body: RESULT });
      expect(late).toEqual({ status: 202, body: { accepted: true, stale: true } });
      expect(await stateOf(runId)).toBe("compensating");
      const done = await ask("POST", undo.callback_url, { callback: undo.callback_token, body: RESULT });
      expect(done.body.stale).toBe(false);
      await ended(runId, "failed");
    });

    it("is stale after its deadline, whatever has become of its run", async () => {
      const runId = await run("pay.charge", { timeout_ms: 400 });
      const { callback_token: callback, callback_url: report } = await callOf(runId);
      await ended(runId, "failed");
      const stale = { status: 202, body: { accepted: true, stale: true } };
      expect(await ask("POST", report, { callback, body: RESULT })).toEqual(stale);
      expect(await ask("POST", report.replace("/result", "/heartbeat"), { callback, body: {} })).toEqual(stale);
      await database.sql`delete from runs where id = ${runId}`;
      expect(await ask("POST", report, { callback, body: RESULT })).toEqual(stale);
    });

    it("comes over gRPC, too, for a worker that leaves the answer to a callback", async () => {
      const raw = new RawWorker(`127.0.0.1:${node.grpcPort}`);
      raw.send({ hello: { worker_id: "w1", service: "pay", max_in_flight: 2, token: "alice" } });
      await raw.wait("hello_ack");
      const runId = await run("pay.stream");
      const { callback_token: callback, step_id, attempt } = await raw.wait("execute");
      const path = `/api/v1/sagas/${runId}/actions/${step_id}/result?attempt=${attempt}`;
      expect(await ask("POST", path, { callback, body: RESULT })).toMatchObject({
        status: 202,
        body: { stale: false },
      });
      await ended(runId);
      raw.cut();
    });
  });

  describe("the key of the tokens", () => {
    it("that was replaced still verifies what it signed, whether it was set or generated", async () => {
      const [generated, leaked] = [await callOf(await run("pay.charge")), await callOf(await run("pay.charge"))];
      const [first, second] = ["the first key of thirty-two characters", "the second key of thirty-two characters"];
      const restart = async (keys: string) => {
        await node.stop();
        await startService({ SAGA_CALLBACK_KEY: keys });
      };
      // The port is another one.
      const report = ({ callback_token: callback, ...call }: Wire) =>
        ask("POST", new URL(call.callback_url).pathname, { callback, body: RESULT });
      await restart(first);
      const set = await callOf(await run("pay.charge"));
      await restart(`${second},${first}`);
      expect(await report(generated)).toMatchObject({ status: 202, body: { stale: false } });
      expect(await report(set)).toMatchObject({ status: 202, body: { stale: false } });
      const other = await callOf(await run("pay.charge"));
      await restart(first);
      expect((await report(other)).status).toBe(401);
      // As docs/operations.md says it, of a generated key that was replaced.
      await database.sql`delete from service_keys where purpose = 'callback'`;
      await restart(first);
      expect((await report(leaked)).status).toBe(401);
    });
  });

  describe("a worker's credential", () => {
    it("is good for dispatches of its services and tenants, and for others it is 403 and changes nothing", async () => {
      const runId = await run("pay.charge");
      const call = await callOf(runId);
      for (const token of ["bob", "mallory"])
        for (const path of [call.callback_url, bare(call), call.callback_url.replace("/result", "/heartbeat")]) {
          const body = path.includes("/heartbeat") ? {} : RESULT;
          const answer = await ask("POST", path, { token, body });
          expect([token, answer.status, answer.body.error]).toEqual([token, 403, "forbidden"]);
        }
      expect((await ask("POST", call.callback_url, { token: "viewer", body: RESULT })).status).toBe(403);
      expect(await stateOf(runId)).toBe("running");
      expect(await database.sql`select from run_commands where run_id = ${runId}`).toHaveLength(0);
      const answer = await ask("POST", call.callback_url, { token: "alice", body: RESULT });
      expect(answer).toEqual({ status: 202, body: { accepted: true, stale: false } });
      await ended(runId);
      const events = await asRoot("GET", `/api/v1/sagas/${runId}/events`);
      expect(events.items.find((row: Wire) => row.event_type === "step.succeeded").actor).toBe("user:alice");
    });

    it("of the platform is good for all, and an unknown run is 404 for it", async () => {
      const runId = await run("pay.charge", {}, B);
      const call = await callOf(runId);
      expect((await ask("POST", call.callback_url, { token: "alice", body: RESULT })).status).toBe(403);
      expect((await ask("POST", call.callback_url, { token: "root", body: RESULT })).status).toBe(202);
      const unknown = bare(call).replace(runId, randomUUID());
      expect((await ask("POST", unknown, { token: "root", body: RESULT })).status).toBe(404);
    });

    // Two walls see to that, the decision and the fence of the commit: mutants take each of them out, and both.
    it("of a tenant changes nothing of another tenant's run", async () => {
      const runId = await run("pay.charge", { heartbeat_timeout_ms: 60_000 }, B);
      const call = await callOf(runId);
      // Not all of its rows: the service removes that of the dispatch when the worker has it.
      const seen = async () => {
        const { run_events, run_commands } = await rowsOf(database.sql, runId);
        return { run_events, run_commands, state: await stateOf(runId) };
      };
      const before = await seen();
      for (const [part, body] of Object.entries({ "/heartbeat": {}, "/result": RESULT })) {
        const path = call.callback_url.replace("/result", part);
        expect((await ask("POST", path, { token: "alice", body })).status).toBeGreaterThanOrEqual(400);
      }
      expect(await seen()).toEqual(before);
    });

    it("of a tenant is answered for another tenant's run, be it ended, as for one that does not exist", async () => {
      const runId = await run("pay.charge", {}, B);
      const call = await callOf(runId);
      const report = async (id: string, part: string) => {
        const path = bare(call).replace(runId, id).replace("/result", part);
        const { status, body } = await ask("POST", path, { token: "alice", body: part === "/result" ? RESULT : {} });
        return [status, body.error, body.message];
      };
      const parts = ["/result", "/heartbeat"];
      for (const part of parts) expect(await report(runId, part)).toEqual(await report(randomUUID(), part));
      expect(await database.sql`select from run_commands where run_id = ${runId}`).toHaveLength(0);
      await ask("POST", call.callback_url, { token: "root", body: RESULT });
      await ended(runId);
      for (const part of parts) expect(await report(runId, part)).toEqual(await report(randomUUID(), part));
    });
  });

  describe("over gRPC", () => {
    it("an answer for a run of another tenant is recorded as stale, also one that its node does not hold", async () => {
      const runId = await run("pay.charge");
      const { dispatch_id, step_id, attempt } = await callOf(runId);
      const about = { dispatch_id, run_id: runId, step_id, attempt };
      const raw = new RawWorker(`127.0.0.1:${node.grpcPort}`);
      raw.send({ hello: { worker_id: "w2", service: "pay", max_in_flight: 2, token: "bob" } });
      await raw.wait("hello_ack");
      raw.send({ result: { ...about, result_json: Buffer.from("{}") } });
      expect(await raw.wait("recorded")).toEqual({ dispatch_id, stale: true });
      expect(await stateOf(runId)).toBe("running");
      raw.cut();
    });
  });
});

const TIMING = { resendMs: 50, backoffMs: 20, backoffMaxMs: 100, abortGraceMs: 200 };
const silent = { debug() {}, info() {}, warn() {}, error() {} };

/** Gives alice's credentials out, one after the other. */
class Issuer {
  readonly given: string[] = [];

  readonly token = async () => {
    const token = `alice-${randomUUID()}`;
    issued.set(token, new AbortController());
    this.given.push(token);
    return token;
  };

  endAll(): void {
    for (const token of this.given) issued.get(token)?.abort();
  }
}

describe("a worker of the SDK", () => {
  const stops: (() => Promise<unknown>)[] = [];
  beforeAll(() => start());
  afterAll(stop);
  afterEach(async () => {
    for (const end of stops.splice(0).reverse()) await end();
  });

  it("asks for a token again when its credential has ended, and executes nothing twice", async () => {
    const issuer = new Issuer();
    const executed: string[] = [];
    let release: () => void = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const charge: Action = {
      name: "held",
      execute: async (_, { dispatchId }) => {
        executed.push(dispatchId);
        await held;
        return { ok: true };
      },
    };
    const sdk = createWorker({
      ...{ service: "pay", api: url, grpc: `127.0.0.1:${node.grpcPort}`, token: issuer.token },
      ...{ log: silent, timing: TIMING },
    });
    handleAll(sdk, "pay", [charge]);
    stops.push(() => sdk.stop());
    await sdk.start();
    const runs = await Promise.all([run("pay.held"), run("pay.held")]);
    await until(() => executed.length === 2, { what: "both steps" });
    const before = issuer.given.length;
    issuer.endAll();
    await until(() => issuer.given.length > before, { what: "another token" });
    // A step that comes now comes over the stream with the new credential.
    const third = await run("pay.held");
    await until(() => executed.length === 3, { what: "the third step" });
    release();
    for (const runId of [...runs, third]) await ended(runId);
    expect(executed.length).toBe(3);
    expect(new Set(executed).size).toBe(3);
    const { items } = await asRoot("GET", `/api/v1/sagas/${third}/events`);
    const answered = items.find((row: Wire) => row.event_type === "step.succeeded" && row.step_id === "charge");
    expect(answered).toMatchObject({ actor: `worker:${sdk.workerId}`, metadata: { credential: "user:alice" } });
  });

  it("retries until what gives the token succeeds, also to register", async () => {
    const issuer = new Issuer();
    let fails = 2;
    const token = async () => {
      if (fails-- > 0) throw new Error("the issuer is away");
      return fails === 0 ? "a stranger" : issuer.token();
    };
    const quick: Action = { name: "quick", execute: () => ({}) };
    const sdk = createWorker({
      ...{ service: "pay", api: url, grpc: `127.0.0.1:${node.grpcPort}`, token },
      ...{ log: silent, timing: TIMING },
    });
    handleAll(sdk, "pay", [quick]);
    stops.push(() => sdk.stop());
    await sdk.start();
    await ended(await run("pay.quick"));
  });

  it("over HTTP reports with the token of the dispatch, and asks for none of its own", async () => {
    const issuer = new Issuer();
    const [port] = await freePorts(1);
    const later: Action = { name: "later", execute: () => ({}) };
    const sdk = createHttpWorker({
      ...{ service: "pay", api: url, token: issuer.token, log: silent, timing: TIMING },
      ...{ address: `http://127.0.0.1:${port}/saga`, inlineMs: 0 },
    });
    handleAll(sdk, "pay", [later]);
    const app = fastify();
    app.register(sdk.plugin, { prefix: "/saga" });
    await app.listen({ host: "127.0.0.1", port: port ?? 0 });
    stops.push(
      () => app.close(),
      () => sdk.stop(),
    );
    await sdk.start();
    issuer.endAll();
    const given = issuer.given.length;
    await ended(await run("pay.later"));
    expect(issuer.given.length).toBe(given);
  });
});

describeWithOpenssl("a worker of the SDK with a certificate", () => {
  afterAll(stop);

  it("shows it on its streams, and its token to the API only", async () => {
    const authority = createAuthority();
    const served = authority.issue(["IP:127.0.0.1"]);
    const own = authority.issue(["URI:spiffe://shop.example/pay"]);
    const clients = join(dirname(own.certFile), "clients.json");
    writeFileSync(clients, JSON.stringify({ "spiffe://shop.example/pay": { services: ["pay"], tenant_id: A } }));
    await start({
      ...{ SAGA_TLS_CERT_FILE: served.certFile, SAGA_TLS_KEY_FILE: served.keyFile },
      SAGA_AUTH: "api_key,mtls",
      ...{ SAGA_TLS_CLIENT_CA_FILE: authority.caFile, SAGA_TLS_CLIENTS_FILE: clients },
    });
    const client = { cert: readFileSync(own.certFile), key: readFileSync(own.keyFile) };
    const certified: Action = { name: "certified", execute: () => ({}) };
    const sdk = createWorker({
      ...{ service: "pay", api: url, grpc: `127.0.0.1:${node.grpcPort}`, token: "alice" },
      ...{ tls: { ca: authority.ca, client }, log: silent, timing: TIMING },
    });
    handleAll(sdk, "pay", [certified]);
    await sdk.start();
    // It has started, so its actions are registered and a stream is open. With a token alone the same stream would be open, too: another
    // certificate is refused beside it.
    const stranger = createAuthority("another one").issue(["URI:spiffe://shop.example/pay"]);
    const refused = { cert: readFileSync(stranger.certFile), key: readFileSync(stranger.keyFile) };
    const lines: string[] = [];
    const log = { ...silent, warn: (fields: object) => void lines.push(JSON.stringify(fields)) };
    const other = createWorker({
      ...{ service: "pay", api: url, grpc: `127.0.0.1:${node.grpcPort}`, token: "alice" },
      ...{ tls: { ca: authority.ca, client: refused }, log, timing: TIMING },
    });
    handleAll(other, "pay", [certified]);
    const starting = other.start().catch(() => {});
    await until(() => lines.some((line) => line.includes("UNAUTHENTICATED")), { what: "its refusal" });
    await Promise.all([sdk.stop(), other.stop(), starting]);
  });
});

describeWithRabbitMq("a worker of the SDK over RabbitMQ", (amqpUrl) => {
  beforeAll(() => start(brokerSettings(amqpUrl)));
  afterAll(stop);

  it("reports with the token of the dispatch", async () => {
    const issuer = new Issuer();
    const queued: Action = { name: "queued", execute: () => ({}) };
    const sdk = createRabbitMqWorker({
      ...{ service: "queue.pay", api: url, token: issuer.token, log: silent, timing: TIMING },
      ...{ url: amqpUrl, queue: "queue.pay/tests" },
    });
    handleAll(sdk, "queue.pay", [queued]);
    await sdk.start();
    issuer.endAll();
    const given = issuer.given.length;
    await ended(await run("queue.pay.queued"));
    expect(issuer.given.length).toBe(given);
    await sdk.stop();
  });
});
