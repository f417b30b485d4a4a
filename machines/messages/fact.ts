// Facts: what a decision may know of the world outside the run. The shell reads them once per command and hands them in,
// so that the same run, command and facts always give the same decision.
import type { ChildState, StepError, UndoEntry } from "./context.js";
import type { Json, JsonObject } from "./json.js";
import type { RunLimits } from "./limits.js";
import type { RetryPolicy } from "./retry.js";
import type { Rule } from "./rule/document.js";

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
  /** The latest published version of the rule, whoever's it is. */
  rule(ruleId: string): Rule | undefined;
  licensed(tenantId: string | undefined, group: string): boolean;
  /** Problems of `value` under the JSON Schema, empty if it conforms. */
  conforms(schema: JsonObject, value: Json): readonly string[];
  /** The oldest unconsumed signal of a name, of the run and of the family it is a part of (`need`); null: there is none. */
  readonly signal?: { readonly id: string; readonly runId: string; readonly payload: Json } | null;
  /** Events that the run may take, in the order of their publication (`need`). `more`: there are others behind them. */
  readonly events?: { readonly page: readonly EventFact[]; readonly more: boolean };
  /** The ordinal of the newest event of the topic (`need`); "0": there is none. */
  readonly newestEvent?: string;
  /** The newest entry of the undo list that is still owed (`need`); null: there is none. */
  readonly undo?: UndoEntry | null;
  /** Of one step entry's children, those that have ended, in their order (`need`). Null: more than an output may hold. */
  readonly ended?: readonly EndedChild[] | null;
  /** The children that have not ended, of step entries from one on (`need`). */
  readonly living?: readonly string[];
  /** The published workflow (`need`); null: there is none for this tenant. */
  readonly workflow?: WorkflowFact | null;
  /** The run that a step names (`need`); null: there is none for this tenant. */
  readonly target?: { readonly id: string } | null;
  /**
   * The branch or item that has waited longest for a signal of the name (`need`), those left out that the run's unconsumed
   * ones are on their way to: each has one. Null: no other waits.
   */
  readonly waiter?: { readonly id: string } | null;
  /** The run's unconsumed signals of the name, the oldest first, each with the branch or item that is to take it (`need`). */
  readonly unmatched?: readonly Unmatched[];
  /** The run that was started with an idempotency key (`need`); null: none. */
  readonly keyed?: { readonly id: string } | null;
}

export interface Unmatched {
  readonly signalId: string;
  readonly waiter: string;
}

export interface EventFact {
  readonly id: string;
  readonly ordinal: string;
  readonly topic: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: Json;
}

export interface EndedChild {
  readonly branch: string;
  readonly state: ChildState;
  readonly output: Json;
  readonly error?: StepError;
}

export interface WorkflowFact {
  readonly workflowId: string;
  readonly version: number;
  readonly definitionId: string;
  readonly timeoutMs?: number;
  readonly inputSchema?: JsonObject;
  /** Whether it has this entrypoint. */
  enters(entrypoint: string): boolean;
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
export type Need =
  | { readonly kind: "signal"; readonly name: string }
  /** A page of those not taken by the run, above `after`; and the one named, wherever it stands. */
  | {
      readonly kind: "events";
      readonly topic: string;
      readonly headers: Readonly<Record<string, string>>;
      readonly since?: string;
      readonly after?: string;
      readonly named?: string;
    }
  | { readonly kind: "newest_event"; readonly topic: string }
  /** `since`: only of step entries after that one. */
  | { readonly kind: "undo"; readonly since?: number }
  | { readonly kind: "ended"; readonly entry: number; readonly child?: string }
  | { readonly kind: "living"; readonly from: number }
  | { readonly kind: "workflow"; readonly workflowId: string; readonly version?: number }
  | { readonly kind: "target"; readonly runId: string }
  | { readonly kind: "waiter" | "unmatched"; readonly name: string }
  | { readonly kind: "keyed"; readonly workflowId: string; readonly key: string };

/** What the shell may read for a need. */
export type Fetched = Pick<
  Facts,
  | "signal"
  | "events"
  | "newestEvent"
  | "undo"
  | "ended"
  | "living"
  | "workflow"
  | "target"
  | "waiter"
  | "unmatched"
  | "keyed"
>;
