// The actions of the shop in the quick start as contracts: what each takes and gives. Their code is in worker.ts. And the signal of its saga.
import { defineAction, defineSignal } from "@saga-orchestrator/define";
import { Type } from "typebox";

export const shop = {
  reserve: defineAction({
    service: "shop",
    name: "reserve",
    compensable: true,
    input: Type.Object({ sku: Type.String(), quantity: Type.Integer({ minimum: 1 }) }),
    output: Type.Object({ reservation: Type.String() }),
  }),
  release: defineAction({
    service: "shop",
    name: "release",
    input: Type.Object({}),
    output: Type.Object({ released: Type.Boolean() }),
  }),
  charge: defineAction({
    service: "shop",
    name: "charge",
    input: Type.Object({ amount: Type.Number() }),
    output: Type.Object({ receipt: Type.String() }),
  }),
};

export const confirmed = defineSignal("confirmed", Type.Object({ by: Type.String() }));
