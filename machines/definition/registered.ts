// Warnings about what a definition names and the service does not have at the moment of its publish: actions and rules. They may come
// later, so they are no problems.
import type { Mentioned } from "../attribute/mention.js";
import type { Place } from "../attribute/problem.js";
import type { ActionFact } from "../messages/fact.js";
import { parseActionName } from "../steps/action.js";
import type { WorkflowPlan } from "../steps/plan.js";
import type { StepPlan } from "../steps/step.js";
import type { ReadStep } from "./step.js";

export interface Registered {
  /** The registrations. Absent: no warnings about actions. */
  readonly action?: (
    service: string,
    name: string,
    version?: number,
  ) => (ActionFact & { readonly deprecated?: boolean }) | undefined;
  /** The names of all registered actions, for suggestions. */
  readonly actions?: () => Iterable<string>;
  /** The published rules. Absent: no warnings about rules. */
  readonly rule?: (ruleId: string) => object | undefined;
}

export function warnAboutRegistered(steps: readonly ReadStep[], registered: Registered): void {
  for (const step of steps) {
    warnAboutActions(step, registered);
    warnAboutRule(step, registered);
  }
}

function warnAboutActions({ plan, place: at }: ReadStep, registered: Registered): void {
  if (!registered.action) return;
  for (const [attribute, forward] of constants(plan, "action")) {
    const found = warnAboutAction(forward, registered, at.at(attribute));
    if (found?.compensable && !plan.compensation)
      at.warn(`the action ${forward} is compensable, but the step has no compensation`);
    if (found && !found.compensable && plan.compensation)
      at.warn(`the action ${forward} is registered as not compensable`);
  }
  const undo = plan.compensation && constantText(plan.compensation.action);
  if (undo) warnAboutAction(undo, registered, at.at("compensation").at("action"));
}

function warnAboutRule({ plan, place }: ReadStep, { rule }: Registered): void {
  if (!rule) return;
  for (const [attribute, ruleId] of constants(plan, "rule"))
    if (!rule(ruleId)) place.at(attribute).warn(`the rule ${ruleId.slice(0, 128)} is not published`);
}

function warnAboutAction(name: string, { action, actions }: Registered, at: Place) {
  const parsed = parseActionName(name);
  // It is a problem, which is reported.
  if (!parsed) return undefined;
  const found = action?.(parsed.service, parsed.name, parsed.version);
  const everywhere = parsed.version === undefined ? ", or deprecated in every version" : "";
  if (!found)
    at.warn(
      `the action ${name} is not registered${everywhere}${at.suggest(`${parsed.service}.${parsed.name}`, actions?.() ?? [])}`,
    );
  else if (found.deprecated) at.warn(`the action ${name} is deprecated`);
  return found;
}

/** The actions that the steps of a workflow name. A computed name is known when its step is entered. */
export function actionsNamed({ steps }: Pick<WorkflowPlan, "steps">): readonly string[] {
  return [...steps.values()].flatMap((plan) => constants(plan, "action").map(([, name]) => name));
}

/** The attributes of a step that name such a thing, with the names that are not computed. */
function constants({ type, attributes }: StepPlan, what: Mentioned): readonly (readonly [attribute: string, string])[] {
  return type.mentions.flatMap(({ what: mentioned, path: [attribute = ""] }) => {
    const text = mentioned === what ? constantText(attributes[attribute]) : undefined;
    return text === undefined ? [] : [[attribute, text] as const];
  });
}

function constantText(template: StepPlan["attributes"][string]): string | undefined {
  return template?.constant ? String(template.render({})) : undefined;
}
