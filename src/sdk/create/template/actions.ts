// What the shop can do, as contracts: what each action takes and gives. Their code is in worker.ts; sagas, clients and tests need none of it.
import { defineAction } from "@saga-orchestrator/define";
import { Type } from "typebox";

export const shop = {
  /** It has an effect, so a saga that uses it must say what undoes it. */
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
    input: Type.Object({ reservation: Type.String() }),
    output: Type.Object({ released: Type.Boolean() }),
  }),
  charge: defineAction({
    service: "shop",
    name: "charge",
    input: Type.Object({ amount: Type.Number() }),
    output: Type.Object({ receipt: Type.String() }),
  }),
};
