// The plan of a workflow: its steps, and the block and catch chains of each.
import type { JsonObject } from "../values/json.js";
import type { RunConcurrency } from "./concurrency.js";
import type { RunRate } from "./rate.js";
import type { OnFailure, OnUndoFailure, StepPlan } from "./step.js";

/** A block: the run itself, a branch, the body of an item or a round, or a try chain. */
export interface Block {
  readonly kind: "run" | "branch" | "item" | "while" | "try";
  /** The step that it belongs to. Absent: the run. */
  readonly container?: string;
  /** Its first step. Absent for the run, which has entrypoints. */
  readonly start?: string;
  /** The step whose name as a target ends the block: the container, or the join for a branch. */
  readonly end?: string;
  readonly depth: number;
}

export interface StepPosition {
  readonly block: Block;
  /** The try_catch steps whose catch chains the step is in. A catch chain belongs to the block of its try_catch. */
  readonly chains: ReadonlySet<string>;
}

/** Positions by step id. Unreachable steps are in the block of the run. */
export type Layout = ReadonlyMap<string, StepPosition>;

/** Whether an `on_error` or `on_timeout` names a step. */
export function isStep(target: string): boolean {
  return target !== "fail" && target !== "continue";
}

export type Migrations = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** A checked workflow document. */
export interface WorkflowPlan {
  readonly workflowId: string;
  readonly version: number;
  readonly tenantId?: string;
  readonly name: string;
  readonly description?: string;
  /** The document as it was posted. */
  readonly document: JsonObject;
  readonly inputSchema?: JsonObject;
  readonly timeoutMs?: number;
  /** Absent: `rollback`. */
  readonly onFailure?: OnFailure;
  /** Absent: `continue`. */
  readonly onUndoFailure?: OnUndoFailure;
  /** How many of its runs go on at once for a key. Absent: any number. */
  readonly concurrency?: RunConcurrency;
  /** `full`: its runs keep the variables of each step entry at the top level. Absent: they do not. */
  readonly history?: "full";
  /** How many of its runs begin in a time for a key. Absent: any number. */
  readonly rateLimit?: RunRate;
  readonly steps: ReadonlyMap<string, StepPlan>;
  readonly layout: Layout;
  /** The steps of each earlier version that have another id here. */
  readonly migrations?: Migrations;
  readonly start: string;
  /** Entrypoint to step id. `default` is `start`. */
  readonly entrypoints: Readonly<Record<string, string>>;
}

/** The first step of a run. Undefined: the entrypoint is unknown. An empty name and `default` are `start`. */
export function entryStep(plan: WorkflowPlan, entrypoint: string): string | undefined {
  const name = entrypoint === "" ? "default" : entrypoint;
  return Object.hasOwn(plan.entrypoints, name) ? plan.entrypoints[name] : undefined;
}
