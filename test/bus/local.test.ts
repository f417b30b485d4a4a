// The bus of one process alone.
import { createLocalBus } from "../../src/bus/local.js";
import { busConformance } from "./conformance.js";

busConformance(
  async () => ({
    open: async (nodeId, handlers) => createLocalBus({ nodeId, handlers }),
    close: async () => undefined,
  }),
  { alone: true },
);
