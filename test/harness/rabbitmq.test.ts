// The services of the tests leave nothing at the broker that they share with others. Processes get their exchange from `createService`.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "amqplib";
import { describe, expect, it } from "vitest";
import { packageRoot } from "../../src/config/package.js";
import { ensureTopology, topologyOf } from "../../src/events/topology.js";
import { endWithFile } from "./file-end.js";
import { brokerSettings } from "./rabbitmq.js";
import { describeWithRabbitMq } from "./services.js";

describeWithRabbitMq("an exchange of a test's own", (url) => {
  it("goes with the test file, and its queues with it", async () => {
    const topology = topologyOf(brokerSettings(url).SAGA_EVENTS_EXCHANGE);
    const connection = await connect(url);
    await ensureTopology(connection, topology);
    await endWithFile();
    for (const check of [
      async () => (await checking(connection)).checkExchange(topology.exchange),
      async () => (await checking(connection)).checkQueue(topology.queue),
      async () => (await checking(connection)).checkQueue(topology.dead),
    ])
      await expect(check()).rejects.toThrow("NOT_FOUND");
    await connection.close();
  });
});

/** A failed check closes its channel. */
async function checking(connection: Awaited<ReturnType<typeof connect>>) {
  const channel = await connection.createChannel();
  return channel.on("error", () => {});
}

describe("a test that starts nodes in its own process", () => {
  it("takes their settings of the broker from the harness", () => {
    const root = join(packageRoot(), "test");
    const paths = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith(".ts"));
    const files = paths.map((path) => ({ path, text: readFileSync(join(root, path), "utf8") }));
    const starting = files.filter(({ text }) => /await startNode\(/.test(text));
    expect(starting.length).toBeGreaterThan(0);
    expect(starting.filter(({ text }) => text.includes("AMQP_URL: ")).map(({ path }) => path)).toEqual([]);
  });
});
