// A trigger starts a run when an order goes from packed to shipped, with inputs from the order. Another transition starts none.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../src/config/package.js";
import { expectState, type Items, type Place, type Run, type Saga } from "../client.js";

const TRIGGER = join(packageRoot(), "examples", "record-transition", "invoice.trigger.json");

export async function run({ saga, print }: Place): Promise<void> {
  await saga.publish("record-transition", "invoice.workflow.json");
  const { id } = await saga.call<{ id: string }>("POST", "/triggers", JSON.parse(readFileSync(TRIGGER, "utf8")));
  await orderGoes(saga, "new", "packed");
  await orderGoes(saga, "packed", "shipped");
  const started = `/sagas?trigger_id=${id}`;
  const invoiced = await saga.ended((await saga.first<Run>(started)).id);
  expectState(invoiced, "succeeded");
  const { total } = await saga.call<Items<Run>>("GET", started);
  print(`two transitions, ${total} run: ${invoiced.output}, total ${invoiced.inputs.total}`);
  await saga.call("DELETE", `/triggers/${id}`);
}

/** Publishes the transition as the system that has the records would. */
function orderGoes(saga: Saga, from_state: string, to_state: string): Promise<unknown> {
  const record = { number: "O-7", total: 42.5 };
  const payload = { record_type: "order", record_id: "7", from_state, to_state, record };
  return saga.call("POST", "/events", { topic: "record.transition", payload });
}
