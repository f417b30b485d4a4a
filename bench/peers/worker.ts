// Our worker: the actions of the workloads over gRPC, counted.
import { Type } from "typebox";
import { ActionError, createWorker, defineAction } from "../../src/sdk/worker/index.js";
import { WORKER_SERVICE } from "../workloads.js";

const calls: Record<string, number> = {};
const Any = Type.Object({});

const worker = createWorker({
  service: WORKER_SERVICE,
  grpc: process.env.GRPC ?? "",
  api: process.env.API ?? "",
  maxInFlight: 64,
});

function handle(name: string, execute: (input: object) => object): void {
  const action = defineAction({ service: WORKER_SERVICE, name, input: Any, output: Any, compensable: true });
  worker.handle(action, async (input) => {
    calls[name] = (calls[name] ?? 0) + 1;
    return execute(input);
  });
}

for (const name of ["echo", "reserve", "release"]) handle(name, (input) => input);
handle("refuse", () => {
  throw new ActionError("refused", "refused for good", { retryable: false });
});
await worker.start();
console.log(JSON.stringify({ msg: "ready" }));
process.once("SIGTERM", async () => {
  await worker.stop();
  console.log(JSON.stringify({ calls }));
  process.exit();
});
