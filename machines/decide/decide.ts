// The table of commands: what each does to a run. A decision is a pure function of plan, context, command and facts. Every
// state answers every command: with transitions, with a no-op, or with a refusal and its reason.

import type { AnswerTo, Command, CommandType, RunCommand } from "../messages/command.js";
import { type Facts, Needed } from "../messages/fact.js";
import type { Absent, Decision, DecisionOn } from "../messages/transition.js";
import type { RunContext } from "../state/context.js";
import { type CommandReach, type Everything, isWithin } from "../state/reach.js";
import type { WorkflowPlan } from "../steps/plan.js";
import { advance } from "./advance.js";
import { carry, offer, report } from "./answers.js";
import { cancel } from "./cancel.js";
import { childEnded } from "./children-ended.js";
import { Draft } from "./draft.js";
import { acceptEvent } from "./events.js";
import { fork } from "./fork.js";
import { pause, resume } from "./hold.js";
import { failIncident, retryStep, retryUndo, skipStep, skipUndo } from "./incidents.js";
import { migrate } from "./migrate.js";
import { quarantine, release } from "./quarantine.js";
import { acceptSignal, recordSignal, requestMatch } from "./signals.js";
import { slotDecided } from "./slots.js";
import { submit } from "./tasks.js";
import { endWithoutData, terminate } from "./terminate.js";
import { turnDecided } from "./turns.js";

const COMMANDS: { readonly [T in CommandType]: (draft: Draft, command: Command<T>) => DecisionOn<T> } = {
  advance,
  signal: recordSignal,
  cancel,
  submit,
  offer,
  result: report,
  failure: report,
  heartbeat: report,
  child: childEnded,
  take: acceptSignal,
  look: requestMatch,
  event: acceptEvent,
  carry,
  quarantine,
  release,
  slot_granted: slotDecided,
  slot_refused: slotDecided,
  turn_given: turnDecided,
  turn_refused: turnDecided,
  data_lost: endWithoutData,
  pause,
  resume,
  retry_step: retryStep,
  skip_step: skipStep,
  fail: failIncident,
  retry_undo: retryUndo,
  skip_undo: skipUndo,
  terminate,
  migrate,
  fork,
};

/** `reach`: whose runs the sender may command. */
export function decide<C extends RunCommand>(
  plan: WorkflowPlan,
  context: RunContext,
  command: C,
  facts: Facts,
  reach: Everything,
): Decision<AnswerTo<C>>;
export function decide<C extends RunCommand>(
  plan: WorkflowPlan,
  context: RunContext,
  command: C,
  facts: Facts,
  reach: CommandReach,
): Decision<AnswerTo<C>> | Absent;
export function decide<C extends RunCommand>(
  plan: WorkflowPlan,
  context: RunContext,
  command: C,
  facts: Facts,
  reach: CommandReach,
): Decision<AnswerTo<C>> | Absent {
  if (!isWithin(reach, context.run)) return { absent: true };
  const draft = new Draft(plan, context, facts, "actor" in command ? command.actor : "coordinator");
  // The table is typed by command type, which TypeScript cannot follow through an index.
  const handle = COMMANDS[command.type] as unknown as (draft: Draft, command: C) => Decision<AnswerTo<C>>;
  try {
    return handle(draft, command);
  } catch (thrown) {
    if (thrown instanceof Needed) return { need: thrown.need };
    throw thrown;
  }
}
