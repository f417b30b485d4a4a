// What is known beside a definition, made of lists: the registrations, rules and workflows as the API answers them or files have them. The service
// itself asks its catalog instead.
import { compileWorkflow } from "../definition/workflow.js";
import { compileRule } from "../rule/document.js";
import type { Known, KnownAction, KnownWorkflow } from "../steps/step.js";
import type { JsonObject } from "../values/json.js";

/** An action as `GET /api/v1/actions` answers it, or a contract of `defineAction` in the names of the wire. */
export interface ListedAction {
  readonly service: string;
  /** The name without its service. */
  readonly action: string;
  readonly version?: number;
  readonly compensable?: boolean;
  readonly deprecated?: boolean;
  readonly input_schema?: JsonObject;
  readonly output_schema?: JsonObject;
  readonly default_timeout_ms?: number | null;
}

export interface Listed {
  /** Absent: nothing is said about actions. A list says that there are no others. */
  readonly actions?: readonly ListedAction[];
  /** Workflow documents, each with its `version` (1 if absent). A list says that there are no others. */
  readonly workflows?: readonly unknown[];
  /** Rule documents. A list says that there are no others. */
  readonly rules?: readonly unknown[];
  /** The JSON Schemas of signals' payloads, by name. Others may have any. */
  readonly signals?: Readonly<Record<string, JsonObject>>;
}

/** What `checkWorkflow` takes. A document that does not compile counts as absent. */
export function knownOf({ actions, workflows, rules, signals }: Listed): Known {
  return {
    ...(actions && {
      action: actionsIn(actions),
      actions: () => actions.map(({ service, action }) => `${service}.${action}`),
    }),
    ...(workflows && { workflow: workflowsIn(workflows) }),
    ...(rules && { rule: rulesIn(rules) }),
    ...(signals && { signal: (name: string) => (Object.hasOwn(signals, name) ? signals[name] : undefined) }),
  };
}

function actionsIn(actions: readonly ListedAction[]): NonNullable<Known["action"]> {
  return (service, name, version) => {
    const named = actions.filter((one) => one.service === service && one.action === name);
    const found = named.filter((one) => (version === undefined ? !one.deprecated : (one.version ?? 1) === version));
    const latest = newest(found);
    return latest && knownAction(latest);
  };
}

const newest = <Versioned extends { readonly version?: number }>(all: readonly Versioned[]): Versioned | undefined =>
  all.reduce<Versioned | undefined>(
    (best, one) => (best && (best.version ?? 1) >= (one.version ?? 1) ? best : one),
    undefined,
  );

function knownAction({ compensable = false, deprecated = false, ...action }: ListedAction): KnownAction {
  const { input_schema: inputSchema, output_schema: outputSchema, default_timeout_ms: timeout } = action;
  return {
    ...{ compensable, deprecated },
    ...(inputSchema && { inputSchema }),
    ...(outputSchema && { outputSchema }),
    ...(typeof timeout === "number" && { defaultTimeoutMs: timeout }),
  };
}

function workflowsIn(documents: readonly unknown[]): NonNullable<Known["workflow"]> {
  const programs = documents.flatMap((document) => compileWorkflow(document).program ?? []);
  return (workflowId, version): KnownWorkflow | undefined =>
    newest(
      programs.filter((one) => one.workflowId === workflowId && (version === undefined || one.version === version)),
    );
}

function rulesIn(documents: readonly unknown[]): NonNullable<Known["rule"]> {
  const rules = documents.flatMap((document) => compileRule(document).rule ?? []);
  return (ruleId) => newest(rules.filter((one) => one.ruleId === ruleId));
}
