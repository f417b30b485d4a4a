// The action of the warehouse as a contract: what it takes and gives. Its code is in worker.ts.
import { defineAction } from "@saga-orchestrator/define";
import { Type } from "typebox";

export const warehouse = {
  pick: defineAction({
    service: "warehouse",
    name: "pick",
    input: Type.Object({ sku: Type.String(), quantity: Type.Integer({ minimum: 1 }) }),
    output: Type.Object({ picked: Type.Integer() }),
  }),
};
