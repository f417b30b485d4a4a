// The position of a run in its chart, computed from its context. Nothing stores a position: a restored run starts at this one.
import { isPausing, type RunContext } from "../state/context.js";
import { isTerminal } from "../state/lifecycle.js";
import { pausedKey, stateKey } from "./labels.js";

/** The name of a state at the top, or of the step in `active`. */
export type ChartValue = string | Readonly<Record<string, string>>;

/** The inverse of what the edges do: after every transition the actor must be at this value. */
export function chartValue(context: RunContext): ChartValue {
  if (isTerminal(context.state)) return context.state;
  // A try that is being left gets to its catch first; the ending follows.
  if (context.ending && !context.unwinding) return "undoing";
  if (context.step === undefined) return "pending";
  return { active: isPausing(context) ? pausedKey(context.step) : stateKey(context.step) };
}
