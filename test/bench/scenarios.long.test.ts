// Every scenario once, with counts that are tiny; and a target, at a rate.
import { describe, expect, inject, it } from "vitest";
import { SCENARIOS } from "../../bench/scenarios/index.js";
import { createTestDatabase } from "../harness/database.js";
import { createService } from "../harness/service.js";
import { measured } from "./command.js";

const amqpUrl = inject("amqpUrl");

describe("every scenario", () => {
  const possible = SCENARIOS.filter(({ worker }) => worker !== "rabbitmq" || amqpUrl !== "");

  it.each(possible.map(({ name }) => name))("%s is measured without an error", async (name) => {
    const broker = name === "three-steps-rabbitmq" ? ["--amqp", amqpUrl] : [];
    const size = ["--count", "20", "--warmup", "4", "--rows", "2000"];
    const { scenarios } = await measured(`${name}.json`, "--scenario", name, ...size, ...broker);
    expect(scenarios).toMatchObject([{ scenario: name, repetitions: [{ errors: 0 }] }]);
    const [repetition] = scenarios[0]?.repetitions ?? [];
    expect(repetition?.count).toBeGreaterThanOrEqual(20);
    expect(repetition?.latencies.length).toBeGreaterThan(name === "cold-start" ? -1 : 0);
  });
});

describe("a target", () => {
  it("is measured at a rate, over the public API alone", async () => {
    const database = await createTestDatabase();
    const service = await createService({ DATABASE_URL: database.url });
    await service.start();
    const args = ["--scenario", "three-steps-grpc,signal,watchers", "--count", "20"];
    const target = ["--target", service.url, "--grpc", service.grpcAddress];
    const closed = await measured("target.json", ...args, ...target);
    expect(closed).toMatchObject({ target: service.url });
    for (const { scenario, repetitions } of closed.scenarios) {
      expect([scenario, repetitions]).toMatchObject([scenario, [{ errors: 0, writes: null }]]);
      const unknown = repetitions[0]?.processes.filter(({ cpu_seconds }) => cpu_seconds === null);
      expect(unknown?.map(({ role }) => role).sort()).toEqual(["postgres", "service"]);
    }
    const open = await measured("open.json", "--scenario", "ten-steps", "--rate", "50", "--count", "20", ...target);
    expect(open.scenarios).toMatchObject([
      { load: { kind: "open", rate_per_second: 50 }, repetitions: [{ count: 20, errors: 0 }] },
    ]);
    await service.stop();
    await database.drop();
  });
});
