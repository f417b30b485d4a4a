// Asks the type of the current step for its outcome.

import { ExpressionError, withFuel } from "../expression/index.js";
import { scopeOf } from "../expression/scope.js";
import type { Entered, StepOutcome, StepPlan } from "../steps/step.js";
import { MAX_NESTING } from "../values/limits.js";
import type { Draft } from "./draft.js";
import { whileFrame } from "./ledger/frames.js";
import { groupOf } from "./ledger/groups.js";
import { mayHaveSignal } from "./ledger/signals.js";

/** The outcome at the step's entry, after each of its rounds, and whenever one of its children has ended. */
export function askStep(draft: Draft, plan: StepPlan, waited: boolean): StepOutcome {
  try {
    const entered = enteredOf(draft, plan, waited);
    // All expressions of one entry share one budget of fuel.
    const outcome = withFuel((): StepOutcome => {
      if (plan.when && isFirstLook(draft, entered) && !plan.when.test(entered.scope))
        return { kind: "skipped", reason: "when" };
      return plan.type.enter(entered);
    });
    return startsRuns(outcome) && isTooDeep(draft) ? TOO_DEEP : outcome;
  } catch (error) {
    if (error instanceof ExpressionError)
      return { kind: "failed", error: { code: "expression_error", message: error.message } };
    throw error;
  }
}

function enteredOf(draft: Draft, plan: StepPlan, waited: boolean): Entered {
  const { context, facts, workflow } = draft;
  const { run, entry, entries, caught } = context;
  const found = groupOf(draft, plan);
  const number = entry?.number ?? entries;
  // Written out member by member: spreading objects here took 4 % of a node's time.
  return {
    workflow,
    plan,
    attributes: plan.attributes,
    facts,
    run,
    caught,
    waited,
    entry: number,
    retried: entry?.retried ?? 0,
    scope: scopeOf(context, entry?.at ?? draft.now),
    frame: whileFrame(context),
    group: found?.group,
    groupEntry: found?.entry ?? number,
    maybeSignalled: mayHaveSignal(context),
  };
}

/** Whether this entry of the step has done nothing yet. A join finds the group that its parallel made. */
function isFirstLook({ context }: Draft, { plan, waited, frame, group }: Entered): boolean {
  if (waited || context.wait || frame) return false;
  return group === undefined || plan.type.joins === true;
}

const TOO_DEEP: StepOutcome = {
  kind: "failed",
  error: { code: "limit_exceeded", message: `runs may be nested ${MAX_NESTING} deep` },
};

const startsRuns = ({ kind }: StepOutcome): boolean => kind === "start_children" || kind === "start_sub_saga";

function isTooDeep({ context }: Draft): boolean {
  return (context.run.depth ?? 0) >= MAX_NESTING;
}
