// A worker of the service `travel` in a process of its own, which a test can kill: it holds what it gets, or answers it at once.
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [grpc, api, does] = process.argv.slice(2);
const sdk = pathToFileURL(join(process.cwd(), "dist", "src", "sdk", "worker", "index.js")).href;
const { createWorker, defineAction } = await import(sdk);
const book = defineAction({
  ...{ service: "travel", name: "book", input: { type: "object" }, output: { type: "object" }, compensable: true },
});
await createWorker({ service: "travel", grpc, api, token: process.env.TOKEN })
  .handle(book, () => (does === "holds" ? new Promise(() => {}) : {}))
  .start();
