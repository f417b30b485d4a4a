// A run's context as the rows of a commit, and back: the encoder, and its one decoder. Every store writes what is encoded here, and gives the
// decoder the columns that it has read. The record, which is one of the columns, is state/record.ts.

import type { RareColumn, Row } from "../messages/relations.js";
import { pausedReason, type RunContext } from "../state/context.js";
import type { GivenAtStart, RunIdentity } from "../state/identity.js";
import { isTerminal, type RunState } from "../state/lifecycle.js";
import type { CommandReach } from "../state/reach.js";
import { FIRST_FORMAT, RECORD_FORMATS, type RecordFormats, type StoredRun } from "../state/record.js";
import { awaitedSignal } from "../state/wait.js";
import { type RunId, shardNumber } from "../values/ids.js";
import type { Json, JsonObject } from "../values/json.js";

/** What a commit knows of the run besides its context. */
export interface RunUpdate {
  /** What it is based on. */
  readonly revision: number;
  readonly expectedFence: string;
  /** Whose runs the command may change. */
  readonly reach: Pick<CommandReach, "tenants">;
  readonly fence: string;
  readonly lastSeq: number;
  readonly lastEventAt: number;
  readonly record: ReturnType<RecordFormats["encode"]>;
  readonly changed: ReadonlySet<RareColumn>;
  /** The version that the run has moved to. */
  readonly moved?: Pick<RunIdentity, "version" | "definitionId">;
}

export function updateRow(context: RunContext, update: RunUpdate): Row<"run_update"> {
  const { changed, lastEventAt, moved } = update;
  return {
    id: context.run.id,
    expected: update.revision,
    expected_fence: update.expectedFence,
    within: tenantsWithin(update.reach),
    fence: update.fence,
    state: context.state,
    step: context.step,
    last_seq: update.lastSeq,
    last_event_at: lastEventAt,
    terminal_at: isTerminal(context.state) ? lastEventAt : undefined,
    review: context.requiresManualReview,
    awaited_signal: awaitedSignal(context.wait),
    paused_reason: pausedReason(context),
    record: update.record,
    set_call: changed.has("call"),
    call: changed.has("call") ? context.call : undefined,
    set_frames: changed.has("frames"),
    frames: changed.has("frames") && context.frames.length > 0 ? context.frames : undefined,
    set_items: changed.has("items"),
    items: changed.has("items") ? context.items : undefined,
    output: context.output,
    version: moved?.version,
    definition_id: moved?.definitionId,
  };
}

/** The tenants of a reach as a fence has them: an array literal of uuids. Undefined: all, and runs of none. */
export function tenantsWithin({ tenants }: Pick<CommandReach, "tenants">): string | undefined {
  return tenants === "*" ? undefined : `{${tenants.join(",")}}`;
}

/** The variables that a commit changes. One that the run does not have any more has no value. */
export function changedVariables({ run, variables }: RunContext, names: Iterable<string>): Row<"variable">[] {
  return Array.from(names, (name) => ({
    run_id: run.id,
    name,
    value: Object.hasOwn(variables, name) ? variables[name] : undefined,
  }));
}

/** Stored with the run: what a repeat of its start request is recognised by, and the token of its first revision (law 1). */
export interface StartMark {
  readonly requestHash: string;
  readonly idempotencyKey?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly given?: GivenAtStart;
  readonly fence: string;
}

/** `madeBy`: the run that creates it. */
export function newRunRow(context: RunContext, mark: StartMark, madeBy?: RunId): Row<"new_run"> {
  const { requestHash, idempotencyKey, fence } = mark;
  const { run, state } = context;
  const { scope, key } = idempotencyKey === undefined ? NO_KEY : startKey(run, idempotencyKey);
  return {
    id: run.id,
    shard: shardNumber(run.id),
    fence,
    record: RECORD_FORMATS.encode(context, FIRST_FORMAT),
    workflow_id: run.workflowId,
    version: run.version,
    definition_id: run.definitionId,
    tenant_id: run.tenantId,
    business_key: run.businessKey,
    trigger_id: run.triggerId,
    parent_run_id: run.parentRunId,
    parent_step_id: run.parentStepId,
    parent_branch_id: run.parentBranchId,
    parent_entry: run.parentEntry,
    root_run_id: run.rootRunId,
    family_run_id: run.family?.at(-1),
    started_at: run.startedAt,
    state,
    step: undefined,
    last_seq: 1,
    last_event_at: run.startedAt,
    terminal_at: undefined,
    review: false,
    awaited_signal: undefined,
    paused_reason: undefined,
    call: undefined,
    frames: undefined,
    items: undefined,
    output: undefined,
    inputs: run.family ? undefined : run.inputs,
    identity: storedIdentity(run, mark),
    request_hash: requestHash,
    scope,
    key,
    made_by: madeBy,
  };
}

const NO_KEY = { scope: undefined, key: undefined };

/** The scope of an idempotency key, and of a business key that is held, is tenant and workflow. A storage format: it must never change. */
export function startKey(
  { tenantId, workflowId }: Pick<RunIdentity, "tenantId" | "workflowId">,
  key: string,
): { readonly scope: string; readonly key: string } {
  return { scope: `${tenantId ?? ""}/${workflowId}`, key };
}

/** `run_starts.identity`: the members of RunIdentity that are no columns of `runs`, and what the start gave. */
export type StoredIdentity = Pick<
  RunIdentity,
  | "entrypoint"
  | "features"
  | "dryRun"
  | "delayedUntil"
  | "expiresAt"
  | "depth"
  | "family"
  | "startStep"
  | "locals"
  | "keepsUndo"
  | "startup"
  | "startupFrom"
  | "rerunOf"
  | "forkedFrom"
  | "traceparent"
  | "linkedTrace"
  | "precedence"
> &
  Pick<StartMark, "idempotencyKey" | "labels" | "given">;

function storedIdentity(run: RunIdentity, { idempotencyKey, labels, given }: StartMark): StoredIdentity {
  // The type asks for every member. One without a value is not stored.
  const stored: { readonly [Member in keyof Required<StoredIdentity>]: StoredIdentity[Member] | undefined } = {
    entrypoint: run.entrypoint,
    features: run.features,
    dryRun: run.dryRun,
    delayedUntil: run.delayedUntil,
    expiresAt: run.expiresAt,
    depth: run.depth,
    family: run.family,
    startStep: run.startStep,
    locals: run.locals,
    keepsUndo: run.keepsUndo,
    startup: run.startup,
    startupFrom: run.startupFrom,
    rerunOf: run.rerunOf,
    forkedFrom: run.forkedFrom,
    traceparent: run.traceparent,
    linkedTrace: run.linkedTrace,
    precedence: run.precedence,
    idempotencyKey,
    labels,
    given,
  };
  return stored as StoredIdentity;
}

/** A run as a store reads it: the columns of its row, of its start, and its variables. A column without a value is null. */
export interface RunColumns {
  readonly id: RunId;
  readonly state: RunState;
  readonly current_step: string | null;
  readonly requires_manual_review: boolean;
  readonly record: JsonObject;
  readonly call: JsonObject | null;
  readonly output: Json;
  readonly frames: readonly JsonObject[] | null;
  readonly items: readonly Json[] | null;
  readonly workflow_id: string;
  readonly version: number;
  readonly definition_id: string;
  readonly tenant_id: string | null;
  readonly business_key: string | null;
  readonly trigger_id: string | null;
  readonly parent_run_id: RunId | null;
  readonly parent_step_id: string | null;
  readonly parent_branch_id: string | null;
  readonly parent_entry: number | null;
  readonly root_run_id: RunId | null;
  /** Epoch milliseconds. */
  readonly started_at: number;
  readonly identity: StoredIdentity;
  /** A branch or an item has those of the run at the top of its family. */
  readonly inputs: JsonObject;
  /** Its own variables; null: none. */
  readonly variables: JsonObject | null;
  /** The variables of the kept scope that a branch or an item began with. */
  readonly inherited: JsonObject | null;
  /** The names of variables that it has removed. */
  readonly gone: readonly string[] | null;
}

/** The columns of RunColumns that are in the run's own row: a statement that loads a run selects them. */
export const LOADED_COLUMNS: readonly string[] = Object.keys({
  ...{
    id: 1,
    state: 1,
    current_step: 1,
    requires_manual_review: 1,
    record: 1,
    call: 1,
    output: 1,
    frames: 1,
    items: 1,
  },
  ...{ workflow_id: 1, version: 1, definition_id: 1, tenant_id: 1, business_key: 1, trigger_id: 1, started_at: 1 },
  ...{ parent_run_id: 1, parent_step_id: 1, parent_branch_id: 1, parent_entry: 1, root_run_id: 1 },
} satisfies Record<Exclude<keyof RunColumns, "identity" | "inputs" | "variables" | "inherited" | "gone">, 1>);

/** The run that the columns are of. `decodeRun` makes its context. */
export function storedRun(row: RunColumns): StoredRun {
  const { idempotencyKey: _, labels: __, given: ___, ...stored } = row.identity;
  const identity: RunIdentity = {
    id: row.id,
    workflowId: row.workflow_id,
    version: row.version,
    definitionId: row.definition_id,
    tenantId: row.tenant_id ?? undefined,
    businessKey: row.business_key ?? undefined,
    triggerId: row.trigger_id ?? undefined,
    parentRunId: row.parent_run_id ?? undefined,
    parentStepId: row.parent_step_id ?? undefined,
    parentBranchId: row.parent_branch_id ?? undefined,
    rootRunId: row.root_run_id ?? undefined,
    startedAt: row.started_at,
    parentEntry: row.parent_entry ?? undefined,
    inputs: row.inputs,
    ...stored,
  };
  return {
    identity,
    state: row.state,
    currentStep: row.current_step ?? undefined,
    requiresManualReview: row.requires_manual_review,
    record: row.record,
    call: row.call ?? undefined,
    frames: row.frames ?? undefined,
    items: row.items ?? undefined,
    variables: variablesOf(row),
    output: row.output ?? undefined,
  };
}

/** A branch or an item has the variables of its kept scope, except those that it has changed or removed. There may be 100,000. */
export function variablesOf({
  inherited,
  variables,
  gone,
}: Pick<RunColumns, "inherited" | "variables" | "gone">): JsonObject {
  if (!inherited) return variables ?? {};
  if (!variables && !gone) return inherited;
  const all = { ...inherited, ...variables };
  if (!gone) return all;
  const removed = new Set(gone);
  return Object.fromEntries(Object.entries(all).filter(([name]) => !removed.has(name)));
}
