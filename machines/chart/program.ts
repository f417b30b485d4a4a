// A program: one version of a workflow definition, checked and compiled once. Run actors are made from it.

import type { AnyStateMachine } from "xstate";
import type { WorkflowPlan } from "../steps/plan.js";
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
