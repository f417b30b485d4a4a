// What the API answers, by the names of its OpenAPI document. The types are those of its schemas; none of its code is loaded.
import type { Static } from "typebox";
import type { RESOURCES } from "../../api/schemas.js";

type Of<Name extends keyof typeof RESOURCES> = Static<(typeof RESOURCES)[Name]>;

export type Refusal = Of<"Error">;
export type Problem = NonNullable<Refusal["details"]>[number];
/** Who uses the console. */
export type Principal = Of<"Principal">;
export type Run = Of<"SagaRun">;
export type RunState = Run["state"];
export type AuditEvent = Of<"SagaRunEvent">;
export type RunCount = Of<"RunCount">;
export type ChildCount = Of<"ChildCount">;
export type Signal = Of<"SagaSignal">;
export type UndoEntry = Of<"UndoEntry">;
export type UserTask = Of<"UserTask">;
export type BulkJob = Of<"BulkJob">;
export type Workflow = Of<"WorkflowDefinition">;
export type Performance = Of<"Performance">;
export type Rule = Of<"RuleDefinition">;
export type Trigger = Of<"SagaTrigger">;
export type Fire = Of<"TriggerFireRow">;
export type Action = Of<"ActionRegistration">;
export type Worker = Of<"Worker">;
export type Unserved = Of<"UnservedAction">;
export type ApiKey = Of<"ApiKey">;
/** With its text, which is shown once. */
export type NewApiKey = Of<"NewApiKey">;
export type DataKeys = Of<"DataKeys">;
export type Cluster = Of<"Cluster">;

export interface List<T> {
  readonly items: readonly T[];
  readonly total: number;
  readonly total_is_lower_bound?: boolean;
  readonly limit: number;
  readonly offset: number;
  readonly next_cursor?: string;
}
