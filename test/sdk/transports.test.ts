// The same actions over every transport, with the SDK's workers and a real service: what users' code sees does not depend on how its steps
// come. And what is particular to the workers that the service calls.
// @access both
import { randomUUID } from "node:crypto";
import { type ChannelModel, connect } from "amqplib";
import fastify, { type FastifyInstance } from "fastify";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type NodeHandle, startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { readSigning } from "../../src/egress/signing.js";
import { createHttpWorker, type HttpWorkerOptions } from "../../src/sdk/worker/http/index.js";
import { type ActionContext, ActionError, createWorker } from "../../src/sdk/worker/index.js";
import { createRabbitMqWorker } from "../../src/sdk/worker/rabbitmq/index.js";
import { Client } from "../faults/client.js";
import { accessSettings, workerToken } from "../harness/access.js";
import { type Action, handleAll } from "../harness/actions.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { freePorts } from "../harness/ports.js";
import { brokerSettings, ownQueue } from "../harness/rabbitmq.js";
import { describeWithRabbitMq } from "../harness/services.js";
import { until } from "../harness/until.js";
import { nothingUnwatched } from "../run/seen.js";

const SECRET = "one signing secret of the tests, from which all others come";
const secretOf = (service: string) => readSigning(SECRET).of(service)[0] ?? "";
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const TIMING = { resendMs: 50, backoffMs: 20, backoffMaxMs: 100, abortGraceMs: 200 };
const ONCE = { maxAttempts: 1, initialBackoffMs: 0 };

let database: TestDatabase;
let node: NodeHandle;
let client: Client;

async function startService(amqpUrl?: string): Promise<void> {
  database = await createTestDatabase();
  const env = { HTTP_PORT: "0", GRPC_PORT: "0", LOG_LEVEL: "silent", SAGA_SIGNING_SECRET: SECRET, ...accessSettings() };
  const { config } = loadConfig({ ...env, ...(amqpUrl && brokerSettings(amqpUrl)) });
  node = await startNode({ config, databaseUrl: database.url, log: silentLog });
  client = new Client(`http://127.0.0.1:${node.httpPort}`);
}

async function stopService(): Promise<void> {
  await nothingUnwatched(database.sql);
  await node.stop();
  await database.drop();
}

/** The actions of a service, and what they saw. */
class Shop {
  readonly seen: { name: string; ctx: ActionContext; input: unknown }[] = [];

  readonly actions = [
    this.action("charge", (input) => {
      const { declined, breaks, garbles, unfit } = input as Readonly<Record<string, boolean>>;
      if (garbles) throw new ActionError("declined", "half of \ud83d and \u0000", { retryable: false });
      if (unfit) return { receipt: "r\u0000" };
      if (declined) throw new ActionError("declined", "the limit is 100", { retryable: false });
      if (breaks) throw new Error("the bank hung up");
      return { receipt: "r-1" };
    }),
    this.action("refund", () => undefined),
    this.action(
      "hang",
      (_, { signal }) => new Promise((resolve) => signal.addEventListener("abort", () => resolve({ stopped: true }))),
    ),
  ];

  of(runId: string, name: string) {
    return this.seen.filter((each) => each.ctx.runId === runId && each.name === name);
  }

  private action(name: string, execute: (input: unknown, ctx: ActionContext) => unknown): Action {
    return {
      ...{ name, retry: ONCE, compensable: name !== "refund" },
      execute: (input, ctx) => {
        this.seen.push({ name, ctx, input });
        return execute(input, ctx);
      },
    };
  }
}

interface Running {
  stop(): Promise<unknown>;
}

const common = (service: string) => ({
  ...workerToken(),
  ...{ service, api: client.url, log: silent, timing: TIMING, drainTimeoutMs: 5_000 },
});

async function grpc(service: string, shop: Shop): Promise<Running> {
  const worker = createWorker({ ...common(service), grpc: `127.0.0.1:${node.grpcPort}` });
  handleAll(worker, service, shop.actions);
  await worker.start();
  return worker;
}

async function http(
  service: string,
  shop: Shop,
  more: Partial<HttpWorkerOptions> = {},
): Promise<Running & { url: string }> {
  const [port] = await freePorts(1);
  const url = `http://127.0.0.1:${port}/saga`;
  const signing = { signingSecret: ["an old secret", secretOf(service)] };
  const worker = createHttpWorker({ ...common(service), ...signing, address: url, cancelCheckMs: 100, ...more });
  handleAll(worker, service, shop.actions);
  const app: FastifyInstance = fastify();
  app.register(worker.plugin, { prefix: "/saga" });
  await app.listen({ host: "127.0.0.1", port: port ?? 0 });
  await worker.start();
  const stop = async () => {
    await worker.stop();
    await app.close();
  };
  return { url, stop };
}

async function rabbitMq(url: string, service: string, shop: Shop, queue: string): Promise<Running> {
  const worker = createRabbitMqWorker({ ...common(service), url, queue, cancelCheckMs: 100 });
  handleAll(worker, service, shop.actions);
  await worker.start();
  return worker;
}

/** The promises of an SDK worker. */
function suite(service: string, open: (shop: Shop) => Promise<Running>): void {
  const shop = new Shop();
  let worker: Running;
  beforeAll(async () => {
    worker = await open(shop);
  });
  afterAll(() => worker.stop());

  const step = (action: string, inputs: object = {}, next?: string) => ({
    ...{ id: action, type: "action", action: `${service}.${action}`, inputs, ...(next && { next }) },
    ...{ compensation: { action: `${service}.refund` } },
  });
  const begin = async (steps: readonly object[]) => {
    const id = `${service}-${randomUUID()}`;
    await client.publish(id, steps as never);
    return client.start(id);
  };

  it("executes an action with its context, and its output is the step's", async () => {
    const runId = await begin([step("charge", { n: 1 })]);
    const run = await client.untilState(runId, "succeeded");
    expect(run.output).toEqual({ receipt: "r-1" });
    const [{ input, ctx } = {}] = shop.of(runId, "charge");
    expect(input).toEqual({ n: 1 });
    expect(ctx).toMatchObject({
      ...{ runId, stepId: "charge", attempt: 1, phase: "forward", dryRun: false, idempotencyKey: `${runId}:charge:1` },
    });
    expect((ctx?.deadline.getTime() ?? 0) > Date.now()).toBe(true);
  });

  it("an ActionError did not happen, any other error may have", async () => {
    const declined = await begin([step("charge", { declined: true })]);
    expect((await client.untilState(declined, "failed")).error).toMatchObject({ code: "declined" });
    expect(shop.of(declined, "refund")).toEqual([]);
    const broken = await begin([step("charge", { breaks: true })]);
    expect((await client.untilState(broken, "failed")).error).toMatchObject({ code: "error" });
    expect(shop.of(broken, "refund")).toHaveLength(1);
  });

  it("a text that the service cannot store is replaced in an error, and fails the step in an output", async () => {
    const garbled = await begin([step("charge", { garbles: true })]);
    expect((await client.untilState(garbled, "failed")).error).toMatchObject({
      ...{ code: "declined", message: "half of \uFFFD and \uFFFD" },
    });
    const unfit = await begin([step("charge", { unfit: true })]);
    expect((await client.untilState(unfit, "failed")).error).toMatchObject({ code: "schema_mismatch" });
    expect(shop.of(unfit, "refund")).toHaveLength(1);
  });

  it("an undo has its phase, and the key of what it undoes", async () => {
    const runId = await begin([step("charge", {}, "fail"), { id: "fail", type: "error", code: "late" }]);
    await client.untilState(runId, "failed");
    const [{ ctx } = {}] = shop.of(runId, "refund");
    expect(ctx).toMatchObject({ phase: "compensation", forwardIdempotencyKey: `${runId}:charge:1`, stepId: "charge" });
  });

  it("a cancel aborts what is in progress, and its answer is undone", async () => {
    const runId = await begin([step("hang")]);
    await until(() => shop.of(runId, "hang").length === 1);
    await client.insist("POST", `/sagas/${runId}/cancel`, {});
    await client.untilState(runId, "cancelled");
    expect([shop.of(runId, "hang").length, shop.of(runId, "refund").length]).toEqual([1, 1]);
  });
}

describe("the SDK", () => {
  beforeAll(() => startService());
  afterAll(stopService);

  describe("over gRPC", () => suite("over-grpc", (shop) => grpc("over-grpc", shop)));
  describe("over HTTP, inline", () => suite("over-http", (shop) => http("over-http", shop)));
  describe("over HTTP, later", () =>
    suite("over-http-later", (shop) => http("over-http-later", shop, { inlineMs: 0 })));

  describe("an HTTP worker", () => {
    const shop = new Shop();
    let worker: Running & { url: string };
    beforeAll(async () => {
      worker = await http("door", shop, { inlineMs: 200, maxInFlight: 1, drainTimeoutMs: 200 });
    });
    afterAll(() => worker.stop());

    const message = (more: object = {}) => ({
      ...{ dispatch_id: randomUUID(), run_id: randomUUID(), step_id: "a", attempt: 1, service: "door", version: 1 },
      ...{ action: "charge", inputs: {}, idempotency_key: "k", phase: "FORWARD", dry_run: false, timeout_ms: 5_000 },
      deadline_at: new Date(Date.now() + 5_000).toISOString(),
      ...{ callback_url: `${client.url}/api/v1/sagas/${randomUUID()}/actions/a/result`, ...more },
    });
    const call = async (message: object | string, secret = secretOf("door")) => {
      const body = typeof message === "string" ? message : JSON.stringify(message);
      const id = typeof message === "object" && "dispatch_id" in message ? String(message.dispatch_id) : randomUUID();
      const at = new Date();
      const signature = new Webhook(secret).sign(id, at, body);
      const stamp = String(Math.floor(at.getTime() / 1000));
      const signed = { "webhook-id": id, "webhook-timestamp": stamp, "webhook-signature": signature };
      const headers = { "content-type": "application/json", ...signed };
      const response = await fetch(worker.url, { method: "POST", headers, body });
      return { status: response.status, text: await response.text() };
    };

    it("refuses a call that is not signed with its secret, or that it cannot read", async () => {
      const body = JSON.stringify(message());
      expect(await call(message(), secretOf("another"))).toMatchObject({ status: 401 });
      expect((await fetch(worker.url, { method: "POST", body })).status).not.toBe(200);
      for (const bad of ["[]", "{", message({ inputs: 1 }), message({ callback_url: "x" })])
        expect(await call(bad), JSON.stringify(bad)).toMatchObject({ status: 400 });
      expect(shop.seen).toEqual([]);
    });

    it("executes a call that comes again once, and gives the same answer", async () => {
      const again = message();
      const answers = [await call(again), await call(again)];
      expect(answers).toEqual(Array(2).fill({ status: 200, text: '{"result":{"receipt":"r-1"}}' }));
      expect(shop.of(again.run_id, "charge")).toHaveLength(1);
    });

    it("drops what is past its deadline, and refuses what it has no room for", async () => {
      const late = message({ deadline_at: new Date(0).toISOString(), timeout_ms: 0 });
      expect(await call(late)).toMatchObject({ status: 202 });
      expect(shop.of(late.run_id, "charge")).toEqual([]);
      const hanging = message({ action: "hang", timeout_ms: 60_000 });
      expect(await call(hanging)).toMatchObject({ status: 202 });
      expect(await call(message())).toMatchObject({ status: 503 });
    });
  });
});

describeWithRabbitMq("the SDK", (url) => {
  const queue = ownQueue("over-rmq");
  let connection: ChannelModel;
  beforeAll(async () => {
    await startService(url);
    connection = await connect(url);
  });
  afterAll(async () => {
    await connection.close();
    await stopService();
  });

  describe("over RabbitMQ", () => suite("over-rmq", (shop) => rabbitMq(url, "over-rmq", shop, queue)));

  it("moves a message that it cannot read aside, with the reason", async () => {
    const worker = await rabbitMq(url, "over-rmq", new Shop(), queue);
    const channel = await connection.createChannel();
    channel.sendToQueue(queue, Buffer.from("nonsense"), { messageId: "m-1", headers: { mine: 1 } });
    const dead = await until(() => channel.get(`${queue}.dead`, { noAck: true }), { what: "the dead message" });
    expect(dead.content.toString()).toBe("nonsense");
    expect(dead.properties).toMatchObject({
      messageId: "m-1",
      headers: { mine: 1, "x-saga-reason": "it is not JSON" },
    });
    await worker.stop();
    expect((await channel.checkQueue(queue)).messageCount).toBe(0);
    await channel.close();
  });
});
