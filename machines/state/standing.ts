// Whether a run stands where it may go on under another version of its workflow, as far as the run alone says that.
import { isHalted, type RunContext } from "./context.js";
import { isTerminal } from "./lifecycle.js";

/** All that is against it. Empty: it depends on the other version. */
export function obstaclesToMove(context: RunContext): readonly string[] {
  const { state, run, ending, unwinding, finishing, groups } = context;
  if (isTerminal(state)) return ["the run has ended"];
  const family = Object.values(groups).filter(({ kind }) => kind !== "saga");
  return [
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
