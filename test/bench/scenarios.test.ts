// Every scenario once, with counts that are tiny: on a deployment of its own where it needs one, else on a service that is there for all of
// them, over the public API alone; and at a rate.
// @module-tag long
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import type { ResultFile } from "../../bench/result.js";
import { SCENARIOS } from "../../bench/scenarios/index.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { measured } from "./command.js";

const SIZE = ["--count", "20", "--warmup", "4", "--rows", "2000"];

const amqpUrl = inject("amqpUrl");
const possible = SCENARIOS.filter(({ worker }) => worker !== "rabbitmq" || amqpUrl !== "");
/** With a worker of each transport; the worker of RabbitMQ needs the exchange of its service. */
const onItsOwn = possible.filter(
  ({ name, ownOnly, settings, worker }) =>
    ownOnly !== undefined || settings !== undefined || worker === "rabbitmq" || name === "three-steps-grpc",
);
const onTarget = possible.filter((scenario) => !onItsOwn.includes(scenario));
const namesOf = (scenarios: typeof possible) => scenarios.map(({ name }) => name);

function isMeasured(file: ResultFile, name: string) {
  const measurement = file.scenarios.find(({ scenario }) => scenario === name);
  expect(measurement).toMatchObject({ repetitions: [{ errors: 0 }] });
  const [repetition] = measurement?.repetitions ?? [];
  expect(repetition?.count).toBeGreaterThanOrEqual(20);
  expect(repetition?.latencies.length).toBeGreaterThan(name === "cold-start" ? -1 : 0);
  return repetition;
}

describe("on a deployment of its own", () => {
  let file: ResultFile;
  beforeAll(async () => {
    const broker = amqpUrl === "" ? [] : ["--amqp", amqpUrl];
    file = await measured("own.json", "--scenario", namesOf(onItsOwn).join(), ...SIZE, ...broker);
  }, 400_000);

  it.each(namesOf(onItsOwn))("%s is measured without an error", (name) => {
    isMeasured(file, name);
  });
});

describe("on a target, over the public API alone,", () => {
  let database: TestDatabase;
  let service: ServiceProcess;
  let file: ResultFile;
  const on = () => ["--target", service.url, "--grpc", service.grpcAddress];
  beforeAll(async () => {
    database = await createTestDatabase();
    service = await (await createService({ DATABASE_URL: database.url })).start();
    file = await measured("target.json", "--scenario", namesOf(onTarget).join(), ...SIZE, ...on());
  }, 400_000);
  afterAll(async () => {
    await service.stop();
    await database.drop();
  });

  it.each(namesOf(onTarget))("%s is measured without an error", (name) => {
    expect(file).toMatchObject({ target: service.url });
    const repetition = isMeasured(file, name);
    expect(repetition).toMatchObject({ writes: null });
    const unknown = repetition?.processes.filter(({ cpu_seconds }) => cpu_seconds === null);
    expect(unknown?.map(({ role }) => role).sort()).toEqual(["postgres", "service"]);
  });

  it("a load at a rate is measured", async () => {
    const open = await measured("open.json", "--scenario", "ten-steps", "--rate", "50", "--count", "20", ...on());
    expect(open.scenarios).toMatchObject([
      { load: { kind: "open", rate_per_second: 50 }, repetitions: [{ count: 20, errors: 0 }] },
    ]);
  });
});
