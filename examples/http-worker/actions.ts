// The action of the label printer as a contract: what it takes and gives. Its code is in worker.ts.
import { defineAction } from "@saga-orchestrator/define";
import { Type } from "typebox";

export const labels = {
  print: defineAction({
    service: "labels",
    name: "print",
    errorCodes: ["no_address"],
    input: Type.Object({ address: Type.String() }),
    output: Type.Object({ label: Type.String() }),
  }),
};
