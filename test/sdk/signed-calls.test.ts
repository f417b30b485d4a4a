// What the service signs and what the SDK's HTTP worker takes of it, over real HTTP: calls that were replayed to another service, webhooks,
// changed ids, and secrets while they are replaced. No runs: a call is recorded on its way, and sent on to workers.
import fastify from "fastify";
import { pino } from "pino";
import { Webhook } from "standardwebhooks";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Dispatch } from "../../machines/index.js";
import { startNode } from "../../src/cluster/node.js";
import { ConfigError, loadConfig } from "../../src/config/index.js";
import { WebhookCourier } from "../../src/dispatch/webhook/courier.js";
import { Guard, listedOrAny, publicOrListed } from "../../src/egress/guard.js";
import { readSigning } from "../../src/egress/signing.js";
import { uuidv7 } from "../../src/ids.js";
import { createMetrics } from "../../src/metrics/index.js";
import { createHttpWorker } from "../../src/sdk/worker/http/index.js";
import { type Asked, openNode, Site, secretsOf } from "../dispatch/requests-rig.js";
import { makeCall } from "../dispatch/rig.js";
import { type Action, handleAll } from "../harness/actions.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { newDispatchId, newRunId } from "../harness/ids.js";
import { until } from "../harness/until.js";

const ONE = "0123456789abcdef0123456789abcdef";
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const derived = (service: string) => readSigning(ONE).of(service)[0] ?? "";
const EXECUTED = { status: 200, text: '{"result":{"receipt":"r-1"}}' };
const refused = (message: string) => ({ status: 401, text: JSON.stringify({ message }) });
const UNSIGNED = refused("the signature is missing or wrong");
const STRAYED = refused("the call is not for this service");

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface OpenWorker {
  readonly url: string;
  /** The dispatches that it executed. */
  readonly executed: string[];
  /** Of its responses. */
  readonly statuses: number[];
}

/** It is not registered: nothing asks the service for it. */
async function openWorker(service: string, signingSecret?: string | readonly string[]): Promise<OpenWorker> {
  const [executed, statuses]: [string[], number[]] = [[], []];
  const charge: Action = {
    name: "charge",
    execute: (_, { dispatchId }) => {
      executed.push(dispatchId);
      return { receipt: "r-1" };
    },
  };
  const app = fastify();
  const worker = createHttpWorker({
    ...{ service, api: "http://127.0.0.1:1", address: "http://127.0.0.1:1/", log: silent },
    ...(signingSecret !== undefined && { signingSecret }),
  });
  handleAll(worker, service, [charge]);
  app.addHook("onResponse", async (_, { statusCode }) => void statuses.push(statusCode));
  app.register(worker.plugin);
  const url = await app.listen({ host: "127.0.0.1", port: 0 });
  closing.push(async () => {
    await worker.stop();
    await app.close();
  });
  return { url, executed, statuses };
}

/** A call of the service `payments`, or another, as a node with this setting makes it; and what the node logged. */
async function callOf(setting: string, service = "payments", times = 1): Promise<{ call: Asked; logged: string[] }> {
  const site = await Site.open((_, response) => response.writeHead(202).end());
  const node = openNode({
    callbacks: {
      ...{ publicUrl: () => "http://127.0.0.1:1", removeRows: async () => {} },
      http: { guard: new Guard({ admits: listedOrAny(undefined) }), signing: readSigning(setting) },
    },
  });
  closing.push(() => site.close());
  closing.push(async () => node.dispatcher.stop(0));
  for (let nth = 0; nth < times; nth++) {
    const dispatch: Dispatch = {
      ...{ dispatchId: newDispatchId(), runId: newRunId(), dryRun: false, attempt: 1 },
      deadlineAt: Date.now() + 60_000,
      call: makeCall({ transport: "http", address: site.url, timeoutMs: 60_000, service }),
    };
    if (!node.dispatcher.reserve(dispatch.dispatchId, dispatch.call)) throw new Error("no slot is free");
    node.dispatcher.send(dispatch);
  }
  await until(() => site.asked.length === times);
  return { call: site.asked[0] as Asked, logged: node.logged };
}

type Headers = Readonly<Record<string, string>>;

async function sendTo(worker: OpenWorker, { body, headers }: Asked, more: Headers = {}) {
  const { "content-type": type, "webhook-id": id, "webhook-timestamp": at, "webhook-signature": signature } = headers;
  const own = { "content-type": type, "webhook-id": id, "webhook-timestamp": at, "webhook-signature": signature };
  const sent = Object.entries({ ...own, ...more }).filter(([, value]) => value !== undefined) as [string, string][];
  const response = await fetch(worker.url, { method: "POST", headers: sent, body });
  return { status: response.status, text: await response.text() };
}

const MAP = { payments: "the secret of payments", labels: "the secret of labels" };

describe("a signed call", () => {
  it.each([
    ["a map", JSON.stringify(MAP), MAP.payments],
    ["one secret", ONE, derived("payments")],
    ["a secret that is no ASCII", '{"payments": "schlüssel von zürich"}', "schlüssel von zürich"],
  ])("of %s is executed by the worker of its service", async (_, setting, secret) => {
    const { call } = await callOf(setting);
    const worker = await openWorker("payments", secret);
    expect(await sendTo(worker, call)).toEqual(EXECUTED);
    expect(worker.executed).toEqual([call.headers["webhook-id"]]);
  });

  it.each([
    ["a secret of its own from a map", JSON.stringify(MAP), MAP.labels],
    ["a derived one", ONE, derived("labels")],
    ["the one from which all are derived", ONE, ONE],
  ])("that is replayed to another service is refused by its worker, which has %s", async (_, setting, secret) => {
    const { call } = await callOf(setting);
    const other = await openWorker("labels", secret);
    expect(await sendTo(other, call)).toEqual(UNSIGNED);
    expect(other.executed).toEqual([]);
  });

  it("that is replayed to another service is refused even where an operator gave both the same secret", async () => {
    const same = { payments: MAP.payments, labels: MAP.payments };
    const { call } = await callOf(JSON.stringify(same));
    const other = await openWorker("labels", MAP.payments);
    expect(await sendTo(other, call)).toEqual(STRAYED);
    expect(other.executed).toEqual([]);
  });

  it("whose webhook-id is not its dispatch_id is refused, whether the id was signed or changed on the way", async () => {
    const { call } = await callOf(ONE);
    const worker = await openWorker("payments", derived("payments"));
    expect(await sendTo(worker, call, { "webhook-id": newDispatchId() })).toEqual(UNSIGNED);
    const id = newDispatchId();
    const at = new Date(Number(call.headers["webhook-timestamp"]) * 1000);
    const signature = new Webhook(derived("payments")).sign(id, at, call.body);
    const signed = { "webhook-id": id, "webhook-signature": signature };
    expect(await sendTo(worker, call, signed)).toEqual(refused("the call's dispatch_id is not its webhook-id"));
    expect(worker.executed).toEqual([]);
  });

  it("is not verified by a worker without a secret", async () => {
    const { call } = await callOf(ONE);
    expect(await sendTo(await openWorker("labels"), call, { "webhook-signature": "none" })).toEqual(EXECUTED);
  });
});

describe("a secret that replaces another", () => {
  const [old, fresh] = ["the old secret", "whsec_dGhlIG5ldyBzZWNyZXQ="];
  const both = [fresh, old];
  const signedWith = async (secrets: unknown) => (await callOf(JSON.stringify({ payments: secrets }))).call;

  it("loses no call where the workers get both first", async () => {
    const worker = await openWorker("payments", both);
    expect(await sendTo(worker, await signedWith(old))).toEqual(EXECUTED);
    expect(await sendTo(worker, await signedWith(fresh))).toEqual(EXECUTED);
  });

  it("loses no call where the service gets both first", async () => {
    const call = await signedWith(both);
    expect(String(call.headers["webhook-signature"]).split(" ")).toHaveLength(2);
    for (const secret of [old, fresh])
      expect(await sendTo(await openWorker("payments", secret), call)).toEqual(EXECUTED);
  });

  it("is the only one that counts when the old one is gone", async () => {
    expect(await sendTo(await openWorker("payments", old), await signedWith(fresh))).toEqual(UNSIGNED);
    expect(await sendTo(await openWorker("payments", fresh), await signedWith(old))).toEqual(UNSIGNED);
  });
});

describe("a service without an entry", () => {
  it("is called without a signature, which is warned about once, and its worker with a secret refuses the call", async () => {
    const { call, logged } = await callOf(JSON.stringify({ labels: MAP.labels }), "payments", 3);
    expect(call.headers).not.toHaveProperty("webhook-signature");
    expect(call.headers["webhook-id"]).toBe(JSON.parse(call.body).dispatch_id);
    expect(logged.filter((line) => line.includes("has no entry for the service payments"))).toHaveLength(1);
    expect(await sendTo(await openWorker("payments", MAP.payments), call)).toEqual(UNSIGNED);
  });
});

describe("on a database, with signing secrets,", () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase({ max: 4 });
    return () => database.drop();
  });

  it.each([
    ["that has the same secret", JSON.stringify({ payments: MAP.payments, "@webhook": MAP.payments }), MAP.payments],
    ["whose secret was derived as its own was", ONE, derived("payments")],
  ])("a webhook is no call for a worker %s", async (_, setting, secret) => {
    const worker = await openWorker("payments", secret);
    const id = uuidv7();
    // As much of a call as a workflow can write into a webhook.
    const data = { service: "payments", dispatch_id: id, action: "charge", inputs: {} };
    const message = { type: "order.made", timestamp: new Date().toISOString(), data };
    const payload = JSON.stringify({ url: worker.url, headers: {}, message });
    await database.sql`
      insert into outbox (id, run_id, shard, kind, payload, due_at)
      values (${id}, ${uuidv7()}, 1, 'webhook', ${payload}::text::json, now() + interval '30 s')`;
    const guard = new Guard({ admits: publicOrListed(["127.0.0.1"]), connectMs: 1_000 });
    const courier = new WebhookCourier({
      ...{ sql: database.sql, log: silentLog, metrics: createMetrics(), guard, now: () => Date.now() },
      secrets: secretsOf({}, setting),
    });
    courier.carry(id);
    await until(() => worker.statuses.length === 1);
    await courier.stop(1_000);
    expect([worker.statuses, worker.executed]).toEqual([[401], []]);
    await database.sql`delete from outbox`;
  });

  it("a node warns of webhooks and of each service that registers HTTP workers and has no entry, once", async () => {
    const lines: { level: number; msg: string }[] = [];
    const log = pino({ level: "warn" }, { write: (line: string) => lines.push(JSON.parse(line)) });
    const env = { HTTP_PORT: "0", GRPC_PORT: "0", SAGA_SIGNING_SECRET: JSON.stringify(MAP) };
    const node = await startNode({ config: loadConfig(env).config, databaseUrl: database.url, log });
    const register = async (service: string, transport: string) => {
      const address = transport === "http" ? { address: "http://127.0.0.1:1/" } : {};
      const actions = ["a", "b"].map((action_name) => ({ action_name, transport, ...address }));
      const response = await fetch(`http://127.0.0.1:${node.httpPort}/api/v1/registry/register`, {
        ...{ method: "POST", headers: { "content-type": "application/json" } },
        body: JSON.stringify({ service, actions }),
      });
      expect(response.status).toBe(200);
    };
    for (const service of ["payments", "third", "third"]) await register(service, "http");
    await register("fourth", "grpc");
    await node.stop();
    expect(lines.flatMap(({ msg }) => (/SAGA_SIGNING_SECRET/.test(msg) ? [msg] : []))).toEqual([
      "SAGA_SIGNING_SECRET has no entry for @webhook: webhooks that name no secret are not signed",
      "SAGA_SIGNING_SECRET has no entry for the service third: calls of its HTTP workers are not signed",
    ]);
    expect(JSON.stringify(lines)).not.toContain("the secret of");
  });

  it("a malformed setting stops the start", async () => {
    const { config } = loadConfig({ SAGA_SIGNING_SECRET: '{"payments": 7}' });
    await expect(startNode({ config, databaseUrl: database.url, log: silentLog })).rejects.toThrow(ConfigError);
  });
});
