// Every scenario once, with counts that are tiny; and a target, at a rate.
import { beforeAll, describe, expect, inject, it } from "vitest";
import type { ResultFile } from "../../bench/result.js";
import { SCENARIOS } from "../../bench/scenarios/index.js";
import { createTestDatabase } from "../harness/database.js";
import { createService } from "../harness/service.js";
import { measured } from "./command.js";

const amqpUrl = inject("amqpUrl");

describe("every scenario", () => {
  const possible = SCENARIOS.filter(({ worker }) => worker !== "rabbitmq" || amqpUrl !== "");

  let file: ResultFile;
  beforeAll(async () => {
    const names = possible.map(({ name }) => name).join();
    const broker = amqpUrl === "" ? [] : ["--amqp", amqpUrl];
    const size = ["--count", "20", "--warmup", "4", "--rows", "2000"];
    file = await measured("every.json", "--scenario", names, ...size, ...broker);
  }, 400_000);

  it.each(possible.map(({ name }) => name))("%s is measured without an error", (name) => {
    const measurement = file.scenarios.find(({ scenario }) => scenario === name);
    expect(measurement).toMatchObject({ repetitions: [{ errors: 0 }] });
    const [repetition] = measurement?.repetitions ?? [];
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
