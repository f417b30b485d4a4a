// The saga of this example: a trigger starts it every night. It needs no worker.
import { saga, text } from "@saga-orchestrator/define";
import { Type } from "typebox";

/** `branch` is in the trigger's own inputs; `trigger` is what every run of a cron trigger gets besides. */
const uncheckedInput = Type.Object({
  branch: Type.String(),
  trigger: Type.Object({ scheduled_at: Type.String() }),
});

export const closeDay = saga("close-day", { name: "Close the day", version: 1, published: true, uncheckedInput })
  .log("note", ({ inputs }) => text`closing the books of ${inputs.branch}`)
  .end(({ inputs }) => ({ branch: inputs.branch, for: inputs.trigger.scheduled_at }), { id: "done" });
