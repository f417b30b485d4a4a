// Our worker: the actions of the workloads over gRPC, counted.
import { Type } from "typebox";
import { ActionError, createWorker, defineAction } from "../../src/sdk/worker/index.js";
import { WORKER_SERVICE } from "../workloads.js";

const calls: Record<string, number> = {};
const Any = Type.Object({});

function action(name: string, execute: (input: object) => object) {
  const count = (input: object) => {
    calls[name] = (calls[name] ?? 0) + 1;
    return execute(input);
  };
  return defineAction({ name, input: Any, output: Any, compensable: true, execute: async (input) => count(input) });
}

const worker = createWorker({
  service: WORKER_SERVICE,
  grpc: process.env.GRPC ?? "",
  api: process.env.API ?? "",
  maxInFlight: 64,
  actions: [
    action("echo", (input) => input),
    action("reserve", (input) => input),
    action("release", (input) => input),
    action("refuse", () => {
      throw new ActionError("refused", "refused for good", { retryable: false });
    }),
  ],
});
await worker.start();
console.log(JSON.stringify({ msg: "ready" }));
process.once("SIGTERM", async () => {
  await worker.stop();
  console.log(JSON.stringify({ calls }));
  process.exit();
});
