// `emit_signal`: sends a signal to another run. It is a durable command: recorded there exactly once.

import { object, optional, required, text } from "../definition/attribute.js";
import { ExpressionError } from "../expression/index.js";
import type { Facts } from "../facts.js";
import { isUuid } from "../uuid.js";
import { failed, type Outcome, objectOf, stepType, textOf } from "./step.js";

export const emitSignal = stepType({
  name: "emit_signal",
  summary: "Sends a signal to another run.",
  attributes: {
    run_id: required(text, "The run; a branch or an item is reached through the run that it is a part of."),
    signal_name: required(text, "The signal's name."),
    payload: optional(object, "An object; {} if absent."),
  },
  output: "{signal_id}",
  enter({ attributes, scope, facts, run, plan, entry }): Outcome {
    const name = textOf(attributes.signal_name, scope, "signal_name");
    if (!/^[A-Za-z0-9_.:-]{1,128}$/.test(name) || name.startsWith("user_task."))
      throw new ExpressionError("signal_name must be 1 to 128 of A-Z a-z 0-9 _ . : -, and not begin with user_task.");
    const to = textOf(attributes.run_id, scope, "run_id");
    const payload = objectOf(attributes.payload, scope, "payload");
    if (run.dryRun) return { kind: "skipped", reason: "dry_run", output: {} };
    const missing = targetOf(to, facts);
    if (missing) return missing;
    const id = facts.uuid(run.id, `${run.id}/${plan.id}/${entry}/signal`);
    const command = { type: "signal", id, name, payload, actor: "coordinator" } as const;
    return { kind: "done", output: { signal_id: id }, effects: [{ kind: "send", to: to.toLowerCase(), id, command }] };
  },
});

/** Whether the run that a step names is there; undefined: it is. */
export function targetOf(runId: string, { target }: Facts): Outcome | undefined {
  if (!isUuid(runId)) return failed("not_found", "run_id is no run id");
  if (target === undefined) return { kind: "need", need: { kind: "target", runId: runId.toLowerCase() } };
  return target ? undefined : failed("not_found", `there is no run ${runId}`);
}
