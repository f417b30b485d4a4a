// Workers whose service loses its database, against real nodes: the database is made anew, or is restored to an earlier time, and what the
// workers serve is registered again, over every transport.
import fastify from "fastify";
import { afterEach, describe, expect, it } from "vitest";
import { type NodeHandle, startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { createHttpWorker } from "../../src/sdk/worker/http/index.js";
import { createWorker } from "../../src/sdk/worker/index.js";
import { createRabbitMqWorker } from "../../src/sdk/worker/rabbitmq/index.js";
import { stateOf } from "../../src/store/engine/table-state.js";
import { Client } from "../faults/client.js";
import { accessSettings, workerToken } from "../harness/access.js";
import { type Action, handleAll } from "../harness/actions.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { freePorts } from "../harness/ports.js";
import { brokerSettings, ownQueue } from "../harness/rabbitmq.js";
import { describeWithRabbitMq } from "../harness/services.js";
import { until } from "../harness/until.js";

const TIMING = { resendMs: 50, backoffMs: 20, backoffMaxMs: 100, abortGraceMs: 200, registerAgainMs: 100 };

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

const ACTIONS = ["charge", "refund"].map((name): Action => ({ name, execute: () => ({ name }) }));

/** A service that keeps its addresses while its nodes come and go. */
class Service {
  private node: NodeHandle | undefined;
  /** What the workers of the test have logged. */
  readonly lines: string[] = [];

  private constructor(
    private readonly ports: readonly number[],
    private readonly amqpUrl: string | undefined,
  ) {}

  static async open(database: TestDatabase, amqpUrl?: string): Promise<Service> {
    const service = new Service(await freePorts(2), amqpUrl);
    await service.run(database);
    closers.push(() => service.stop());
    return service;
  }

  get api(): string {
    return `http://127.0.0.1:${this.ports[0]}`;
  }

  get grpc(): string {
    return `127.0.0.1:${this.ports[1]}`;
  }

  async run({ url }: TestDatabase): Promise<void> {
    await this.stop();
    const [http, grpc] = this.ports;
    const env = { HTTP_PORT: String(http), GRPC_PORT: String(grpc), LOG_LEVEL: "silent" };
    const { config } = loadConfig({ ...env, ...accessSettings(), ...(this.amqpUrl && brokerSettings(this.amqpUrl)) });
    this.node = await startNode({ config, databaseUrl: url, log: silentLog });
  }

  async stop(): Promise<void> {
    const { node } = this;
    this.node = undefined;
    await node?.stop();
  }

  async registered(): Promise<string[]> {
    const { body } = await new Client(this.api).ask("GET", "/registry/actions?service=shop");
    const items = body.items as readonly { readonly action_name: string; readonly transport: string }[];
    return items.map(({ action_name, transport }) => `${action_name} over ${transport}`).sort();
  }

  /** What every worker of the test is made with. */
  get common() {
    const keep = (fields: object, message: string) => void this.lines.push(`${message} ${JSON.stringify(fields)}`);
    const log = { debug: keep, info: keep, warn: keep, error: keep };
    return { ...workerToken(), service: "shop", api: this.api, log, timing: TIMING };
  }

  async grpcWorker(): Promise<void> {
    const worker = createWorker({ ...this.common, grpc: this.grpc });
    handleAll(worker, "shop", ACTIONS);
    closers.push(() => worker.stop());
    await worker.start();
  }
}

async function newDatabase(): Promise<TestDatabase> {
  const database = await createTestDatabase();
  closers.unshift(() => database.drop());
  return database;
}

/** Database, service, database: the first one is left for the second. */
async function loses(open: (service: Service) => Promise<void>, over: string, amqpUrl?: string): Promise<void> {
  const databases = [await newDatabase(), await newDatabase()] as const;
  const service = await Service.open(databases[0], amqpUrl);
  await open(service);
  const all = [`charge over ${over}`, `refund over ${over}`];
  expect(await service.registered()).toEqual(all);
  await service.run(databases[1]);
  await until(async () => (await service.registered()).length === 2, { what: "the actions in the new database" });
  expect(await service.registered()).toEqual(all);
  await until(() => service.lines.some((line) => line.startsWith("the service had lost actions of this worker")));
}

describe("a worker whose service comes back with an empty database registers its actions again", () => {
  it("over gRPC, when it connects again", () => loses((service) => service.grpcWorker(), "grpc"));

  it("over HTTP, though it has no connection to the service", () =>
    loses(async ({ common }) => {
      const [port] = await freePorts(1);
      const worker = createHttpWorker({ ...common, address: `http://127.0.0.1:${port}/saga` });
      handleAll(worker, "shop", ACTIONS);
      const app = fastify();
      app.register(worker.plugin, { prefix: "/saga" });
      await app.listen({ host: "127.0.0.1", port });
      closers.push(() => app.close());
      closers.push(() => worker.stop());
      await worker.start();
    }, "http"));
});

describeWithRabbitMq("a worker over RabbitMQ whose service comes back with an empty database", (url) => {
  it("registers its actions again", () =>
    loses(
      async ({ common }) => {
        const worker = createRabbitMqWorker({ ...common, url, queue: ownQueue("shop") });
        handleAll(worker, "shop", ACTIONS);
        closers.push(() => worker.stop());
        await worker.start();
      },
      "rmq",
      url,
    ));
});

describe("a gRPC worker that connects again", () => {
  it("to a database of an earlier time registers what is missing there", async () => {
    const database = await newDatabase();
    const service = await Service.open(database);
    await service.grpcWorker();
    await service.stop();
    await database.sql`delete from actions where action_name = 'refund'`;
    await service.run(database);
    await until(async () => (await service.registered()).length === 2, { what: "the action that was missing" });
  });

  it("to the database that it left changes nothing there, nor what was registered since", async () => {
    const database = await newDatabase();
    const service = await Service.open(database);
    await service.grpcWorker();
    const changed = { service: "shop", actions: [{ action_name: "charge", deprecated: true, description: "by hand" }] };
    await new Client(service.api).ask("POST", "/registry/register", changed);
    await service.stop();
    const before = await stateOf(database.sql, "actions");
    await service.run(database);
    await until(() => service.lines.some((line) => line.startsWith("the actions are still registered")));
    expect(await stateOf(database.sql, "actions")).toBe(before);
    expect(service.lines.filter((line) => line.includes("lost actions"))).toEqual([]);
  });
});
