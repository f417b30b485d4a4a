// The saga of this example: one label is printed.
import { saga } from "@saga-orchestrator/define";
import { Type } from "typebox";
import { labels } from "./actions.js";

export const label = saga("label", {
  name: "Print a label",
  version: 1,
  published: true,
  uncheckedInput: Type.Object({ address: Type.String() }),
})
  .action("print", labels.print, { inputs: ({ inputs }) => ({ address: inputs.address }) })
  .end(({ steps }) => steps.print.label, { id: "done" });
