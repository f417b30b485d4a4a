// A program: one version of a workflow definition, checked and compiled once. Run actors are made from it, and it says where a fork of a run may begin.

import type { AnyStateMachine } from "xstate";
import type { StepPosition, WorkflowPlan } from "../steps/plan.js";
import type { RunLogic } from "./actor.js";
import type { Chart } from "./published.js";

export interface Program extends WorkflowPlan {
  /** What the API publishes. */
  readonly chart: Chart;
  /** The steps that a run can come to. The chart has no ways out of the others. */
  readonly reached: ReadonlySet<string>;
  /** What runs. */
  readonly machine: AnyStateMachine;
  /** The logic of its runs' actors: the machine, with its edges looked up once. */
  readonly logic: RunLogic;
}

/** Whether the step is one of the run itself, which stands in no block and no catch chain: a fork can begin there, because it needs nothing but variables. */
export function isTopLevel({ layout }: Pick<WorkflowPlan, "layout">, step: string): boolean {
  const position = layout.get(step);
  return position !== undefined && isOutermost(position);
}

const isOutermost = ({ block, chains }: StepPosition) => block.kind === "run" && chains.size === 0;

/** Why a fork cannot begin at the step of this version. Undefined: it can. A plan that has not been compiled does not say what is reached. */
export function forkFault(plan: WorkflowPlan & Partial<Pick<Program, "reached">>, step: string): string | undefined {
  const { version, workflowId, steps, layout, reached } = plan;
  const found = steps.get(step);
  const of = `version ${version} of the workflow ${workflowId}`;
  if (!found) return `${of} has no step "${step}"`;
  if (found.type.joins) return `the step "${step}" is a join: fork from the parallel before it`;
  const { block, chains } = layout.get(step) ?? {};
  const [chain] = chains ?? [];
  if (chain !== undefined)
    return `the step "${step}" is in the catch chain of "${chain}": fork from a step at the top level`;
  if (block && block.kind !== "run")
    return `the step "${step}" is inside "${block.container}": fork from a step at the top level`;
  if (reached && !reached.has(step)) return `no run of ${of} can come to the step "${step}"`;
  return undefined;
}
