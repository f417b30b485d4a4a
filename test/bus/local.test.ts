// The bus of a single process.
import { createLocalBus } from "../../src/bus/local.js";
import { anyBody, busConformance } from "./conformance.js";

busConformance(
  "the bus of one process",
  async () => ({
    open: async (nodeId, handlers) => createLocalBus({ nodeId, protocol: anyBody, handlers }),
    close: async () => undefined,
  }),
  { alone: true },
);
