// A program: one version of a workflow definition, validated and compiled once. What a run's actor is made of.
import type { Problem } from "./definition/problem.js";
import type { JsonObject } from "./json.js";

export interface Program {
  readonly workflowId: string;
  readonly version: number;
  readonly tenantId?: string;
  readonly name: string;
  /** The document as it was posted. */
  readonly document: JsonObject;
  readonly inputSchema?: JsonObject;
  readonly timeoutMs?: number;
}

export interface Compiled {
  /** Absent if there is any problem. */
  readonly program?: Program;
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
}
