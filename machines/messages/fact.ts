// Facts: everything that a decision knows of the world outside the run. The shell reads them, so that the same run, command and
// facts always give the same decision. Optional facts are read on demand: see Need.

import type { Rule } from "../rule/document.js";
import type { CheckOptions } from "../schema/schemas.js";
import type { Patch, RunContext } from "../state/context.js";
import type { StepError } from "../state/entry.js";
import type { ChildState } from "../state/group.js";
import type { GivenAtStart, RunIdentity } from "../state/identity.js";
import type { UndoEntry } from "../state/rollback.js";
import type { DispatchId, RunId } from "../values/ids.js";
import type { Json, JsonObject } from "../values/json.js";
import type { RunLimits } from "../values/limits.js";
import type { RetryPolicy } from "../values/retry.js";
import type { Reason } from "./command.js";
import type { Owed } from "./owed.js";

export interface Facts {
  readonly limits: RunLimits;
  /** Database time, epoch milliseconds. */
  readonly now: number;
  /** A number in [0, 1), for jitter. */
  readonly random: number;
  /** A UUID derived from `seed`, with the run's shard as its last byte. The derivation must never change. */
  uuid(runId: RunId, seed: string): string;
  /** The registration of `service.name` at `version`, or at its latest version that is not deprecated, if it exists for the tenant. */
  action(
    service: string,
    name: string,
    version: number | undefined,
    tenantId: string | undefined,
  ): ActionFact | undefined;
  /** The latest published version of the rule, if it exists for runs of this tenant. */
  rule(ruleId: string, tenantId: string | undefined): Rule | undefined;
  licensed(tenantId: string | undefined, group: string): boolean;
  /** Absent: this service exports no spans. */
  readonly traces?: TraceSource;
  /** The problems of `value` under the JSON Schema. Empty: it conforms. Throws Needed if the schema has to be read first. */
  conforms(schema: JsonObject, value: Json, options?: CheckOptions): readonly string[];
  /**
   * The signal of a name that the run is to take: the one that it was promised, or the oldest of its own and its family's that is neither
   * consumed nor promised to another run. Null: there is none.
   */
  readonly signal?: RecordedSignal | null;
  /** Events that the run may consume, in the order of their publication. `more`: further pages exist. */
  readonly events?: { readonly page: readonly EventFact[]; readonly more: boolean };
  /** The present moment, in the store's own words. */
  readonly moment?: string;
  readonly undo?: OwedUndo;
  /** The children of a step entry that have ended, in their order. Null: they exceed the limit of an output. */
  readonly ended?: readonly EndedChild[] | null;
  /** The ids of the children that have not ended, of step entries from a given one on. */
  readonly living?: readonly RunId[];
  /** The published workflow. Null: there is none for this tenant. */
  readonly workflow?: WorkflowFact | null;
  /** The run that a step names. Null: there is none for this tenant. */
  readonly target?: { readonly id: RunId } | null;
  /**
   * The branch or item that has waited longest for a signal of the name, is not about to be cancelled, and has been neither promised nor
   * offered one. Null: there is none.
   */
  readonly waiter?: { readonly id: RunId } | null;
  /** How many unconsumed signals the run has, of all names, as far as the limit. */
  readonly keptSignals?: number;
  /** The run's unconsumed signals of the name, oldest first, each with the branch or item that it is to be offered to. */
  readonly unmatched?: readonly Unmatched[];
  /** An output schema that a registration has replaced. Null: it was not kept. */
  readonly outputSchema?: JsonObject | null;
  /** The variables that the service gave the run above at its start. */
  readonly startup?: JsonObject;
  /** The run that was started with an idempotency key. Null: there is none. */
  readonly keyedRun?: KeyedRun | null;
  /** The published version of the run's own workflow that it is asked to go on under. Null: there is none for this tenant. */
  readonly version?: VersionFact | null;
  readonly entries?: StepEntries;
  readonly inheritance?: Inheritance;
}

/** The step entries of a run so far, as far as they are known. */
export interface StepEntries {
  /** The steps of the last entries under this version, in their order: the last one has the number of the run's entries. */
  readonly steps: readonly string[];
  /** They are all entries since the start. */
  readonly whole: boolean;
  /** An operator has corrected variables. */
  readonly corrected: boolean;
  /** The last step that was entered has succeeded, or was skipped. */
  readonly lastIsDone: boolean;
  /** The last entries whose variables are kept. */
  readonly kept: readonly { readonly entry: number; readonly step: string }[];
}

/** What a fork would take over of a run. */
export interface Inheritance {
  /** The fork that has inherited the undo of this run. */
  readonly heir?: RunId;
  /** The undos that are owed; and the steps without a compensation that wait for a review. */
  readonly owed: number;
  readonly review: readonly string[];
  /** Entries that do not stand any more, or may not: the first hundred. */
  readonly undone: readonly {
    readonly step: string;
    readonly entry: number;
    readonly state: "done" | "failed" | "undoing";
  }[];
  /** Those that are kept of the step entry. */
  readonly variables?: JsonObject;
  readonly labels?: Readonly<Record<string, string>>;
  readonly given?: GivenAtStart;
}

/** The trace contexts of spans to come. They are derived from ids, so that each node that takes a part in a run finds the same ones. */
export interface TraceSource {
  /** Of an attempt, for its worker. */
  attempt(context: RunContext, dispatchId: DispatchId): string;
  /** Of the run, for links. Undefined: its spans are not recorded. */
  run(run: RunIdentity): string | undefined;
}

export interface KeyedRun {
  readonly id: RunId;
  /** There was one, and its key is not used again. */
  readonly erased: boolean;
}

/** The newest entry of the undo list that is still owed, of the step entries after `since`. Null: there is none. */
export interface OwedUndo {
  readonly since: number;
  readonly newest: UndoEntry | null;
}

export interface RecordedSignal {
  readonly id: string;
  /** The run that it was sent to. */
  readonly runId: RunId;
  readonly payload: Json;
  /** Its sender was answered that this run takes it. */
  readonly promised?: boolean;
}

export interface Unmatched {
  readonly signalId: string;
  readonly waiter: RunId;
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
  /** Why a fork cannot begin at the step. Undefined: it can. */
  forkFault(step: string): string | undefined;
}

export interface VersionFact {
  readonly version: number;
  readonly definitionId: string;
  /** What changes if the run goes on under this version, or all that is against it. `steps`: steps that have another id there. */
  move(context: RunContext, steps: Readonly<Record<string, string>>, conforms: Facts["conforms"]): MoveVerdict;
}

export interface MoveVerdict {
  /** Empty: it is allowed. */
  readonly reasons: readonly Reason[];
  /** Absent: it is not. */
  readonly change?: VersionChange;
}

export interface VersionChange {
  /** What changes in the context, besides the version and the variables. */
  readonly patch: Patch;
  /** Outputs that are stored under the id of a step that has another id there: the variables to store, and those to remove. */
  readonly stored: JsonObject;
  readonly removed: readonly string[];
  readonly owed?: Owed;
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
  /** Names the output schema by its content. Absent: calls are checked by the schema that is registered when they are answered. */
  readonly outputHash?: string;
  readonly defaultRetry?: Partial<RetryPolicy>;
  readonly defaultTimeoutMs?: number;
}

/** A fact that a decision lacks. The shell commits the decisions so far, reads the fact, and decides again. */
export type Need =
  | { readonly kind: "signal"; readonly name: string }
  /** A page of the events above `after` that the run has not consumed, and the event `named`, whatever its ordinal. */
  | {
      readonly kind: "events";
      readonly topic: string;
      readonly headers: Readonly<Record<string, string>>;
      readonly since?: string;
      readonly after?: string;
      readonly named?: string;
    }
  | { readonly kind: "moment" }
  /** `since`: only entries of later step entries. 0: all. */
  | { readonly kind: "undo"; readonly since: number }
  | { readonly kind: "ended"; readonly entry: number; readonly child?: RunId }
  | { readonly kind: "living"; readonly from: number }
  | { readonly kind: "workflow"; readonly workflowId: string; readonly version?: number }
  | { readonly kind: "target"; readonly runId: RunId }
  | { readonly kind: "waiter" | "unmatched"; readonly name: string }
  | { readonly kind: "kept_signals" }
  | { readonly kind: "startup"; readonly runId: RunId }
  | { readonly kind: "output_schema"; readonly hash: string }
  | { readonly kind: "keyed_run"; readonly workflowId: string; readonly key: string }
  | { readonly kind: "version"; readonly version: number }
  | { readonly kind: "entries" }
  /** `before`: of earlier step entries. `undoing`: the undo that was cut off by the end of the run. */
  | { readonly kind: "inheritance"; readonly before: number; readonly undoing?: string }
  /** Reading it takes longer than a decision may. */
  | { readonly kind: "schema"; readonly schema: JsonObject };

/** Thrown inside a decision that lacks a fact. It never leaves decide(). */
export class Needed {
  constructor(readonly need: Need) {}
}

/** The facts that the shell reads on demand. */
export type Fetched = Pick<
  Facts,
  | "signal"
  | "events"
  | "moment"
  | "undo"
  | "ended"
  | "living"
  | "workflow"
  | "target"
  | "waiter"
  | "unmatched"
  | "keptSignals"
  | "startup"
  | "outputSchema"
  | "keyedRun"
  | "version"
  | "entries"
  | "inheritance"
>;
