// The things outside the definition that a step names in so many words. A computed name is known when its step is entered.
import type { Mentioned } from "../attribute/mention.js";
import type { Template } from "../expression/index.js";
import type { StepPlan } from "./step.js";

/** The attributes of a step that name such a thing, with the names that are not computed. */
export function constants(
  { type, attributes }: StepPlan,
  what: Mentioned,
): readonly (readonly [attribute: string, name: string])[] {
  return type.mentions.flatMap(({ what: mentioned, path: [attribute = ""] }) => {
    const text = mentioned === what ? constantText(attributes[attribute]) : undefined;
    return text === undefined ? [] : [[attribute, text] as const];
  });
}

export function constantText(template: Template | undefined): string | undefined {
  return template?.constant ? String(template.render({})) : undefined;
}

/** The one code of an error, unless it is computed. */
export function codesOf(code: Template): readonly string[] | undefined {
  const text = constantText(code);
  return text === undefined ? undefined : [text];
}
