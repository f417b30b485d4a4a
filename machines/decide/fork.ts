// The command `fork`: a new run begins where this one stood. One that waits ends in the same commit; one that has ended stays as it is, and its
// revision is confirmed. Either way the commit moves what the new run inherits. Which variables it begins with is ledger/variables-before.ts.

import { forkFault } from "../chart/program.js";
import type { Command, Reason, Refused } from "../messages/command.js";
import { type Inheritance, Needed, type StepEntries, type WorkflowFact } from "../messages/fact.js";
import { forkOwed, type NewChild } from "../messages/owed.js";
import { type DecisionOn, unchanged } from "../messages/transition.js";
import type { Unprotected } from "../state/frame.js";
import type { RunIdentity } from "../state/identity.js";
import { isTerminal } from "../state/lifecycle.js";
import type { Ending } from "../state/rollback.js";
import { obstacleToFork } from "../state/standing.js";
import { type JsonObject, measure } from "../values/json.js";
import type { Draft } from "./draft.js";
import { abortStep, startEnding } from "./ending.js";
import { recordAct } from "./hold.js";
import { mergeUnprotected } from "./ledger/undo-list.js";
import { forkable, type Mark, markOf, variablesBefore } from "./ledger/variables-before.js";

type Asked = Command<"fork">;

export function fork(draft: Draft, command: Asked): DecisionOn<"fork"> {
  const obstacle = obstacleToFork(draft.context);
  if (obstacle !== undefined) return no({ reason: obstacle });
  const target = targetOf(draft, command);
  if ("reason" in target) return no(target);
  const { entries } = draft.facts;
  if (!entries) throw new Needed({ kind: "entries" });
  const mark = markOf(draft.context, entries, command);
  if (typeof mark === "string") return no({ reason: mark });
  const { inheritance } = draft.facts;
  if (!inheritance) throw new Needed({ kind: "inheritance", before: mark.number, ...undoingOf(draft) });
  const lost = command.inherits ? lostEffects(draft, inheritance) : undefined;
  if (lost) return no(lost);
  const variables = command.variables ?? variablesBefore(draft, entries, inheritance, mark);
  if (!variables) return no(historyMissing(draft, entries, inheritance, command.step));
  const size = measure(variables);
  const { variables: limit } = draft.facts.limits;
  if (typeof size !== "number") return no({ reason: `the variables${size.path} ${size.message}`, unfit: true });
  if (size > limit) return no({ reason: `the variables are over ${limit} characters of JSON`, unfit: true });
  const unprotected = command.inherits ? unprotectedBefore(draft, entries, inheritance, mark) : {};
  const made: NewChild = {
    identity: identityOf(draft, command, mark, target, inheritance),
    ...{ variables, variablesSize: size, inherited: false, at: draft.now },
    fork: {
      ...{ actor: command.actor, entries: mark.number - 1, unprotected, labels: inheritance.labels },
      ...{ owed: command.inherits ? inheritance.owed : 0, given: inheritance.given },
    },
  };
  return carryOut(draft, command, mark, made);
}

const no = (about: Omit<Refused, "type">) => unchanged<Refused>({ type: "refused", ...about });

/** An undo that a terminate has cut off. */
function undoingOf({ context: { state, undoing } }: Draft): { readonly undoing?: string } {
  return isTerminal(state) && undoing !== undefined ? { undoing } : {};
}

// ---- The version

type Target = Pick<WorkflowFact, "version" | "definitionId" | "timeoutMs">;

/** The version of the fork, which has the step at its top level and takes the inputs. */
function targetOf(draft: Draft, { version, step, inputs }: Asked): Target | Omit<Refused, "type"> {
  const { workflow, facts, context } = draft;
  const { run } = context;
  const isOwn = version === undefined || version === run.version;
  if (!isOwn && facts.workflow === undefined)
    throw new Needed({ kind: "workflow", workflowId: run.workflowId, version });
  if (!isOwn && !facts.workflow)
    return { reason: `there is no published version ${version} of the workflow ${run.workflowId}`, missing: true };
  const found = (!isOwn && facts.workflow) || undefined;
  const fault = forkFault(workflow, step) ?? found?.forkFault(step);
  if (fault !== undefined) return { reason: fault };
  const schema = found ? found.inputSchema : inputs && workflow.inputSchema;
  const problems = schema ? facts.conforms(schema, inputs ?? run.inputs) : [];
  if (problems.length > 0) {
    const reasons = problems.map((problem): Reason => ({ path: "$.inputs", message: problem }));
    return { reason: "the inputs do not conform to the workflow's input_schema", reasons, unfit: true };
  }
  if (found) return found;
  return { version: run.version, definitionId: run.definitionId, timeoutMs: workflow.timeoutMs };
}

// ---- What it inherits

/** Why the undo of the original cannot be inherited. */
function lostEffects(
  { context: { state, run } }: Draft,
  { heir, undone }: Inheritance,
): Omit<Refused, "type"> | undefined {
  if (heir !== undefined) {
    const reason = `the run ${run.id} was forked as ${heir}, which owes its undo: fork that one, or say "effects": "assume"`;
    return { reason, runId: heir };
  }
  // A run that goes on, or has succeeded, has undone nothing but what its tries rolled back before it came to the step.
  if (state !== "failed" && state !== "cancelled") return undefined;
  const reasons = undone.map(
    ({ step, entry, state }): Reason => ({
      path: "$.step",
      message: `the step "${step}" (entry ${entry}) ${UNDONE[state]}`,
    }),
  );
  if (reasons.length === 0) return undefined;
  return {
    reason: 'effects before the step do not stand any more: say "effects": "assume" to go on without them',
    reasons,
  };
}

const UNDONE = {
  done: "was undone",
  failed: "was to be undone, which failed: whether its effect stands is not known",
  undoing: "was being undone when the run was terminated: whether its effect stands is not known",
} as const;

/** The steps before the mark that have no compensation: a rollback of the fork passes them over. */
function unprotectedBefore(draft: Draft, entries: StepEntries, { review }: Inheritance, { number }: Mark): Unprotected {
  const earlier = earlierSteps(draft, entries, number);
  const own = Object.entries(draft.context.unprotected).filter(([step]) => earlier.has(step));
  return mergeUnprotected(Object.fromEntries(own), Object.fromEntries(review.map((step) => [step, true])));
}

/** The steps that were entered before. Where not all entries are known, every step may have been. */
function earlierSteps({ workflow, context }: Draft, { steps }: StepEntries, before: number): ReadonlySet<string> {
  const unknown = context.entries > steps.length;
  return new Set(unknown ? workflow.steps.keys() : steps.slice(0, before - 1 - (context.entries - steps.length)));
}

// ---- The new run

function identityOf(
  draft: Draft,
  { runId, step, inputs }: Asked,
  { entry }: Mark,
  { version, definitionId, timeoutMs }: Target,
  { given }: Inheritance,
): RunIdentity {
  const { context, now } = draft;
  const { run } = context;
  const allowed = given?.timeoutMs ?? timeoutMs;
  return {
    id: runId,
    ...{ workflowId: run.workflowId, version, definitionId, tenantId: run.tenantId, businessKey: run.businessKey },
    ...{ dryRun: run.dryRun, features: run.features, inputs: inputs ?? run.inputs, entrypoint: run.entrypoint },
    ...{ startedAt: now, startStep: step, forkedFrom: { runId: run.id, step, entry } },
    ...(run.startup && { startup: run.startup }),
    ...(allowed !== undefined && { expiresAt: now + allowed }),
  };
}

function carryOut(draft: Draft, command: Asked, mark: Mark, made: NewChild): DecisionOn<"fork"> {
  const { context } = draft;
  const { inherits, runId } = command;
  const owed = forkOwed(draft, made, mark.number, inherits);
  if (isTerminal(context.state)) return unchanged({ type: "forked", runId }, owed);
  draft.owe(owed);
  leave(draft, command, mark, made.fork?.owed ?? 0);
  return draft.decided({ type: "forked", runId });
}

/** The original ends: what it owes of the steps from the mark on is left to people. */
function leave(draft: Draft, command: Asked, { entry }: Mark, inherited: number): void {
  const { context } = draft;
  const { runId: run_id, step, inherits } = command;
  const about: JsonObject = { run_id, step, entry, effects: inherits ? "inherit" : "assume", inherited };
  draft.change({ quarantined: false, proof: undefined, held: undefined, owed: context.owed - inherited });
  recordAct(draft, command, about);
  const reason = `forked as ${run_id} from the step "${step}"`;
  const ending: Ending = { to: "cancelled", reason, abandon: true, terminated: true };
  abortStep(draft, ending);
  if (draft.context.owed > 0) draft.change({ requiresManualReview: true });
  startEnding(draft, ending);
}

function historyMissing(
  draft: Draft,
  entries: StepEntries,
  inheritance: Inheritance,
  step: string,
): Omit<Refused, "type"> {
  const steps = forkable(draft, entries, inheritance).map((each) => `"${each}"`);
  const known = steps.length > 0 ? `those at ${steps.join(", ")} are` : "those at no step are";
  return {
    reason: `the variables at the entry of the step "${step}" are not known: ${known}; give variables, or have the workflow say "history": "full" to keep them`,
    historyMissing: true,
  };
}
