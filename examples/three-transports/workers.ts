// Three workers, one over each transport: the warehouse over gRPC, the bank over HTTP, the carrier over RabbitMQ. Their actions are
// defined in one way; only the function that creates the worker knows the transport.
import fastify from "fastify";
import { ActionError, createWorker, defineAction } from "saga-orchestrator/worker";
import { createHttpWorker } from "saga-orchestrator/worker/http";
import { createRabbitMqWorker } from "saga-orchestrator/worker/rabbitmq";
import { Type } from "typebox";
import type { Credentials } from "../client.js";
import type { Books } from "./books.js";

export interface Settings {
  readonly api: string;
  readonly grpc: string;
  readonly amqpUrl: string;
  readonly queue: string;
  /** The port of the bank's own server. */
  readonly port: number;
  readonly known: { readonly [service in "stock" | "bank" | "carrier"]?: Credentials | undefined };
}

type Stop = () => Promise<void>;

/** An effect on an account, and its undo. */
function actionsOn(books: Books, account: string, name: string, undo: string) {
  const make = defineAction({
    ...{ name, compensable: true },
    input: Type.Object({ amount: Type.Number() }),
    output: Type.Object({ booked: Type.Number() }),
    execute({ amount }, { idempotencyKey }) {
      if (!books.make(account, idempotencyKey, amount))
        throw new ActionError("undone_before", "it was undone before it arrived", { retryable: false });
      return { booked: amount };
    },
  });
  const unmake = defineAction({
    name: undo,
    input: Type.Object({}),
    output: Type.Object({}),
    execute(_input, { forwardIdempotencyKey = "" }) {
      books.undo(account, forwardIdempotencyKey);
      return {};
    },
  });
  return [make, unmake];
}

async function overGrpc(books: Books, { grpc, api, known: { stock } }: Settings): Promise<Stop> {
  const worker = createWorker({
    service: "stock",
    grpc,
    api,
    token: stock?.token,
    actions: actionsOn(books, "stock", "reserve", "release"),
  });
  await worker.start();
  return () => worker.stop();
}

async function overHttp(books: Books, { api, port, known: { bank } }: Settings): Promise<Stop> {
  const address = `http://127.0.0.1:${port}/`;
  const worker = createHttpWorker({
    service: "bank",
    api,
    address,
    ...bank,
    // It reports each answer later, as a slow worker does.
    inlineMs: 0,
    actions: actionsOn(books, "bank", "charge", "refund"),
  });
  const app = fastify();
  await app.register(worker.plugin);
  await app.listen({ host: "127.0.0.1", port });
  await worker.start();
  return async () => {
    await worker.stop();
    await app.close();
  };
}

async function overRabbitMq(books: Books, { api, amqpUrl: url, queue, known: { carrier } }: Settings): Promise<Stop> {
  const actions = actionsOn(books, "carrier", "book", "cancel");
  const worker = createRabbitMqWorker({ service: "carrier", api, url, queue, actions, token: carrier?.token });
  await worker.start();
  return () => worker.stop();
}

/** Resolves when all three take steps, with the function that stops them. */
export async function startWorkers(books: Books, settings: Settings): Promise<Stop> {
  const stops: Stop[] = [];
  const stop = async () => void (await Promise.all(stops.map((end) => end())));
  try {
    for (const start of [overGrpc, overHttp, overRabbitMq]) stops.push(await start(books, settings));
  } catch (error) {
    await stop();
    throw error;
  }
  return stop;
}
