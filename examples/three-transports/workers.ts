// Three workers, one over each transport: the warehouse over gRPC, the bank over HTTP, the carrier over RabbitMQ. Their actions are
// handled in one way; only the function that creates the worker knows the transport.

import { type ActionContext, ActionError, createWorker } from "@saga-orchestrator/worker";
import { createHttpWorker } from "@saga-orchestrator/worker/http";
import { createRabbitMqWorker } from "@saga-orchestrator/worker/rabbitmq";
import fastify from "fastify";
import type { Credentials } from "../client.js";
import { bank, carrier, stock } from "./actions.js";
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

type Effect = (input: { amount: number }, ctx: ActionContext) => { booked: number };
type Undo = (input: object, ctx: ActionContext) => object;

/** The code of an effect on an account. */
const makes =
  (books: Books, account: string): Effect =>
  ({ amount }, { idempotencyKey }) => {
    if (!books.make(account, idempotencyKey, amount))
      throw new ActionError("undone_before", "it was undone before it arrived", { retryable: false });
    return { booked: amount };
  };

/** The code of its undo. */
const undoes =
  (books: Books, account: string): Undo =>
  (_input, { forwardIdempotencyKey = "" }) => {
    books.undo(account, forwardIdempotencyKey);
    return {};
  };

async function overGrpc(books: Books, { grpc, api, known }: Settings): Promise<Stop> {
  const worker = createWorker({ service: "stock", grpc, api, token: known.stock?.token })
    .handle(stock.reserve, makes(books, "stock"))
    .handle(stock.release, undoes(books, "stock"));
  await worker.start();
  return () => worker.stop();
}

async function overHttp(books: Books, { api, port, known }: Settings): Promise<Stop> {
  const address = `http://127.0.0.1:${port}/`;
  const worker = createHttpWorker({
    service: "bank",
    api,
    address,
    ...known.bank,
    // It reports each answer later, as a slow worker does.
    inlineMs: 0,
  })
    .handle(bank.charge, makes(books, "bank"))
    .handle(bank.refund, undoes(books, "bank"));
  const app = fastify();
  await app.register(worker.plugin);
  await app.listen({ host: "127.0.0.1", port });
  await worker.start();
  return async () => {
    await worker.stop();
    await app.close();
  };
}

async function overRabbitMq(books: Books, { api, amqpUrl: url, queue, known }: Settings): Promise<Stop> {
  const worker = createRabbitMqWorker({ service: "carrier", api, url, queue, token: known.carrier?.token })
    .handle(carrier.book, makes(books, "carrier"))
    .handle(carrier.cancel, undoes(books, "carrier"));
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
