// The promises of a carrier, kept by HTTP that answers inline, by HTTP that reports later, and by RabbitMQ with a real broker. gRPC is in
// carriers.test.ts.
// @module-tag long
// @access both
import { afterAll, beforeAll, describe } from "vitest";
import { describeWithRabbitMq } from "../harness/services.js";
import { openHttpWorker, openRabbitMqWorker } from "./carriers-rig.js";
import { gateToBroker, startService, stopService, suite } from "./carriers-suite.js";

describe("a worker", () => {
  beforeAll(() => startService());
  afterAll(stopService);

  describe("over HTTP that answers inline", () => suite("http-inline", () => openHttpWorker(true)));
  describe("over HTTP that reports later", () => suite("http-later", () => openHttpWorker(false)));
});

describeWithRabbitMq("a worker", (url) => {
  beforeAll(() => startService(url));
  afterAll(stopService);

  describe("over RabbitMQ", () => suite("rmq", () => openRabbitMqWorker("rmq", url, gateToBroker())));
});
