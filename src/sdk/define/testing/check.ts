// Checks a workflow for a unit test, as `saga check` does: what the service would refuse, and what is most likely wrong. It runs nothing.

import type { Finding } from "../../../../machines/check/finding.js";
import { knownOf, type ListedAction, checkWorkflow as review } from "../../../../machines/index.js";
import type { JsonObject } from "../../../../machines/values/json.js";
import { documentOf, schemas } from "./document.js";
import type { RegisteredAction, RehearseOptions } from "./rehearse.js";

export interface CheckOptions extends Pick<RehearseOptions, "actions"> {
  /** Documents or sagas. With a list, a workflow that is not in it is a finding. */
  readonly workflows?: readonly object[];
  /** Documents. With a list, a rule that is not in it is a finding. */
  readonly rules?: readonly object[];
  /** The JSON Schemas of signals' payloads, by name. Others may have any. */
  readonly signals?: Readonly<Record<string, JsonObject>>;
}

/**
 * Findings about a workflow, a document or a saga, in the order of its steps: its problems (code `invalid`), and if there are none what is most
 * likely wrong. What is absent in the options is not asked for. With `actions`, an action that is not among them is a finding. Never throws.
 */
export function checkWorkflow(workflow: object, options: CheckOptions = {}): readonly Finding[] {
  const { actions, workflows, rules, signals } = options;
  const known = knownOf({
    ...(actions && { actions: Object.entries(actions).flatMap(([name, given]) => listed(name, given)) }),
    ...(workflows && { workflows: workflows.map(documentOf) }),
    ...(rules && { rules }),
    ...(signals && { signals }),
  });
  return review(documentOf(workflow), { ...known, schemaProblems: (schema) => schemas.problems(schema) });
}

/** The name of an action may have dots itself: that of a service has none. */
function listed(name: string, given: RegisteredAction | readonly RegisteredAction[]): readonly ListedAction[] {
  const at = name.indexOf(".");
  const [service, action] = [name.slice(0, at), name.slice(at + 1)];
  return [given].flat().map((registered) => ({ service, action, ...registered }));
}
