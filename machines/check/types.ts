// The types of what expressions read in one workflow: inputs by its input schema, outputs of steps by what their types say. What nothing is known of
// has no type, and what may come from elsewhere, too.
import { runSchema } from "../expression/scope.js";
import type { WorkflowPlan } from "../steps/plan.js";
import type { Known, StepPlan } from "../steps/step.js";
import { isObject, type JsonObject } from "../values/json.js";
import type { Resolve } from "./fit.js";
import { setBy } from "./flow.js";
import { memberOf, type View, viewOf } from "./schema-view.js";

const RUN = viewOf(runSchema());
const ANY_OBJECT: JsonObject = { type: "object" };

export class ScopeTypes {
  private readonly variables = new Map<string, View | undefined>();
  private readonly inputs: View | undefined;

  constructor(
    workflow: WorkflowPlan,
    private readonly known: Known,
  ) {
    this.inputs = workflow.inputSchema && viewOf(workflow.inputSchema);
    const setters = new Map<string, StepPlan | undefined>();
    // A variable that several steps set has no type that is known.
    for (const plan of workflow.steps.values())
      for (const name of setBy(plan)) setters.set(name, setters.has(name) ? undefined : plan);
    for (const [name, plan] of setters)
      this.variables.set(name, plan && plan.saveAs === name ? this.outputOf(plan) : undefined);
  }

  /** What a step stores, if it goes on only after a success. */
  outputOf({ type, attributes, onError }: StepPlan): View | undefined {
    const schema = onError === "fail" ? type.outputSchema?.(attributes, this.known) : undefined;
    return isObject(schema) ? viewOf(schema) : undefined;
  }

  /** In the scope of a step, or in that of its undo, which sees the step's output. */
  resolveIn(plan: StepPlan, isUndo: boolean): Resolve {
    return (path) => {
      const found = this.look(path, plan, isUndo);
      return found === "missing" ? undefined : found;
    };
  }

  look([root, ...below]: Parameters<Resolve>[0], plan: StepPlan, isUndo: boolean): View | "missing" | undefined {
    if (root === "vars") {
      const [name, ...rest] = below;
      const variable = typeof name === "string" ? this.variables.get(name) : undefined;
      return variable && downTo(variable, rest);
    }
    const start = root === "output" && isUndo ? this.outputOf(plan) : this.rootOf(root);
    return start && downTo(start, below);
  }

  private rootOf(root: string): View | undefined {
    if (root === "inputs") return this.inputs;
    if (root === "run") return RUN;
    return root === "features" || root === "vars" ? viewOf(ANY_OBJECT) : undefined;
  }
}

function downTo(start: View, path: readonly (string | number)[]): View | "missing" | undefined {
  let at: View | "missing" | undefined = start;
  for (const key of path) {
    if (at === undefined || at === "missing") return at;
    at = memberOf(at, key);
  }
  return at;
}
