// Starts one order on the service that runs, waits for its end and prints its result: npm run start-one, or with an amount: npm run start-one -- 950.
import { SagaClient, SagaFailed, Unreachable } from "@saga-orchestrator/client";
import { order } from "./workflows/order.js";

const { SAGA_URL: url = "http://127.0.0.1:8080", SAGA_TOKEN: token } = process.env;
const amount = Number(process.argv[2] ?? 9.5);

const client = new SagaClient({ url, token });
try {
  const run = await client.start(order, { inputs: { sku: "tea", quantity: 2, amount } });
  console.log(`started ${run.id}`);
  console.log("result", await run.result());
} catch (error) {
  if (error instanceof SagaFailed)
    console.log(`failed at ${error.step} with ${error.code}: what was done before is undone`);
  else if (error instanceof Unreachable) console.log(`there is no service at ${url}: start it with npm run dev`);
  else throw error;
  process.exitCode = 1;
}
