// The command `migrate`: a run that waits goes on under another published version of its workflow. Whether it may, and what of its record
// changes, is found out in machines/migrate, which the fact brings along.

import type { Command, Reason, Refused } from "../messages/command.js";
import { Needed, type VersionChange } from "../messages/fact.js";
import { type DecisionOn, refused, unchanged } from "../messages/transition.js";
import type { RunContext } from "../state/context.js";
import { isTerminal } from "../state/lifecycle.js";
import type { Failure } from "../steps/step.js";
import type { Draft } from "./draft.js";
import { acted, ended, recordAct } from "./hold.js";
import { storeVariables } from "./ledger/variables.js";

export function migrate(draft: Draft, command: Command<"migrate">): DecisionOn<"migrate"> {
  const { context, facts } = draft;
  const { version, steps = {} } = command;
  const { version: before, workflowId } = context.run;
  if (isTerminal(context.state)) return ended(draft);
  if (before === version) return unchanged({ type: "acted", state: context.state, changed: false });
  if (facts.version === undefined) throw new Needed({ kind: "version", version });
  if (facts.version === null)
    return unchanged(missing(`there is no published version ${version} of the workflow ${workflowId}`));
  const { reasons, change } = facts.version.move(context, steps, facts.conforms);
  if (!change) return unchanged(notThere(version, reasons));
  const placed = stepsOf(context);
  const fault = carryOut(draft, change);
  if (fault) return refused(fault.message);
  draft.move(facts.version);
  const renamed = renamedSteps(placed, stepsOf(draft.context));
  recordAct(draft, command, {
    ...{ from_version: before, version },
    ...(Object.keys(renamed).length > 0 && { renamed }),
  });
  draft.close("note");
  return acted(draft);
}

function carryOut(draft: Draft, { patch, stored, removed, owed }: VersionChange): Failure | undefined {
  for (const name of removed) draft.removeVariable(name);
  const fault = Object.keys(stored).length > 0 ? storeVariables(draft, stored) : undefined;
  draft.change(patch);
  draft.owe(owed);
  return fault;
}

/** The steps that the run has not left: its own, and those of the blocks around it. */
function stepsOf({ step, frames }: RunContext): readonly string[] {
  return [...(step === undefined ? [] : [step]), ...frames.map((frame) => frame.step)];
}

function renamedSteps(before: readonly string[], after: readonly string[]): Readonly<Record<string, string>> {
  const pairs = before.map((step, nth) => [step, after[nth] ?? step] as const);
  return Object.fromEntries(pairs.filter(([old, step]) => old !== step));
}

const missing = (reason: string): Refused => ({ type: "refused", reason, missing: true });

function notThere(version: number, reasons: readonly Reason[]): Refused {
  const [first] = reasons;
  const more = reasons.length > 1 ? ` (and ${reasons.length - 1} more)` : "";
  return {
    type: "refused",
    reason: `the run cannot go on under version ${version}: ${first?.message}${more}`,
    reasons,
  };
}
