// A trigger starts a run every night at three. The example does not wait for the night: it lists the next ticks and fires the trigger.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../src/config/package.js";
import { expectState, type Items, type Place, type Run } from "../client.js";

const TRIGGER = join(packageRoot(), "examples", "nightly-cron", "close-day.trigger.json");

export async function run({ saga, print }: Place): Promise<void> {
  await saga.publish("nightly-cron", "close-day.workflow.json");
  const { id } = await saga.call<{ id: string }>("POST", "/triggers", JSON.parse(readFileSync(TRIGGER, "utf8")));
  const { items: ticks } = await saga.call<Items<string>>("GET", `/triggers/${id}/next?count=3`);
  print(`the next ticks are ${ticks.join(", ")}`);
  await saga.call("POST", `/triggers/${id}/fire`);
  const closed = await saga.ended((await saga.first<Run>(`/sagas?trigger_id=${id}`)).id);
  expectState(closed, "succeeded");
  print(`fired now: ${JSON.stringify(closed.output)}`);
  await saga.call("DELETE", `/triggers/${id}`);
}
