// A passage: a run on its way from one version of its workflow to another one, with the ids that its steps have there.
import { Place } from "../attribute/problem.js";
import type { Program } from "../chart/program.js";
import { type Scope, withFuel } from "../expression/index.js";
import { scopeOf } from "../expression/scope.js";
import type { Reason } from "../messages/command.js";
import type { Facts } from "../messages/fact.js";
import type { RunContext } from "../state/context.js";
import type { StepPlan } from "../steps/step.js";

export interface Passage {
  readonly from: Program;
  readonly to: Program;
  /** The run as it is. */
  readonly origin: RunContext;
  /** The run as it would be there: of the new version, with the variables that follow its steps. */
  readonly context: RunContext;
  /** What the client asked for. */
  readonly asked: Readonly<Record<string, string>>;
  /** That, over what the new version itself says. Other steps keep their ids. */
  readonly steps: Readonly<Record<string, string>>;
  readonly conforms: Facts["conforms"];
}

export function passageOf(about: Omit<Passage, "steps" | "origin">): Passage {
  const { from, to, asked } = about;
  return { ...about, origin: about.context, steps: { ...to.migrations?.[String(from.version)], ...asked } };
}

/** The id of a step in the new version. */
export function idThere({ steps }: Passage, id: string): string {
  return Object.hasOwn(steps, id) ? (steps[id] as string) : id;
}

export function planThere(passage: Passage, id: string): StepPlan | undefined {
  return passage.to.steps.get(idThere(passage, id));
}

/** The place of a step, or of an attribute of it, in the document of the new version. */
export function placeThere({ to }: Passage, plan: StepPlan, attribute?: string): string {
  const steps = to.document.steps as readonly { readonly id?: unknown }[];
  const at = Place.of("$")
    .at("steps")
    .at(steps.findIndex(({ id }) => id === plan.id));
  return (attribute === undefined ? at : at.at(attribute)).path;
}

/** The scope of a run's expressions, as of the entry of its step. */
export function scopeAt(context: RunContext): Scope {
  return scopeOf(context, context.entry?.at ?? context.run.startedAt);
}

/** What an attribute of a step is in the run's scope. Throws ExpressionError. */
export function evaluated<T>(evaluate: () => T): T {
  return withFuel(evaluate);
}

export const named = ({ version }: Pick<Program, "version">): string => `version ${version}`;

/** Members of a group of reasons may be absent. */
export function reasons(...found: readonly (Reason | false | undefined)[]): readonly Reason[] {
  return found.filter((reason) => typeof reason === "object");
}
