// The worker of the bench, a process of its own: echo, reserve, release and refuse over one of the three transports. It ends when the
// bench ends or disconnects. The variables of its environment are those of WorkerSettings.
import { type AddressInfo, createServer } from "node:net";
import { connect } from "amqplib";
import fastify from "fastify";
import { Type } from "typebox";
import { createLogger } from "../src/log.js";
import { createHttpWorker } from "../src/sdk/worker/http/index.js";
import { ActionError, createWorker, defineAction, type Handles } from "../src/sdk/worker/index.js";
import { createRabbitMqWorker } from "../src/sdk/worker/rabbitmq/index.js";
import type { WorkerSettings } from "./deployment/worker.js";
import { WORKER_SERVICE } from "./workloads.js";

interface Stoppable {
  stop(): Promise<void>;
}

/** A progress line is not interrupted by a worker that connects. */
const log = createLogger({ logLevel: "warn" });
const any = { service: WORKER_SERVICE, input: Type.Object({}), output: Type.Object({}) };
const echo = (input: object) => input;
const refuse = () => {
  throw new ActionError("refused", "the action refuses every order", { retryable: false });
};

function handled<Worker extends Handles>(worker: Worker): Worker {
  return worker
    .handle(defineAction({ name: "echo", ...any }), echo)
    .handle(defineAction({ name: "reserve", ...any, compensable: true }), echo)
    .handle(defineAction({ name: "release", ...any }), echo)
    .handle(defineAction({ name: "refuse", ...any }), refuse);
}

async function startWorker(settings: WorkerSettings): Promise<Stoppable> {
  if (settings.transport === "http") return overHttp(settings);
  return settings.transport === "rabbitmq" ? overRabbitMq(settings) : overGrpc(settings);
}

async function overGrpc({ grpc, api, maxInFlight, token }: WorkerSettings): Promise<Stoppable> {
  const credential = token !== undefined && { token };
  const worker = handled(createWorker({ service: WORKER_SERVICE, grpc, api, maxInFlight, log, ...credential }));
  await worker.start();
  return worker;
}

async function overHttp({ api, host, maxInFlight }: WorkerSettings): Promise<Stoppable> {
  const app = fastify();
  const port = await freePort(host);
  const address = `http://${host}:${port}/`;
  await app.register(async (scope) => {
    const worker = handled(createHttpWorker({ service: WORKER_SERVICE, api, address, maxInFlight, log }));
    await scope.register(worker.plugin);
    app.addHook("onListen", () => worker.start());
    app.addHook("onClose", () => worker.stop());
  });
  await app.listen({ host, port });
  return { stop: () => app.close() };
}

async function overRabbitMq({ api, amqp, queue, maxInFlight }: WorkerSettings): Promise<Stoppable> {
  const reach = { api, url: amqp, queue, prefetch: maxInFlight };
  const worker = handled(createRabbitMqWorker({ service: WORKER_SERVICE, ...reach, log }));
  await worker.start();
  const stop = async () => {
    await worker.stop();
    const broker = await connect(amqp);
    const channel = await broker.createChannel();
    for (const name of [queue, `${queue}.dead`]) await channel.deleteQueue(name);
    await broker.close();
  };
  return { stop };
}

async function freePort(host: string): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

const worker = await startWorker(JSON.parse(process.env.BENCH_WORKER ?? "{}") as WorkerSettings);
process.send?.("ready");
process.once("disconnect", async () => {
  await worker.stop();
  process.exit();
});
