// The saga: goods are reserved, then the card is charged. If the charge fails, the reservation is released.
import { saga } from "@saga-orchestrator/define";
import { Type } from "typebox";
import { shop } from "../actions.js";

export const order = saga("order", {
  name: "An order",
  input: Type.Object({
    sku: Type.String(),
    quantity: Type.Integer({ minimum: 1 }),
    amount: Type.Number({ minimum: 0 }),
  }),
})
  .action("reserve", shop.reserve, {
    inputs: ({ inputs }) => ({ sku: inputs.sku, quantity: inputs.quantity }),
    undo: [shop.release, ({ output }) => ({ reservation: output.reservation })],
  })
  .action("charge", shop.charge, {
    inputs: ({ inputs }) => ({ amount: inputs.amount }),
    retry: { maxAttempts: 5, initialBackoffMs: 200 },
  })
  .end(({ steps }) => ({ reservation: steps.reserve.reservation, receipt: steps.charge.receipt }));
