// `cancel`: cancels a run. Without a `run_id` it cancels its own run, which ends.
import { defaulted, flag, optional, text } from "../attribute/kinds.js";
import { commandOwed } from "../messages/owed.js";
import { targetOf } from "./emit_signal.js";
import { shownText, stepType, textOf } from "./step.js";

export const cancel = stepType({
  name: "cancel",
  summary: "Cancels a run: this one if no other is named.",
  attributes: {
    run_id: optional(text, "The run to cancel; this one if absent."),
    reason: optional(text, "Why; `cancelled` if absent."),
    compensate: defaulted(flag, true, "Whether completed steps are undone."),
  },
  errors: "`not_found`",
  // A run that cancels itself comes to its end here.
  nextWhen: ({ run_id }) => (run_id ? "another run is cancelled" : null),
  meetsOthers: ({ run_id }) => run_id !== undefined,
  dryRunSkips: ({ run_id }) => run_id !== undefined,
  enter({ attributes, scope, facts, run, plan, entry }) {
    const { compensate } = attributes;
    const reason = (attributes.reason && shownText(attributes.reason, scope, "reason")) || "cancelled";
    const to = attributes.run_id ? textOf(attributes.run_id, scope, "run_id").toLowerCase() : run.id;
    if (to === run.id) return { kind: "cancel", reason, compensate };
    if (run.dryRun) return { kind: "skipped", reason: "dry_run" };
    const target = targetOf(to, run.id, facts);
    if (typeof target !== "string") return target;
    const id = facts.uuid(run.id, `${run.id}/${plan.id}/${entry}/cancel`);
    const command = { type: "cancel", reason, compensate, actor: "coordinator" } as const;
    return { kind: "done", owed: commandOwed({ run, now: facts.now }, { to: target, id, command }) };
  },
});
