// The steps of a workflow as a graph: the ways along which a block goes on, and the order in which steps may follow each other. machines/definition
// has checked before that every way leads to a step of the same block.
import type { WorkflowPlan } from "../steps/plan.js";
import { isStep } from "../steps/plan.js";
import type { StepPlan } from "../steps/step.js";

/** Beside the steps: the end of the block, of the run, or a failure. */
const END = Symbol("end");
type Target = string | typeof END;

/** Where a step goes on within its block. `failing`: the failure of a step is an end, too. */
function waysOf(plan: StepPlan, workflow: WorkflowPlan, failing: boolean): readonly Target[] {
  const { type, next, onError, edges, attributes } = plan;
  const block = workflow.layout.get(plan.id)?.block;
  const place = (target: string): Target => (target === block?.end ? END : target);
  const onward: Target = next === undefined ? END : place(next);
  const ways: Target[] = edges.filter(({ when }) => when !== null).map(({ target }) => place(target));
  if (isStep(onError)) ways.push(place(onError));
  if (type.alwaysFails) {
    if (onError === "continue" || plan.when) ways.push(onward);
    return failing ? [...ways, END] : ways;
  }
  if (type.ends || !goesNever(plan, attributes) || plan.when || onError === "continue") ways.push(onward);
  // A run that cancels itself ends here, and a step without any way out fails.
  return ways.length > 0 ? ways : [END];
}

/** `next` is not taken when the step is done. */
const goesNever = ({ type }: StepPlan, attributes: StepPlan["attributes"]): boolean =>
  type.nextWhen !== undefined && type.nextWhen(attributes) === null;

export interface Endings {
  /** The steps from which the end of their block can be reached. */
  readonly finishing: ReadonlySet<string>;
  /** Those from which it can be reached without a failure that nothing takes. */
  readonly succeeding: ReadonlySet<string>;
}

export function endingsOf(workflow: WorkflowPlan): Endings {
  return { finishing: towardsEnd(workflow, true), succeeding: towardsEnd(workflow, false) };
}

/** Backwards from the ends. `without`: steps that no way leads through. */
export function towardsEnd(
  workflow: WorkflowPlan,
  failing: boolean,
  without: ReadonlySet<string> = new Set(),
): ReadonlySet<string> {
  const before = new Map<Target, string[]>([[END, []]]);
  for (const plan of workflow.steps.values()) {
    if (without.has(plan.id)) continue;
    for (const target of waysOf(plan, workflow, failing)) {
      const known = before.get(target);
      if (known) known.push(plan.id);
      else before.set(target, [plan.id]);
    }
  }
  const reached = new Set<string>();
  const open = [...(before.get(END) ?? [])];
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    if (reached.has(id)) continue;
    reached.add(id);
    open.push(...(before.get(id) ?? []));
  }
  return reached;
}

/** The steps that lead back to each other without an end, as one step for each such knot: the first one in the document. */
export function knotsOf(
  workflow: WorkflowPlan,
  { finishing }: Endings,
  reachable: ReadonlySet<string>,
): readonly string[] {
  const seen = new Set<string>();
  const knots: string[] = [];
  for (const { id } of workflow.steps.values()) {
    if (finishing.has(id) || seen.has(id) || !reachable.has(id)) continue;
    knots.push(id);
    const open = [id];
    for (let at = open.pop(); at !== undefined; at = open.pop()) {
      const plan = workflow.steps.get(at);
      if (!plan || seen.has(at)) continue;
      seen.add(at);
      for (const target of waysOf(plan, workflow, true)) if (typeof target === "string") open.push(target);
    }
  }
  return knots;
}

/** The steps that an entrypoint leads to, blocks included. */
export function reachableIn(workflow: WorkflowPlan): ReadonlySet<string> {
  const reached = new Set<string>();
  const open = Object.values(workflow.entrypoints);
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    const plan = workflow.steps.get(id);
    if (!plan || reached.has(id)) continue;
    reached.add(id);
    open.push(...plan.edges.map(({ target }) => target), ...plan.blocks.map(({ start }) => start), plan.onError);
    if (plan.next !== undefined) open.push(plan.next);
  }
  return reached;
}

/** The steps that hold the block of a step, the innermost first. */
export function containersOf(id: string, { steps, layout }: WorkflowPlan): readonly StepPlan[] {
  const around: StepPlan[] = [];
  for (let at = layout.get(id)?.block.container; at !== undefined; at = layout.get(at)?.block.container) {
    const plan = steps.get(at);
    if (plan) around.push(plan);
  }
  return around;
}

/** By the step that holds a block: the steps in it, and in the blocks inside. */
export function insideOf(workflow: WorkflowPlan): ReadonlyMap<string, readonly StepPlan[]> {
  const inside = new Map<string, StepPlan[]>();
  for (const plan of workflow.steps.values())
    for (const { id } of containersOf(plan.id, workflow)) {
      const known = inside.get(id);
      if (known) known.push(plan);
      else inside.set(id, [plan]);
    }
  return inside;
}
