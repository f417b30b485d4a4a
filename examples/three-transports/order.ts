// The saga of this example: three effects over three transports. An order without an address fails last, and everything is undone.
import { cel, saga } from "@saga-orchestrator/define";
import { Type } from "typebox";
import { bank, carrier, stock } from "./actions.js";

export const order = saga("three-transports", {
  name: "An order over three transports",
  version: 1,
  published: true,
  uncheckedInput: Type.Object({ amount: Type.Number(), address: Type.String() }),
})
  .action("reserve", stock.reserve, { inputs: ({ inputs }) => ({ amount: inputs.amount }), undo: stock.release })
  .action("charge", bank.charge, { inputs: ({ inputs }) => ({ amount: inputs.amount }), undo: bank.refund })
  .action("book", carrier.book, { inputs: ({ inputs }) => ({ amount: inputs.amount }), undo: carrier.cancel })
  .assert("address", ({ inputs }) => cel`${inputs.address} != ""`, "no_address")
  .end("sent", { id: "done" });
