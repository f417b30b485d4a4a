// An HTTP worker prints a label for one run, and refuses another for good.
import { expectState, type Place } from "../client.js";
import { freePorts } from "../order-fulfilment/processes.js";
import { startWorker } from "./worker.js";

export async function run({ saga, credentials, print }: Place): Promise<void> {
  const [port = 0] = await freePorts(1);
  const known = await credentials("labels");
  const stop = await startWorker({ api: saga.url, port, ...known });
  try {
    await saga.publish("http-worker", "label.workflow.json");
    const printed = await saga.run("label", { address: "Rue 1, Basel" });
    expectState(printed, "succeeded");
    print(`the run succeeded: ${printed.output}`);
    const refused = await saga.run("label", { address: "" });
    expectState(refused, "failed");
    print(`the run without an address failed: ${refused.error?.code}`);
    if (known.signingSecret === undefined) return;
    const { status } = await fetch(`http://127.0.0.1:${port}/steps`, { method: "POST", body: "{}" });
    print(`the worker answered ${status} to a call that the service did not sign`);
  } finally {
    await stop();
  }
}
