// The actions of the shop as contracts: three effects, and the undo of each. Their code is in worker.ts.

import { defineAction } from "@saga-orchestrator/define";
import { Type } from "typebox";

/** An undo must not be abandoned: it is retried until it succeeds. */
const UNTIL_IT_SUCCEEDS = { maxAttempts: -1, initialBackoffMs: 200, maxBackoffMs: 2_000 };

const Id = Type.String({ minLength: 1 });
const Made = Type.Object({ result: Type.String() });

const effect = { service: "shop", compensable: true, output: Made } as const;
const undo = {
  service: "shop",
  timeoutMs: 5_000,
  retry: UNTIL_IT_SUCCEEDS,
  input: Type.Object({ order_id: Id }),
  output: Made,
} as const;

export const shop = {
  reserveStock: defineAction({
    ...effect,
    name: "reserve_stock",
    description: "Reserves pieces of an article for an order.",
    input: Type.Object({ order_id: Id, sku: Id, quantity: Type.Integer(), scenario: Id }),
    errorCodes: ["out_of_stock", "warehouse_busy"],
  }),
  releaseStock: defineAction({ ...undo, name: "release_stock", description: "Releases reserved pieces." }),
  chargeCard: defineAction({
    ...effect,
    name: "charge_card",
    description: "Charges a customer's card.",
    input: Type.Object({ order_id: Id, amount_cents: Type.Integer(), scenario: Id }),
    errorCodes: ["card_declined"],
  }),
  refundCard: defineAction({ ...undo, name: "refund_card", description: "Refunds a charge." }),
  notifyCustomer: defineAction({
    ...effect,
    name: "notify_customer",
    description: "Notifies a customer that the parcel has arrived.",
    input: Type.Object({ order_id: Id, email: Id, text: Id, scenario: Id }),
    errorCodes: ["no_such_mailbox"],
  }),
  retractNotice: defineAction({ ...undo, name: "retract_notice", description: "Retracts a notice." }),
};
