// Warnings about what a definition names and the service does not have at the moment of its publish: actions and rules. They may come
// later, so they are no problems.
import type { Place } from "../attribute/problem.js";
import { parseActionName } from "../steps/action.js";
import { constants, constantText } from "../steps/named.js";
import type { WorkflowPlan } from "../steps/plan.js";
import type { Known } from "../steps/step.js";
import type { ReadStep } from "./step.js";

export type Registered = Pick<Known, "action" | "actions" | "rule">;

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
      at.warn("effect_without_undo", `the action ${forward} is compensable, but the step has no compensation`);
    if (found && !found.compensable && plan.compensation)
      at.warn("undo_not_compensable", `the action ${forward} is registered as not compensable`);
  }
  const undo = plan.compensation && constantText(plan.compensation.action);
  if (undo) warnAboutAction(undo, registered, at.at("compensation").at("action"));
}

function warnAboutRule({ plan, place }: ReadStep, { rule }: Registered): void {
  if (!rule) return;
  for (const [attribute, ruleId] of constants(plan, "rule"))
    if (!rule(ruleId)) place.at(attribute).warn("rule_unknown", `the rule ${ruleId.slice(0, 128)} is not published`);
}

function warnAboutAction(name: string, { action, actions }: Registered, at: Place) {
  const parsed = parseActionName(name);
  // It is a problem, which is reported.
  if (!parsed) return undefined;
  const found = action?.(parsed.service, parsed.name, parsed.version);
  const everywhere = parsed.version === undefined ? ", or deprecated in every version" : "";
  if (!found)
    at.warn(
      "action_unknown",
      `the action ${name} is not registered${everywhere}${at.suggest(`${parsed.service}.${parsed.name}`, actions?.() ?? [])}`,
    );
  else if (found.deprecated) at.warn("action_deprecated", `the action ${name} is deprecated`);
  return found;
}

/** The actions that the steps of a workflow name. A computed name is known when its step is entered. */
export function actionsNamed({ steps }: Pick<WorkflowPlan, "steps">): readonly string[] {
  return [...steps.values()].flatMap((plan) => constants(plan, "action").map(([, name]) => name));
}
