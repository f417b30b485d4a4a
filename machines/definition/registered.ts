// Warnings about what a definition names and the service does not have at the moment of its publish: actions and rules. They may come
// later, so they are no problems.
import type { Place } from "../attribute/problem.js";
import type { ActionFact } from "../messages/fact.js";
import { parseActionName } from "../steps/action.js";
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
  const forward = plan.type.name === "action" ? constantText(plan.attributes.action) : undefined;
  const found = forward ? warnAboutAction(forward, registered, at.at("action")) : undefined;
  if (found?.compensable && !plan.compensation)
    at.warn(`the action ${forward} is compensable, but the step has no compensation`);
  if (found && !found.compensable && plan.compensation)
    at.warn(`the action ${forward} is registered as not compensable`);
  const undo = plan.compensation && constantText(plan.compensation.action);
  if (undo) warnAboutAction(undo, registered, at.at("compensation").at("action"));
}

function warnAboutRule({ plan: { attributes }, place }: ReadStep, { rule }: Registered): void {
  const ruleId = rule && attributes.rule_id ? constantText(attributes.rule_id) : undefined;
  if (ruleId === undefined || rule?.(ruleId)) return;
  place.at("rule_id").warn(`the rule ${ruleId.slice(0, 128)} is not published`);
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

function constantText(template: StepPlan["attributes"][string]): string | undefined {
  return template?.constant ? String(template.render({})) : undefined;
}
