// Whether a run stands where it may go on under another version of its workflow, or be forked, as far as the run alone says that.
import { isHalted, livingChildren, type RunContext } from "./context.js";
import { isTerminal } from "./lifecycle.js";

/** All that is against it. Empty: it depends on the other version. */
export function obstaclesToMove(context: RunContext): readonly string[] {
  const { state, run, ending, unwinding, finishing, groups } = context;
  if (isTerminal(state)) return ["the run has ended"];
  const family = Object.values(groups).filter(({ kind }) => kind !== "saga");
  return [
    run.forkedFrom && state === "pending" && "it is a fork that has not begun at its step",
    run.family && "it is a branch or an item, which is of the version of the run that it belongs to",
    ending && "the run is rolling back, or ending",
    unwinding && !ending && "the run is leaving a try",
    finishing && "the run is done, and waits for the branches that it stops",
    !isStanding(context) && "the run is not waiting: ask again when it is, or pause it first",
    ...family.map(
      ({ kind, step }) =>
        `the ${kind} of the step "${step}" are runs of this version: it can go on under another one when they have ended`,
    ),
  ].filter((obstacle) => typeof obstacle === "string");
}

/** It waits, or an operator or its quarantine holds it, or it has not begun. */
function isStanding(context: RunContext): boolean {
  return context.wait !== undefined || isHalted(context) || context.state === "pending";
}

/** Why a run cannot be forked as it stands. Undefined: it has ended, or waits with nothing of it under way. */
export function obstacleToFork(context: RunContext): string | undefined {
  const { state, run, ending, unwinding, finishing, wait, step } = context;
  const root = run.family?.at(-1) ?? run.rootRunId ?? run.parentRunId;
  if (root !== undefined) return `the run belongs to the run ${run.rootRunId ?? root}: fork that one`;
  if (isTerminal(state)) return undefined;
  if (ending || state === "compensating") return "the run is rolling back, or ending: fork it when it has ended";
  if (unwinding) return "the run is leaving a try: fork it when it has left it";
  if (finishing) return "the run is done, and waits for the branches that it stops";
  if (step === undefined) return "the run has not begun: there is no step to fork it from";
  if (livingChildren(context) > 0) return "the run has children that have not ended: fork it when they have";
  if (wait?.kind === "dispatched")
    return `the dispatch of the step "${step}" is not resolved: pause the run, and fork it when the worker has answered`;
  return state === "paused" ? undefined : `the run is ${state}: pause it, and fork it then`;
}
