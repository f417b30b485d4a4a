// The stock is reduced; if that has succeeded, the balance, too. An error undoes both, the newest first.
import { saga } from "@saga-orchestrator/define";
import { Type } from "typebox";
import { balance, inventory } from "./actions.js";

const once = { maxAttempts: 1, initialBackoffMs: 0 };

export const reduceInventoryAndBalance = saga("reduce-inventory-and-balance", {
  name: "Reduce inventory, then balance",
  // The schema of the original checks less than the types say.
  input: Type.Unsafe<{ business_key: string; count: number; amount: number }>({
    type: "object",
    required: ["business_key", "count", "amount"],
  }),
})
  .action("reduce_inventory", inventory.reduce, {
    inputs: ({ inputs }) => ({ business_key: inputs.business_key, count: inputs.count }),
    retry: once,
    undo: [inventory.compensateReduce, ({ inputs }) => ({ business_key: inputs.business_key })],
  })
  .switch("choice", [{ when: ({ steps }) => steps.reduce_inventory.reduced, then: (goOn) => goOn }], {
    default: (missing) => missing.error("fail", { code: "NOT_FOUND", message: "not found" }),
  })
  .action("reduce_balance", balance.reduce, {
    inputs: ({ inputs }) => ({ business_key: inputs.business_key, amount: inputs.amount }),
    retry: once,
    undo: [balance.compensateReduce, ({ inputs }) => ({ business_key: inputs.business_key })],
  })
  .end(({ inputs }) => ({ business_key: inputs.business_key }), { id: "succeed" });
