// The effects of a workflow that a rollback would leave: actions that are registered as compensable, in steps without a compensation, and those of the
// workflows that it runs.
import { parseActionName } from "./action.js";
import { constants } from "./named.js";
import type { Known, KnownWorkflow } from "./step.js";

/** Deeper children are not looked into. */
const MAX_DEPTH = 5;
/** More are not listed. */
const MAX_LISTED = 20;

/** Each as `step (service.action)`, with the workflow where it is another's. */
export function effectsThatStay(workflow: KnownWorkflow, known: Known): readonly string[] {
  const found: string[] = [];
  collect(workflow, known, { found, seen: new Set([workflow.workflowId]), depth: 0 });
  return found;
}

interface Search {
  readonly found: string[];
  readonly seen: Set<string>;
  readonly depth: number;
}

function collect({ workflowId, steps }: KnownWorkflow, known: Known, search: Search): void {
  for (const plan of steps.values()) {
    if (plan.compensation || search.found.length >= MAX_LISTED) continue;
    for (const [, name] of constants(plan, "action")) {
      const parsed = parseActionName(name);
      if (parsed && known.action?.(parsed.service, parsed.name, parsed.version)?.compensable)
        search.found.push(`the step "${plan.id}" of ${workflowId} (${name})`);
    }
    if (!plan.type.runsSaga || search.depth >= MAX_DEPTH) continue;
    for (const [, name] of constants(plan, "workflow")) {
      const child = search.seen.has(name) ? undefined : known.workflow?.(name);
      search.seen.add(name);
      if (child) collect(child, known, { ...search, depth: search.depth + 1 });
    }
  }
}
