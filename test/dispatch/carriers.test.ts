// The promises of a carrier, kept by gRPC: a real service, real sockets. The other carriers keep them in the long form.
// @access both
import { afterAll, beforeAll, describe } from "vitest";
import { openGrpcWorker } from "./carriers-rig.js";
import { startService, stopService, suite } from "./carriers-suite.js";

describe("a worker", () => {
  beforeAll(() => startService());
  afterAll(stopService);

  describe("over gRPC", () => suite("grpc", openGrpcWorker));
});
