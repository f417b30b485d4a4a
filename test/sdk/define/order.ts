// The definition that the design of the package begins with, and the contracts that the tests of this room use. It is not an example for users:
// those are in examples/.
import { cel, defineAction, defineSignal, saga } from "@saga-orchestrator/define";
import { Type } from "typebox";

const Amount = Type.Object({ amount_cents: Type.Integer() });

export const shop = {
  reserve: defineAction({
    ...{ service: "shop", name: "reserve", compensable: true },
    input: Type.Object({ sku: Type.String(), quantity: Type.Integer() }),
    output: Type.Object({ reservation: Type.String() }),
  }),
  release: defineAction({ service: "shop", name: "release", input: Type.Object({}), output: Type.Object({}) }),
  charge: defineAction({
    ...{ service: "shop", name: "charge", compensable: true },
    input: Amount,
    output: Type.Object({ receipt: Type.String() }),
  }),
  refund: defineAction({
    ...{ service: "shop", name: "refund" },
    input: Type.Object({ receipt: Type.String() }),
    output: Type.Object({}),
  }),
  notify: defineAction({
    ...{ service: "shop", name: "notify" },
    input: Type.Object({ text: Type.String(), copies: Type.Optional(Type.Integer()) }),
    output: Type.Object({ at: Type.String(), note: Type.Optional(Type.String()) }),
  }),
};

export const confirmed = defineSignal("confirmed", Type.Object({ by: Type.String() }));

export const order = saga("order", {
  name: "An order",
  input: Type.Object({ sku: Type.String(), quantity: Type.Integer(), amount_cents: Type.Integer() }),
})
  .assert("worth", ({ inputs }) => cel<boolean>`${inputs.amount_cents} > 0`, "nothing_to_pay")
  .action("reserve", shop.reserve, {
    inputs: ({ inputs }) => ({ sku: inputs.sku, quantity: inputs.quantity }),
    undo: shop.release,
  })
  .waitForSignal("confirm", confirmed, { timeoutMs: 86_400_000 })
  .action("charge", shop.charge, {
    inputs: ({ inputs }) => ({ amount_cents: cel<number>`math.round(${inputs.amount_cents} * 1.19)` }),
    undo: [shop.refund, ({ output }) => ({ receipt: output.receipt })],
    retry: { maxAttempts: 5, initialBackoffMs: 200 },
  })
  .end(({ steps }) => ({ receipt: steps.charge.receipt, confirmed_by: steps.confirm.by }));
