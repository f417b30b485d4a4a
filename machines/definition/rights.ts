// What a definition needs rights for: the secrets and the other workflows that its steps name, and the steps that meet runs of others. Who has the
// rights is the shell's matter.
import type { Mentioned } from "../attribute/mention.js";
import type { Template } from "../expression/index.js";
import type { WorkflowPlan } from "../steps/plan.js";
import type { StepPlan } from "../steps/step.js";

/** A name in the attribute of a step. */
export interface NamedAt {
  /** JSON path of the attribute, as if it were written flat on its step. */
  readonly path: string;
  /** Absent: it is computed when the step is entered, so it may be any. */
  readonly name?: string;
}

export interface NeededRights {
  readonly secrets: readonly NamedAt[];
  readonly workflows: readonly NamedAt[];
  /** Steps that meet runs which are neither their family nor of a workflow that is named here. */
  readonly meetings: readonly { readonly path: string; readonly type: string }[];
}

/** One walk over the steps, those that cannot be reached included: a run may be moved to one. */
export function rightsNeeded({ steps }: Pick<WorkflowPlan, "steps">): NeededRights {
  // As they stand in the document: every step has been read.
  const placed = [...steps.values()].map((plan, nth) => ({ plan, path: `$.steps[${nth}]` }));
  return {
    secrets: placed.flatMap((step) => namesIn(step, "secret")),
    workflows: placed.flatMap((step) => namesIn(step, "workflow")),
    meetings: placed.flatMap(({ plan: { type, attributes }, path }) =>
      type.meetsOthers?.(attributes) ? [{ path, type: type.name }] : [],
    ),
  };
}

/** They are templates at the top of their step. */
function namesIn(
  { plan: { type, attributes }, path: step }: { readonly plan: StepPlan; readonly path: string },
  what: Mentioned,
): readonly NamedAt[] {
  return type.mentions.flatMap(({ what: mentioned, path: [attribute = ""] }) => {
    const template: Template | undefined = mentioned === what ? attributes[attribute] : undefined;
    if (template === undefined) return [];
    const path = `${step}.${attribute}`;
    return [template.constant ? { path, name: String(template.render({})) } : { path }];
  });
}
