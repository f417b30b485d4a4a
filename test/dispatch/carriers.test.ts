// The promises of a carrier, kept by gRPC and by RabbitMQ: a real service, real sockets, a real broker. HTTP keeps them in the long form.
import { afterAll, beforeAll, describe } from "vitest";
import { describeWithRabbitMq } from "../harness/services.js";
import { openGrpcWorker, openRabbitMqWorker } from "./carriers-rig.js";
import { gateToBroker, startService, stopService, suite } from "./carriers-suite.js";

describe("a worker", () => {
  beforeAll(() => startService());
  afterAll(stopService);

  describe("over gRPC", () => suite("grpc", openGrpcWorker));
});

describeWithRabbitMq("a worker", (url) => {
  beforeAll(() => startService(url));
  afterAll(stopService);

  describe("over RabbitMQ", () => suite("rmq", () => openRabbitMqWorker(url, gateToBroker())));
});
