// Workflows per second over HTTP, with the real service and everything else on one machine: ten in-process steps at 64 and at 1
// steps a commit, and three steps over each transport with 64 runs at once. RabbitMQ needs AMQP_URL. Compare ratios, not numbers.
import { randomUUID } from "node:crypto";
import { type AddressInfo, createServer } from "node:net";
import { connect } from "amqplib";
import fastify from "fastify";
import { Type } from "typebox";
import { createHttpWorker } from "../src/sdk/worker/http/index.js";
import { createWorker, defineAction } from "../src/sdk/worker/index.js";
import { createRabbitMqWorker } from "../src/sdk/worker/rabbitmq/index.js";
import { ended, freshDatabase, load, perSecond, post, startService } from "./service.js";

const AT_ONCE = 64;
const COUNT = Number(process.env.COUNT ?? 6_000);
const PROFILE = process.env.PROFILE ? ["--cpu-prof", `--cpu-prof-dir=${process.env.PROFILE}`] : [];

const TEN_STEPS = {
  id: "ten-steps",
  name: "Ten recorded in-process steps",
  start: "s0",
  published: true,
  steps: Array.from({ length: 10 }, (_, index) => ({
    id: `s${index}`,
    type: "transform",
    expression: `inputs.amount * ${index} + 1`,
    ...(index < 9 && { next: `s${index + 1}` }),
  })),
};

const THREE_CALLS = {
  id: "three-calls",
  name: "Three steps of a worker",
  start: "a",
  published: true,
  steps: ["a", "b", "c"].map((id, index, all) => ({
    id,
    type: "action",
    action: "bench.echo",
    inputs: { amount: "${inputs.amount}" },
    ...(index < 2 && { next: all[index + 1] }),
  })),
};

const actions = [
  defineAction({ name: "echo", input: Type.Object({}), output: Type.Object({}), execute: async (input) => input }),
];
const AMQP_URL = process.env.AMQP_URL ?? "";

type OpenWorker = (service: { readonly grpc: string; readonly base: string }) => Promise<{ stop(): Promise<void> }>;

const overGrpc: OpenWorker = async ({ grpc, base: api }) => {
  const worker = createWorker({ service: "bench", grpc, api, maxInFlight: AT_ONCE, actions });
  await worker.start();
  return worker;
};

const overHttp: OpenWorker = async ({ base: api }) => {
  const app = fastify();
  let address = "http://127.0.0.1:1/";
  await app.register(async (scope) => {
    const { port } = await freePort();
    address = `http://127.0.0.1:${port}/`;
    const worker = createHttpWorker({ service: "bench", api, address, maxInFlight: 2 * AT_ONCE, actions });
    await scope.register(worker.plugin);
    app.addHook("onListen", () => worker.start());
    app.addHook("onClose", () => worker.stop());
  });
  await app.listen({ host: "127.0.0.1", port: Number(new URL(address).port) });
  return { stop: () => app.close() };
};

const overRabbitMq: OpenWorker = async ({ base: api }) => {
  const queue = `saga-bench.${randomUUID()}`;
  const worker = createRabbitMqWorker({ service: "bench", api, url: AMQP_URL, queue, prefetch: AT_ONCE, actions });
  await worker.start();
  const stop = async () => {
    await worker.stop();
    const broker = await connect(AMQP_URL);
    const channel = await broker.createChannel();
    for (const name of [queue, `${queue}.dead`]) await channel.deleteQueue(name);
    await broker.close();
  };
  return { stop };
};

async function freePort(): Promise<{ port: number }> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return { port };
}

interface Figures {
  readonly workflows: number;
  readonly transitions: number;
}

async function measure(
  workflow: typeof TEN_STEPS | typeof THREE_CALLS,
  steps: number,
  env: Record<string, string>,
  open: OpenWorker,
): Promise<Figures> {
  const database = await freshDatabase();
  const service = await startService(database.url, { LOG_LEVEL: "info", ...env }, PROFILE);
  const worker = await open(service);
  await post(`${service.base}/api/v1/workflows`, workflow);
  const run = async (count: number, total: number) => {
    await load(count, AT_ONCE, () =>
      post(`${service.base}/api/v1/sagas/start`, { workflow_id: workflow.id, inputs: { amount: 7 } }),
    );
    await ended(database.sql, workflow.id, total);
  };
  const warm = Math.round(COUNT / 4);
  await run(warm, warm);
  const since = performance.now();
  await run(COUNT, warm + COUNT);
  const workflows = perSecond(COUNT, since);
  await worker.stop();
  await service.stop();
  await database.drop();
  return { workflows, transitions: workflows * steps };
}

const cases = [
  ["ten in-process steps, 64 steps a commit", TEN_STEPS, 10, { SAGA_STEPS_PER_COMMIT: "64" }, overGrpc],
  ["ten in-process steps, 1 step a commit", TEN_STEPS, 10, { SAGA_STEPS_PER_COMMIT: "1" }, overGrpc],
  // Each call takes three transitions: entered, dispatched, answered.
  ["three gRPC steps, 64 at once", THREE_CALLS, 9, {}, overGrpc],
  ["three HTTP steps, 64 at once", THREE_CALLS, 9, {}, overHttp],
  ["three RabbitMQ steps, 64 at once", THREE_CALLS, 9, { AMQP_URL }, overRabbitMq],
] as const;

for (const [name, workflow, transitions, env, open] of cases) {
  if (open === overRabbitMq && AMQP_URL === "") continue;
  if (process.env.ONLY && !name.includes(process.env.ONLY)) continue;
  const figures = await measure(workflow, transitions, env, open);
  console.log(`${name}: ${figures.workflows} workflows/s, ${figures.transitions} transitions/s`);
}
