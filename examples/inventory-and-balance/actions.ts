// What the services of the stock and of the balance take and give, as contracts. Each reduction has a compensation, as in the original.
import { defineAction } from "@saga-orchestrator/define";
import { Type } from "typebox";

const Key = Type.Object({ business_key: Type.String() });
const Nothing = Type.Object({});

export const inventory = {
  reduce: defineAction({
    ...{ service: "inventory", name: "reduce", compensable: true },
    input: Type.Object({ business_key: Type.String(), count: Type.Integer() }),
    output: Type.Object({ reduced: Type.Boolean() }),
  }),
  compensateReduce: defineAction({
    ...{ service: "inventory", name: "compensate_reduce" },
    ...{ input: Key, output: Nothing },
  }),
};

export const balance = {
  reduce: defineAction({
    ...{ service: "balance", name: "reduce", compensable: true },
    input: Type.Object({ business_key: Type.String(), amount: Type.Number() }),
    output: Nothing,
  }),
  compensateReduce: defineAction({
    ...{ service: "balance", name: "compensate_reduce" },
    ...{ input: Key, output: Nothing },
  }),
};
