// A RabbitMQ worker picks goods for a few runs, whose steps wait for it in its queue.
import { expectState, type Place } from "../client.js";
import { startWorker } from "./worker.js";

export async function run({ saga, amqpUrl = "", queue: queueOf, credentials, print }: Place): Promise<void> {
  const queue = queueOf("warehouse");
  const { token } = await credentials("warehouse");
  const stop = await startWorker({ api: saga.url, url: amqpUrl, queue, token });
  try {
    await saga.publish("rabbitmq-worker", "pick.workflow.json");
    const runs = await Promise.all([1, 2, 3].map((quantity) => saga.run("pick", { sku: "tea", quantity })));
    for (const each of runs) expectState(each, "succeeded");
    print(`three runs picked ${runs.map(({ output }) => output).join(", ")} from the queue ${queue}`);
  } finally {
    await stop();
  }
}
