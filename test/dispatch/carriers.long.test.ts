// The promises of a carrier, kept by HTTP that answers inline and by HTTP that reports later. The other carriers are in carriers.test.ts.
import { afterAll, beforeAll, describe } from "vitest";
import { openHttpWorker } from "./carriers-rig.js";
import { startService, stopService, suite } from "./carriers-suite.js";

describe("a worker", () => {
  beforeAll(() => startService());
  afterAll(stopService);

  describe("over HTTP that answers inline", () => suite("http-inline", () => openHttpWorker(true)));
  describe("over HTTP that reports later", () => suite("http-later", () => openHttpWorker(false)));
});
