// The variables of a run as they were when it entered a step: those that are kept, or what is left of its variables when all that was written since is
// taken away. What cannot be told with certainty is not guessed.

import { attributesIn, namesIn } from "../../attribute/mention.js";
import { isTopLevel } from "../../chart/program.js";
import type { Inheritance, StepEntries } from "../../messages/fact.js";
import { isHalted, type RunContext } from "../../state/context.js";
import { withoutCorrection } from "../../state/corrected-item.js";
import { isTerminal } from "../../state/lifecycle.js";
import type { WorkflowPlan } from "../../steps/plan.js";
import { isObject, type Json, type JsonObject } from "../../values/json.js";
import type { Draft } from "../draft.js";

/** The step entry of the run that a fork begins with. */
export interface Mark {
  readonly number: number;
  /** Among the entries of its step, from 1. */
  readonly entry: number;
}

/** Steps that a refusal lists. */
const LISTED = 20;

/** Why there is no such entry, if there is none. */
export function markOf(
  context: RunContext,
  { steps, kept, whole }: StepEntries,
  { step, entry }: { readonly step: string; readonly entry?: number },
): Mark | string {
  const offset = context.entries - steps.length;
  const logged = steps.flatMap((each, nth) => (each === step ? [offset + nth + 1] : []));
  const numbers = new Set([...kept.filter((each) => each.step === step).map((each) => each.entry), ...logged]);
  const standing = standsAt(context, step);
  if (standing !== undefined) numbers.add(standing);
  const numbered = [...numbers].sort((one, other) => one - other);
  if (numbered.length === 0) return `the run has not entered the step "${step}"`;
  if (entry !== undefined && !whole && !context.run.forkedFrom && kept.length === 0)
    return "the audit log does not go back to the start of the run: only the last entry of a step is known";
  const number = entry === undefined ? numbered.at(-1) : numbered[entry - 1];
  if (number !== undefined) return { number, entry: entry ?? numbered.length };
  const times = numbered.length === 1 ? "once" : `${numbered.length} times`;
  return `the run has entered the step "${step}" ${times}: there is no entry ${entry}`;
}

/** The entry of the step that the run is in; or, if it was paused between two steps, is about to begin. */
function standsAt(context: RunContext, step: string): number | undefined {
  const { frames, entry, entries } = context;
  if (context.step !== step || frames.length > 0 || isTerminal(context.state)) return undefined;
  return entry?.number ?? (isHalted(context) ? entries + 1 : undefined);
}

/** Undefined: they are not known. */
export function variablesBefore(
  draft: Draft,
  entries: StepEntries,
  { variables, given }: Inheritance,
  { number }: Mark,
): JsonObject | undefined {
  if (variables) return variables;
  const { context } = draft;
  const present = withoutCorrection(context.variables);
  if (number > context.entries) return present;
  if (number === context.entries && isUnwritten(context, entries)) return present;
  return withoutLater(draft, entries, given, number);
}

/** Nothing has been written since the last step was entered. */
function isUnwritten({ state, entry, frames }: RunContext, { lastIsDone }: StepEntries): boolean {
  if (isTerminal(state)) return state !== "succeeded" && !lastIsDone;
  return entry !== undefined && frames.length === 0;
}

/** What was written since is taken away, if none of it can have had a value before. */
function withoutLater(
  { workflow, context }: Draft,
  { steps, whole, corrected }: StepEntries,
  given: Inheritance["given"],
  number: number,
): JsonObject | undefined {
  const { run, variables, entries } = context;
  const offset = entries - steps.length;
  if (corrected || number <= offset) return undefined;
  const writes = writesOf(workflow);
  const later = new Set(steps.slice(number - 1 - offset));
  const names = new Set<string>();
  for (const step of later) {
    const written = writes.get(step);
    if (!written) return undefined;
    for (const name of written) names.add(name);
  }
  if (names.size === 0) return withoutCorrection(variables);
  if (!whole || offset > 0 || given?.tooLarge || run.forkedFrom) return undefined;
  const started = { ...run.startup, ...given?.variables };
  if ([...names].some((name) => Object.hasOwn(started, name))) return undefined;
  for (const step of new Set(steps.slice(0, number - 1)))
    if (writes.get(step)?.some((name) => names.has(name)) ?? true) return undefined;
  return Object.fromEntries(Object.entries(withoutCorrection(variables)).filter(([name]) => !names.has(name)));
}

/** The variables that each step may write: its output, those that it names, and the error that it catches. */
function writesOf({ steps, document }: WorkflowPlan): ReadonlyMap<string, readonly string[]> {
  const written = Array.isArray(document.steps) ? (document.steps as readonly Json[]).filter(isObject) : [];
  const posted = new Map(written.map((step) => [step.id, step]));
  return new Map(
    [...steps.values()].map(({ id, type, saveAs, onError, attributes }) => {
      const named = attributesIn(posted.get(id) ?? {});
      const mentions = type.mentions.filter(({ what }) => what === "variable");
      const caught = type.catches?.(attributes)?.variable;
      return [
        id,
        [
          // A step that goes on after an error has the error as its output.
          ...(saveAs === null || (type.output === undefined && onError === "fail") ? [] : [saveAs]),
          ...mentions.flatMap((mention) => namesIn(named, mention)),
          ...(caught === undefined ? [] : [caught]),
        ],
      ];
    }),
  );
}

/** Steps at the top level whose variables at their last entry are known, the latest first. */
export function forkable(draft: Draft, entries: StepEntries, { given }: Inheritance): readonly string[] {
  const { steps, kept } = entries;
  const known = new Set(kept.map(({ step }) => step));
  const entered = [...new Set([...steps, ...known].toReversed())].filter((step) => isTopLevel(draft.workflow, step));
  const isKnown = (step: string): boolean => {
    if (known.has(step)) return true;
    const mark = markOf(draft.context, entries, { step });
    return (
      typeof mark !== "string" &&
      variablesBefore(draft, entries, { owed: 0, review: [], undone: [], given }, mark) !== undefined
    );
  };
  return entered.slice(0, LISTED).filter(isKnown);
}
