// The programs of users of the packages, as text: they are compiled and run where the packages are installed. Each prints one line.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Manifest } from "./project.js";

/** Publishes a workflow of one step, runs it, and waits for its end: `ran(action, inputs)`. */
const CLIENT = `
const send = async (path: string, body?: object): Promise<any> => {
  const headers = { "content-type": "application/json" };
  const response = await fetch(api + "/api/v1" + path, body && { method: "POST", headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(path + ": " + response.status + " " + (await response.text()));
  return response.json();
};
async function ran(action: string, inputs: object, output: string): Promise<string> {
  const steps = [{ id: "call", type: "action", action, inputs, next: "done" }, { id: "done", type: "end", output }];
  await send("/workflows", { id: workflow, name: workflow, start: "call", published: true, steps });
  const { run_id } = await send("/sagas/start", { workflow_id: workflow });
  let run = await send(\`/sagas/\${run_id}?wait_ms=20000\`);
  return \`\${run.state} with \${run.output}\`;
}
`;

/** One action with a TypeBox schema, one with a plain JSON Schema. */
export const WORKER = `
import { type ActionContext, createWorker, defineAction } from "@saga-orchestrator/worker";
import { Type } from "typebox";

const [, , api = "", grpc = "", workflow = ""] = process.argv;
const charge = defineAction({
  service: "shop",
  name: "charge",
  compensable: true,
  input: Type.Object({ amount: Type.Number(), by: Type.String() }),
  output: Type.Object({ receipt: Type.String() }),
});
const refund = defineAction({
  service: "shop",
  name: "refund",
  input: { type: "object", properties: { receipt: { type: "string" } }, required: ["receipt"] },
  output: { type: "object" },
});
const first = ({ attempt }: ActionContext) => attempt === 1;
const worker = createWorker({ service: "shop", api, grpc, log: { debug() {}, info() {}, warn() {}, error() {} } })
  .handle(charge, ({ amount, by }, ctx) => ({ receipt: first(ctx) ? \`paid \${amount.toFixed(0)} \${by}\` : "paid before" }))
  .handle(refund, ({ receipt }) => ({ refunded: receipt.length > 0 }));
// @ts-expect-error The contract says what the output is.
() => worker.handle(charge, () => ({ receipt: 5 }));
await worker.start();
${CLIENT}
console.log(await ran("shop.charge", { amount: 7, by: "ann 😀" }, "\${vars.call.receipt}"));
await worker.stop();
`;

/** A run from its start to its output, watched. It needs no types but its own and those of the page or of Node. */
export const CLIENT_PROGRAM = `
import { Conflict, SagaClient, type SagaContract } from "@saga-orchestrator/client";

const [, , url = "", workflow = ""] = process.argv;
const saga = new SagaClient({ url });
const steps = [{ id: "wait", type: "wait_for_signal", signal_name: "go", next: "end" }, { id: "end", type: "end", output: "\${vars.wait}" }];
await saga.workflows.publish({ id: workflow, name: workflow, start: "wait", steps });
const contract: SagaContract<{ amount: number }, { by: string }> = { id: workflow };
const run = await saga.start(contract, { inputs: { amount: 9.5 } }, { key: "only-once" });
// @ts-expect-error The contract says what the inputs are.
() => saga.start(contract, { inputs: { amount: "9.5" } });
let seen = 0;
for await (const event of run.watch()) {
  seen = event.seq;
  if (event.to_state === "paused") await run.signal("go", { by: "ann 😀" });
}
const again = saga.start(contract, { inputs: { amount: 1 } }, { key: "only-once" });
const refused = await again.then(() => false, (error: unknown) => error instanceof Conflict);
const { by } = await run.result();
console.log(\`succeeded with \${by}, \${seen > 2 && refused}\`);
`;

export const HTTP_WORKER = `
import { ActionError, defineAction } from "@saga-orchestrator/worker";
import { createHttpWorker } from "@saga-orchestrator/worker/http";
import { createRabbitMqWorker } from "@saga-orchestrator/worker/rabbitmq";
import fastify from "fastify";
import { Type } from "typebox";

const [, , api = "", port = "0", workflow = ""] = process.argv;
const print = defineAction({
  service: workflow,
  name: "print",
  input: Type.Object({ address: Type.String() }),
  output: Type.Object({ label: Type.String() }),
});
const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const worker = createHttpWorker({ service: workflow, api, address: \`http://127.0.0.1:\${port}/\`, log: quiet });
worker.handle(print, ({ address }) => {
  if (address === "") throw new ActionError("no_address", "there is no address");
  return { label: "L-1" };
});
// It connects to nothing before it is started.
createRabbitMqWorker({ service: workflow, api, url: "amqp://127.0.0.1", queue: "q" }).handle(print, () => ({ label: "" }));
const app = fastify();
await app.register(worker.plugin);
await app.listen({ host: "127.0.0.1", port: Number(port) });
await worker.start();
${CLIENT}
console.log(await ran(workflow + ".print", { address: "Rue de l'Été 5" }, "\${vars.call.label}"));
await worker.stop();
await app.close();
`;

export const TYPED_REHEARSAL = `
import { defineAction, defineSignal } from "@saga-orchestrator/define";
import { type Mocks, rehearse } from "@saga-orchestrator/define/testing";
import { Type } from "typebox";

const charge = defineAction({
  service: "shop",
  name: "charge",
  compensable: true,
  input: Type.Object({ amount: Type.Number() }),
  output: Type.Object({ receipt: Type.String() }),
});
export const confirmed = defineSignal("confirmed", Type.Object({ by: Type.String() }));
const wants: true = charge.compensable;
const workflow = {
  id: "pay",
  name: "Pay",
  start: "charge",
  input_schema: Type.Object({ amount: Type.Number({ minimum: 0.01 }) }),
  steps: [
    { id: "charge", type: "action", action: charge.service + "." + charge.name, inputs: { amount: "\${inputs.amount}" }, next: "done" },
    { id: "done", type: "end", output: "\${vars.charge.receipt}" },
  ],
};
const rehearsed = (mocks: Mocks) => rehearse(workflow, { inputs: { amount: 7.5 }, mocks });
const paid = rehearsed({ charge: [{ output: { receipt: "paid 7" } }] });
const declined = rehearsed({ charge: [{ error: { code: "card_declined", retryable: false } }] });
console.log(\`\${paid.state} with \${paid.output}, and \${declined.state} with \${declined.error?.code}\`);
if (!wants) throw new Error("it is compensable");
`;

/** Every name that the declarations of the entries export, imported as what it is. */
export function FROM_ENTRIES(folder: string): string {
  const { name, exports = {} } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;
  const lines = Object.entries(exports).flatMap(([entry, target], nth) => {
    if (typeof target === "string") return [];
    const declarations = readFileSync(join(folder, target.types), "utf8");
    const lists = [...declarations.matchAll(/^export (type )?\{([^}]+)\}/gm)];
    const names = lists.flatMap(([, type = "", list = ""]) =>
      [...list.matchAll(/(type )?(\w+)\s*(?:,|$)/g)].map(
        ([, kind = "", exported]) => `${type || kind}${exported} as ${exported}${nth}`,
      ),
    );
    return [`export { ${names.join(", ")} } from "${entry.replace(".", name)}";`];
  });
  if (lines.length === 0) throw new Error(`${name} has no entries`);
  return `${lines.join("\n")}\n`;
}
