// Facts: what a decision may know of the world outside the run. The shell reads them once per command and hands them in,
// so that the same run, command and facts always give the same decision.
import type { UndoEntry } from "./context.js";
import type { Json, JsonObject } from "./json.js";
import type { RunLimits } from "./limits.js";
import type { RetryPolicy } from "./retry.js";

export interface Facts {
  readonly limits: RunLimits;
  /** Database time, epoch milliseconds. */
  readonly now: number;
  /** A number in [0, 1), for jitter. */
  readonly random: number;
  /** A uuid derived from `seed`, the same for ever, with the run's shard as its last byte. */
  uuid(runId: string, seed: string): string;
  /** The registration of "service.name" at `version`, else at its latest version that is not deprecated. */
  action(service: string, name: string, version?: number): ActionFact | undefined;
  licensed(tenantId: string | undefined, group: string): boolean;
  /** Problems of `value` under the JSON Schema, empty if it conforms. */
  conforms(schema: JsonObject, value: Json): readonly string[];
  /** The oldest unconsumed signal of the name that the run asked for (`need`); null: there is none. */
  readonly signal?: { readonly id: string; readonly payload: Json } | null;
  /** The newest entry of the undo list that is still owed (`need`); null: there is none. */
  readonly undo?: UndoEntry | null;
}

export interface ActionFact {
  readonly service: string;
  readonly name: string;
  readonly version: number;
  readonly transport: "grpc" | "http" | "rmq";
  readonly address?: string;
  readonly compensable: boolean;
  readonly dryRunSupported: boolean;
  readonly licenseGroup?: string;
  readonly inputSchema: JsonObject;
  readonly outputSchema: JsonObject;
  readonly defaultRetry?: Partial<RetryPolicy>;
  readonly defaultTimeoutMs?: number;
}

/** What a decision must know first. The shell commits what is done so far, reads it, and asks again. */
export type Need = { readonly kind: "signal"; readonly name: string } | { readonly kind: "undo" };
