// The saga of the demo. A step that fails for good, or a parcel that does not arrive, leads to the undo of what was done before.
import { cel, defineSignal, orElse, saga, text } from "@saga-orchestrator/define";
import { Type } from "typebox";
import { shop } from "./actions.js";

const input = Type.Object(
  {
    order_id: Type.String({ minLength: 1, maxLength: 64 }),
    email: Type.String({ maxLength: 254 }),
    sku: Type.String({ minLength: 1, maxLength: 64 }),
    quantity: Type.Integer({ minimum: 1, maximum: 100 }),
    unit_price_cents: Type.Integer({ minimum: 1, maximum: 1_000_000 }),
    scenario: Type.String({ maxLength: 64 }),
  },
  { additionalProperties: false },
);

/** What the carrier says of a parcel: "delivered", "lost", or a status that this saga does not know. */
const parcel = defineSignal(
  "parcel",
  Type.Object({ status: Type.Optional(Type.String()), tracking: Type.Optional(Type.String()) }),
);

export const orderFulfilment = saga("order-fulfilment", {
  version: 1,
  name: "Order fulfilment",
  description:
    "Reserves stock, charges the card, waits for the parcel and notifies the customer. A failure undoes the completed steps.",
  published: true,
  input,
})
  .transform("price", ({ inputs }) => cel<number>`${inputs.quantity} * ${inputs.unit_price_cents}`, {
    title: "Compute the price",
    saveAs: "amount_cents",
  })
  .action("reserve", shop.reserveStock, {
    title: "Reserve stock",
    inputs: ({ inputs: { order_id, sku, quantity, scenario } }) => ({ order_id, sku, quantity, scenario }),
    timeoutMs: 8_000,
    heartbeatTimeoutMs: 2_500,
    retry: { maxAttempts: 6, initialBackoffMs: 200, maxBackoffMs: 1_000 },
    undo: [shop.releaseStock, ({ inputs }) => ({ order_id: inputs.order_id })],
  })
  .waitDuration("hold", "PT0.5S", {
    title: "Hold large orders briefly before charging",
    when: ({ vars }) => cel`${vars.amount_cents} >= 50000`,
  })
  .action("charge", shop.chargeCard, {
    title: "Charge the card",
    inputs: ({ inputs: { order_id, scenario }, vars }) => ({ order_id, amount_cents: vars.amount_cents, scenario }),
    timeoutMs: 2_500,
    retry: { maxAttempts: 3, initialBackoffMs: 200, maxBackoffMs: 1_000 },
    undo: [shop.refundCard, ({ inputs }) => ({ order_id: inputs.order_id })],
  })
  .waitForSignal("parcel", parcel, {
    title: "Wait for the carrier",
    timeoutMs: 10_000,
    onTimeout: (late) =>
      late.error("parcel_missing", {
        code: "parcel_missing",
        message: ({ inputs }) => text`the carrier sent no report about the parcel of order ${inputs.order_id}`,
      }),
  })
  .decision(
    "parcel_outcome",
    ({ steps }) => orElse(steps.parcel.status, "unreadable"),
    {
      delivered: (goOn) => goOn,
      lost: (lost) =>
        lost.error("parcel_lost", {
          code: "parcel_lost",
          message: ({ inputs }) => text`the carrier lost the parcel of order ${inputs.order_id}`,
        }),
      default: (unknown) =>
        unknown.error("parcel_unreadable", {
          code: "parcel_unreadable",
          message: ({ inputs }) => text`the carrier's report about order ${inputs.order_id} has no known status`,
        }),
    },
    { title: "Evaluate the carrier's report" },
  )
  .action("notify", shop.notifyCustomer, {
    title: "Notify the customer",
    inputs: ({ inputs: { order_id, email, scenario }, steps }) => ({
      order_id,
      email,
      text: text`Your parcel ${steps.parcel.tracking} has arrived.`,
      scenario,
    }),
    timeoutMs: 5_000,
    retry: { maxAttempts: 4, initialBackoffMs: 200, maxBackoffMs: 1_000 },
    undo: [shop.retractNotice, ({ inputs }) => ({ order_id: inputs.order_id })],
  })
  .end(
    ({ inputs, vars, steps }) => ({
      order_id: inputs.order_id,
      amount_cents: vars.amount_cents,
      tracking: steps.parcel.tracking,
    }),
    { id: "fulfilled" },
  );
