// A program: one version of a workflow definition, validated and compiled once. What a run's actor is made of.
import type { AnyStateMachine } from "xstate";
import type { Layout } from "./definition/layout.js";
import type { Problem } from "./definition/problem.js";
import type { JsonObject } from "./json.js";
import type { StepPlan } from "./steps/step.js";

/** What the document says. */
export interface Plan {
  readonly workflowId: string;
  readonly version: number;
  readonly tenantId?: string;
  readonly name: string;
  /** The document as it was posted. */
  readonly document: JsonObject;
  readonly inputSchema?: JsonObject;
  readonly timeoutMs?: number;
  readonly steps: ReadonlyMap<string, StepPlan>;
  readonly layout: Layout;
  readonly start: string;
  /** Entry name to step id; `default` is `start`. */
  readonly entrypoints: Readonly<Record<string, string>>;
}

export interface Program extends Plan {
  /** The chart as plain data: what Stately Studio opens. */
  readonly chart: JsonObject;
  readonly machine: AnyStateMachine;
}

export interface Compiled {
  /** Absent if there is any problem. */
  readonly program?: Program;
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
}

/** The step a run begins with, or undefined for an unknown entry name. An empty name and `default` are `start`. */
export function entryStep(plan: Plan, entrypoint: string): string | undefined {
  const name = entrypoint === "" ? "default" : entrypoint;
  return Object.hasOwn(plan.entrypoints, name) ? plan.entrypoints[name] : undefined;
}
