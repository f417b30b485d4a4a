// An HTTP worker: a Fastify server with a route that the service POSTs steps to. Quick answers go back in the response, others as a
// report; the SDK does both. It keeps its labels in a Map, so it is a demonstration.

import { ActionError } from "@saga-orchestrator/worker";
import { createHttpWorker } from "@saga-orchestrator/worker/http";
import fastify from "fastify";
import { labels } from "./actions.js";

/** Labels by idempotency key: a repeated attempt gets the label of the first. */
const printed = new Map<string, string>();

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
  const worker = createHttpWorker({ service: "labels", ...reach });
  worker.handle(labels.print, ({ address }, { idempotencyKey }) => {
    // An ActionError states that the action had no effect.
    if (address === "") throw new ActionError("no_address", "there is no address", { retryable: false });
    const label = printed.get(idempotencyKey) ?? `L-${printed.size + 1} to ${address}`;
    printed.set(idempotencyKey, label);
    return { label };
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
