// Which kind of document a value is, by the members that the kind must have. Whether it is valid is the service's decision.

/** What the service says of a document, as a problem or a warning. */
export interface Problem {
  /** A JSON path. */
  readonly path: string;
  readonly message: string;
}

export type Kind = "workflow" | "rule" | "trigger";

/** Undefined: it is none. */
export function kindOf(value: unknown): Kind | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { id, steps, rule_id: rule, trigger_type: trigger } = value as Readonly<Record<string, unknown>>;
  if (typeof rule === "string") return "rule";
  if (typeof trigger === "string") return "trigger";
  return typeof id === "string" && Array.isArray(steps) ? "workflow" : undefined;
}

export const NO_DOCUMENT =
  "is neither a workflow (id, steps) nor a rule (rule_id, spec) nor a trigger (trigger_type, workflow_id, config)";
