// The commands with which a person decides an incident: `retry_step`, `skip_step`, `fail`, and for an undo `retry_undo`, `skip_undo`.
// An incident begins where a step fails (token.ts) or an undo does (undo.ts).

import type { Command, Refused } from "../messages/command.js";
import { type Decision, type DecisionOn, invalid, refused } from "../messages/transition.js";
import { withSecrets } from "../schema/secrets.js";
import { isHalted } from "../state/context.js";
import type { Incident, Wait } from "../state/wait.js";
import { payloadSchemaOf } from "../steps/payload.js";
import type { JsonObject } from "../values/json.js";
import { outputSchemaOf } from "./answers.js";
import { currentPlan, type Draft } from "./draft.js";
import { acted, recordAct } from "./hold.js";
import { correctionsOf } from "./ledger/corrections.js";
import { nextOf } from "./ledger/frames.js";
import { groupOf, setGroup } from "./ledger/groups.js";
import { outputFault, storeVariables } from "./ledger/variables.js";
import { completeStep, failForGood, takeStep } from "./token.js";
import { continueAfterUndo } from "./undo.js";

/** The step is asked again, in the same entry: its idempotency key stays, and its attempts count on. */
export function retryStep(draft: Draft, command: Command<"retry_step">): DecisionOn<"retry_step"> {
  const { wait, entry, call } = draft.context;
  const backingOff = wait?.kind === "backoff" && call?.phase !== "compensation";
  if (!entry || !(backingOff || isOfStep(wait)))
    return refused("no step of the run stands at an incident or in a backoff");
  if (isHalted(draft.context)) return haltedFirst(draft);
  const { variables } = command;
  const corrections = variables && correctionsOf(draft, variables);
  if (typeof corrections === "string") return invalid(corrections);
  const fault = storeVariables(draft, corrections);
  if (fault) return refused(fault.message);
  draft.change({ wait: undefined, entry: { ...entry, at: draft.now, retried: (entry.retried ?? 0) + 1 } });
  recordAct(draft, command, variables && { variables: Object.keys(variables) });
  renewSubSaga(draft);
  draft.close(backingOff ? "resume" : "note");
  takeStep(draft);
  return acted(draft);
}

/** The next child of the step begins a new series. */
function renewSubSaga(draft: Draft): void {
  const found = groupOf(draft, currentPlan(draft));
  if (found?.group.kind !== "saga") return;
  setGroup(draft, found.entry, { ...found.group, nth: 0, verdict: undefined, stopped: undefined, timedOut: undefined });
}

/** The step counts as succeeded with this output. */
export function skipStep(draft: Draft, command: Command<"skip_step">): DecisionOn<"skip_step"> {
  if (!isOfStep(draft.context.wait)) return refused("no step of the run stands at an incident");
  if (isHalted(draft.context)) return haltedFirst(draft);
  const plan = currentPlan(draft);
  if (plan.type.alwaysFails)
    return refused(`a step of the type ${plan.type.name} cannot succeed: let it fail, or terminate the run`);
  const output = withSecrets(schemaOfOutput(draft), command.output ?? null);
  const fault = outputFault(draft, output);
  if (fault) return refused(fault.message);
  recordAct(draft, command);
  completeStep(
    draft,
    plan,
    plan.type.ends ? { output, end: true } : { output, edge: "skip", target: nextOf(draft, plan) },
  );
  return acted(draft);
}

/** Of what the step would have got from outside. */
function schemaOfOutput(draft: Draft): JsonObject | undefined {
  const { call } = draft.context;
  return call?.phase === "forward" ? outputSchemaOf(draft, call) : payloadSchemaOf(currentPlan(draft));
}

/** The error takes the course that it would have taken without the incident. */
export function failIncident(draft: Draft, command: Command<"fail">): DecisionOn<"fail"> {
  const { wait } = draft.context;
  if (!isOfStep(wait)) return refused("no step of the run stands at an incident");
  if (isHalted(draft.context)) return haltedFirst(draft);
  recordAct(draft, command);
  failForGood(draft, currentPlan(draft), wait.error);
  return acted(draft);
}

/** The undo begins anew, with what is registered for its action now. */
export function retryUndo(draft: Draft, command: Command<"retry_undo">): DecisionOn<"retry_undo"> {
  const problem = undoProblem(draft, command);
  if (problem) return problem;
  draft.change({ wait: undefined, call: undefined });
  recordAct(draft, command);
  draft.close("note");
  return acted(draft);
}

/** The undo counts as failed, and the rollback goes on. */
export function skipUndo(draft: Draft, command: Command<"skip_undo">): DecisionOn<"skip_undo"> {
  const problem = undoProblem(draft, command);
  if (problem) return problem;
  draft.change({ wait: undefined, call: undefined, requiresManualReview: true });
  recordAct(draft, command);
  continueAfterUndo(draft, "failed");
  return acted(draft);
}

function undoProblem(draft: Draft, { ordinal }: Command<"retry_undo" | "skip_undo">): Decision<Refused> | undefined {
  const { wait, undoing } = draft.context;
  if (wait?.kind !== "incident" || wait.phase !== "compensation")
    return refused("no undo of the run stands at an incident");
  if (ordinal !== undefined && ordinal !== undoing) return refused("the rollback stands at another undo");
  return isHalted(draft.context) ? haltedFirst(draft) : undefined;
}

function isOfStep(wait: Wait | undefined): wait is Incident {
  return wait?.kind === "incident" && wait.phase === "forward";
}

function haltedFirst({ context }: Draft): Decision<Refused> {
  return refused(
    context.quarantined ? "the run is in quarantine: release it first" : "the run is paused: resume it first",
  );
}
