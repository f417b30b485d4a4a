// A RabbitMQ worker: it takes steps from a queue of its own and acknowledges each when its answer is recorded. It keeps what it picked
// in a Map, so it is a demonstration.
import { createRabbitMqWorker } from "@saga-orchestrator/worker/rabbitmq";
import { warehouse } from "./actions.js";

/** Pieces picked by idempotency key: a message that comes again picks nothing twice. */
const picked = new Map<string, number>();

export interface Settings {
  /** The service's HTTP address: answers are reported there. */
  readonly api: string;
  /** The broker that the service has as `AMQP_URL`. */
  readonly url: string;
  /** `warehouse`, or a name that begins with `warehouse/`: with access control the queue says whose it is. */
  readonly queue: string;
  /** With access control: a key with the role `worker` for the service `warehouse`. */
  readonly token?: string | undefined;
}

/** Resolves when the worker takes steps, with the function that stops it. */
export async function startWorker({ api, url, queue, token }: Settings): Promise<() => Promise<void>> {
  // It declares the queue, durable, and takes at most four steps at once.
  const worker = createRabbitMqWorker({ service: "warehouse", api, url, queue, token, prefetch: 4 });
  worker.handle(warehouse.pick, ({ quantity }, { idempotencyKey }) => {
    picked.set(idempotencyKey, quantity);
    return { picked: quantity };
  });
  await worker.start();
  return () => worker.stop();
}
