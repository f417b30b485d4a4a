// The saga of the quick start: goods are reserved, a person confirms, a card is charged. If the charge fails, the goods are released.
import { saga } from "@saga-orchestrator/define";
import { Type } from "typebox";
import { confirmed, shop } from "./actions.js";

const input = Type.Object({
  sku: Type.String(),
  quantity: Type.Integer({ minimum: 1 }),
  amount: Type.Number({ minimum: 0 }),
});

export const order = saga("order", { name: "An order", published: true, input })
  .action("reserve", shop.reserve, {
    inputs: ({ inputs }) => ({ sku: inputs.sku, quantity: inputs.quantity }),
    undo: shop.release,
  })
  .waitForSignal("confirm", confirmed, { timeoutMs: 86_400_000 })
  .action("charge", shop.charge, {
    inputs: ({ inputs }) => ({ amount: inputs.amount }),
    retry: { maxAttempts: 5, initialBackoffMs: 200 },
  })
  .end(
    ({ steps: { reserve, confirm, charge } }) => ({
      reservation: reserve.reservation,
      receipt: charge.receipt,
      confirmed_by: confirm.by,
    }),
    { id: "done" },
  );
