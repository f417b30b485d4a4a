// The promises of a carrier, kept by gRPC, by HTTP and by RabbitMQ: a real service, real sockets, a real broker. HTTP that answers inline
// keeps them in the long form.
import { afterAll, beforeAll, describe } from "vitest";
import { describeWithRabbitMq } from "../harness/services.js";
import { openGrpcWorker, openHttpWorker, openRabbitMqWorker } from "./carriers-rig.js";
import { gateToBroker, startService, stopService, suite } from "./carriers-suite.js";

describe("a worker", () => {
  beforeAll(() => startService());
  afterAll(stopService);

  describe("over gRPC", () => suite("grpc", openGrpcWorker));
  describe("over HTTP that reports later", () => suite("http-later", () => openHttpWorker(false)));
});

describeWithRabbitMq("a worker", (url) => {
  beforeAll(() => startService(url));
  afterAll(stopService);

  describe("over RabbitMQ", () => suite("rmq", () => openRabbitMqWorker(url, gateToBroker())));
});
