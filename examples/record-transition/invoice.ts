// The saga of this example: a trigger starts it when an order is shipped. It needs no worker.
import { saga, text } from "@saga-orchestrator/define";
import { Type } from "typebox";

/** The trigger's `input_mapping` makes them of the record. */
const uncheckedInput = Type.Object({ order: Type.String(), total: Type.Number() });

export const invoice = saga("invoice", { name: "Send an invoice", version: 1, published: true, uncheckedInput })
  .log("note", ({ inputs }) => text`an invoice over ${inputs.total} for ${inputs.order}`)
  .end(({ inputs }) => text`invoiced ${inputs.order}`, { id: "done" });
