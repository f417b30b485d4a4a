// The actions of the warehouse, the bank and the carrier as contracts: each makes an effect that another one undoes. Their code is in workers.ts.
import { defineAction } from "@saga-orchestrator/define";
import { Type } from "typebox";

const effect = {
  compensable: true,
  input: Type.Object({ amount: Type.Number() }),
  output: Type.Object({ booked: Type.Number() }),
} as const;
const undo = { input: Type.Object({}), output: Type.Object({}) } as const;

export const stock = {
  reserve: defineAction({ service: "stock", name: "reserve", ...effect }),
  release: defineAction({ service: "stock", name: "release", ...undo }),
};

export const bank = {
  charge: defineAction({ service: "bank", name: "charge", ...effect }),
  refund: defineAction({ service: "bank", name: "refund", ...undo }),
};

export const carrier = {
  book: defineAction({ service: "carrier", name: "book", ...effect }),
  cancel: defineAction({ service: "carrier", name: "cancel", ...undo }),
};
