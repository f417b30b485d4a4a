// An HTTP worker: a Fastify server with a route that the service POSTs steps to. Quick answers go back in the response, others as a
// report; the SDK does both. It keeps its labels in a Map, so it is a demonstration.
import fastify from "fastify";
import { ActionError, defineAction } from "saga-orchestrator/worker";
import { createHttpWorker } from "saga-orchestrator/worker/http";
import { Type } from "typebox";

/** Labels by idempotency key: a repeated attempt gets the label of the first. */
const labels = new Map<string, string>();

const print = defineAction({
  name: "print",
  input: Type.Object({ address: Type.String() }),
  output: Type.Object({ label: Type.String() }),
  execute({ address }, { idempotencyKey }) {
    // An ActionError states that the action had no effect.
    if (address === "") throw new ActionError("no_address", "there is no address", { retryable: false });
    const label = labels.get(idempotencyKey) ?? `L-${labels.size + 1} to ${address}`;
    labels.set(idempotencyKey, label);
    return { label };
  },
});

export interface Settings {
  /** The service's HTTP address. */
  readonly api: string;
  readonly port: number;
  /** With access control: a key with the role `worker` for the service `labels`. */
  readonly token?: string;
  /** What `saga signing-secret labels` prints. Absent: calls are not verified. */
  readonly signingSecret?: string;
}

/** Resolves when the worker takes steps, with the function that stops it. */
export async function startWorker({ api, port, token, signingSecret }: Settings): Promise<() => Promise<void>> {
  const address = `http://127.0.0.1:${port}/steps`;
  const reach = { api, address, path: "/steps", token, signingSecret };
  const worker = createHttpWorker({ service: "labels", ...reach, actions: [print] });
  const app = fastify();
  await app.register(worker.plugin);
  await app.listen({ host: "127.0.0.1", port });
  await worker.start();
  return async () => {
    await worker.stop();
    await app.close();
  };
}
