// One review: the workflow, what is known beside it, what has been read of the workflow as a whole, and what it finds. The rules take it and report.

import type { WorkflowPlan } from "../steps/plan.js";
import type { Known, StepPlan } from "../steps/step.js";
import type { FindingCode } from "../values/finding-code.js";
import type { Comparisons } from "./fit.js";
import type { Flow } from "./flow.js";
import type { Endings } from "./graph.js";
import type { PlacedStep } from "./sources.js";
import type { ScopeTypes } from "./types.js";

export interface Review {
  readonly workflow: WorkflowPlan;
  readonly known: Known;
  readonly types: ScopeTypes;
  readonly flow: Flow;
  readonly endings: Endings;
  /** The steps that an entrypoint leads to. */
  readonly reachable: ReadonlySet<string>;
  readonly placed: ReadonlyMap<string, PlacedStep>;
  /** By the step that holds a block: the steps in it, and in the blocks inside. */
  readonly inside: ReadonlyMap<string, readonly StepPlan[]>;
  readonly comparisons: Comparisons;
  /** `path`: a JSON path. */
  report(code: FindingCode, path: string, message: string): void;
}
