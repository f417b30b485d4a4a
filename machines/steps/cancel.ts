// `cancel`: cancels a run, this one if no other is named; cancelling oneself ends the run.
import { defaulted, flag, optional, text } from "../definition/attribute.js";
import { targetOf } from "./emit_signal.js";
import { stepType, textOf } from "./step.js";

export const cancel = stepType({
  name: "cancel",
  summary: "Cancels a run: this one if no other is named.",
  attributes: {
    run_id: optional(text, "The run to cancel; this one if absent."),
    reason: optional(text, "Why; `cancelled` if absent."),
    compensate: defaulted(flag, true, "Whether completed steps are undone."),
  },
  enter({ attributes, scope, facts, run, plan, entry }) {
    const { compensate } = attributes;
    const reason = (attributes.reason && textOf(attributes.reason, scope, "reason")) || "cancelled";
    const to = attributes.run_id ? textOf(attributes.run_id, scope, "run_id").toLowerCase() : run.id;
    if (to === run.id) return { kind: "cancel", reason, compensate };
    if (run.dryRun) return { kind: "skipped", reason: "dry_run" };
    const missing = targetOf(to, facts);
    if (missing) return missing;
    const id = facts.uuid(run.id, `${run.id}/${plan.id}/${entry}/cancel`);
    const command = { type: "cancel", reason, compensate, actor: "coordinator" } as const;
    return { kind: "done", effects: [{ kind: "send", to, id, command }] };
  },
});
