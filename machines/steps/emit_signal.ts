// `emit_signal`: sends a signal to another run, as a durable command that is recorded there exactly once.

import { object, optional, required, text } from "../attribute/kinds.js";
import { ExpressionError } from "../expression/index.js";
import type { Facts } from "../messages/fact.js";
import { commandOwed } from "../messages/owed.js";
import { parseRunId, type RunId } from "../values/ids.js";
import { NO_INPUTS } from "./action.js";
import { constantText } from "./named.js";
import { failed, objectOf, type StepOutcome, stepType, textOf } from "./step.js";
import { signalNameProblem } from "./wait_for_signal.js";

function nameProblem(name: string): string | undefined {
  return name.startsWith("user_task.") ? "must not begin with user_task." : signalNameProblem(name);
}

export const emitSignal = stepType({
  name: "emit_signal",
  summary: "Sends a signal to another run.",
  attributes: {
    run_id: required(text, "The run; signals to a branch or an item go to the run that it is part of."),
    signal_name: required(text, "The signal's name."),
    payload: optional(object, "An object; {} if absent."),
  },
  output: "{signal_id}",
  errors: "`not_found`",
  meetsOthers: () => true,
  dryRunSkips: () => true,
  outputSchema: () => ({ type: "object", required: ["signal_id"], properties: { signal_id: { type: "string" } } }),
  fits({ signal_name, payload }, known) {
    const name = constantText(signal_name);
    const schema = name === undefined ? undefined : known.signal?.(name);
    const by = `the payload of the signal ${name}`;
    return schema ? [{ at: ["payload"], given: payload ?? NO_INPUTS, schema, by, code: "signal_payload" }] : [];
  },
  doubts({ signal_name }) {
    const name = constantText(signal_name);
    const problem = name === undefined ? undefined : nameProblem(name);
    return problem === undefined ? [] : [{ code: "signal_name", at: ["signal_name"], message: problem }];
  },
  enter({ attributes, scope, facts, run, plan, entry }): StepOutcome {
    const name = textOf(attributes.signal_name, scope, "signal_name");
    const problem = nameProblem(name);
    if (problem !== undefined) throw new ExpressionError(`signal_name ${problem}`);
    const to = textOf(attributes.run_id, scope, "run_id");
    const payload = objectOf(attributes.payload, scope, "payload");
    if (run.dryRun) return { kind: "skipped", reason: "dry_run", output: {} };
    const target = targetOf(to, run.id, facts);
    if (typeof target !== "string") return target;
    const id = facts.uuid(run.id, `${run.id}/${plan.id}/${entry}/signal`);
    const sender = facts.traces?.run(run);
    const traced = sender === undefined ? {} : { traceparent: sender };
    const command = { type: "signal", id, name, payload, actor: "coordinator", ...traced } as const;
    return {
      kind: "done",
      output: { signal_id: id },
      owed: commandOwed({ run, now: facts.now }, { to: target, id, command }),
    };
  },
});

/** The run that a step names, or why it cannot be reached. */
export function targetOf(text: string, self: RunId, { target }: Facts): RunId | StepOutcome {
  const runId = parseRunId(text);
  if (runId === undefined) return failed("not_found", "run_id is not a run id");
  // Not read: no store has the run before its first commit.
  if (runId === self) return runId;
  if (target === undefined) return { kind: "need", need: { kind: "target", runId } };
  return target ? runId : failed("not_found", `there is no run ${text}`);
}
