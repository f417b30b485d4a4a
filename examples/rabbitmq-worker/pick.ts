// The saga of this example: goods are picked.
import { saga } from "@saga-orchestrator/define";
import { Type } from "typebox";
import { warehouse } from "./actions.js";

export const pick = saga("pick", {
  name: "Pick goods",
  version: 1,
  published: true,
  uncheckedInput: Type.Object({ sku: Type.String(), quantity: Type.Integer() }),
})
  .action("pick", warehouse.pick, { inputs: ({ inputs }) => ({ sku: inputs.sku, quantity: inputs.quantity }) })
  .end(({ steps }) => steps.pick.picked, { id: "done" });
