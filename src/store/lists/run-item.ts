// A run as clients see it, made from its row. Nothing here reads the database.
import {
  actionText,
  type DispatchId,
  type ForkedFrom,
  forkedFromView,
  type JsonObject,
  type Precedence,
  type StepError,
  variablesOf,
  withoutCorrection,
} from "../../../machines/index.js";
import { present } from "./item.js";
import type { RunViewRow } from "./run-row.js";

/** The part of a run's record (machines/state/record.ts writes it) and of its identity that clients see. Times are epoch ms. */
interface WaitView {
  readonly kind: string;
  readonly dueAt?: number;
  readonly attempt?: number;
  readonly since?: number;
  readonly nth?: number;
  readonly error?: JsonObject;
  readonly maxAttempts?: number;
  readonly attempts?: number;
  readonly phase?: string;
  readonly dispatchId?: DispatchId;
  readonly topic?: string;
  readonly headers?: Readonly<Record<string, string>>;
}
interface RecordView {
  readonly wait?: WaitView;
  readonly proof?: JsonObject;
  readonly ending?: { readonly to: string; readonly error?: StepError; readonly reason: string };
}
interface FrameView {
  readonly kind: string;
  readonly step: string;
  readonly catchStep: string;
}
interface IdentityView {
  readonly features?: Readonly<Record<string, boolean>>;
  readonly dryRun?: boolean;
  readonly delayedUntil?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly rerunOf?: string;
  readonly forkedFrom?: ForkedFrom;
  readonly precedence?: Precedence;
}

export function runItem(row: RunViewRow): JsonObject {
  const record = row.record as RecordView;
  const identity = (row.identity ?? {}) as IdentityView;
  return present({
    id: row.id,
    workflow_id: row.workflowId,
    version: row.version,
    definition_id: row.definitionId,
    tenant_id: row.tenantId,
    state: row.state,
    paused_reason: row.pausedReason,
    current_step: row.currentStep,
    inputs: row.inputs ?? {},
    variables: withoutCorrection(variablesOf(row)),
    output: row.output,
    business_key: row.businessKey,
    labels: identity.labels,
    priority: identity.precedence?.priority,
    fairness_key: identity.precedence?.key,
    fairness_weight: identity.precedence?.weight,
    started_at: row.startedAt,
    last_event_at: row.lastEventAt,
    terminal_at: row.terminalAt,
    requires_manual_review: row.requiresManualReview,
    trigger_id: row.triggerId,
    parent_run_id: row.parentRunId,
    parent_step_id: row.parentStepId,
    parent_branch_id: row.parentBranchId,
    root_run_id: row.rootRunId,
    rerun_of: identity.rerunOf,
    forked_from: identity.forkedFrom && forkedFromView(identity.forkedFrom),
    dry_run: identity.dryRun ?? false,
    feature_overrides: nonEmpty(identity.features),
    ...(row.terminalAt === null ? waiting(row, record, identity) : ended(row, record)),
  });
}

function waiting(row: RunViewRow, { wait, proof }: RecordView, { delayedUntil }: IdentityView) {
  const due = row.state === "pending" ? delayedUntil : TIMED.has(wait?.kind ?? "") ? wait?.dueAt : undefined;
  return {
    quarantine: proof,
    awaited_signal: row.awaitedSignal,
    awaited_event_topic: wait?.topic,
    awaited_event_headers: wait?.headers,
    wakeup_at: due === undefined ? undefined : new Date(due),
    try_catch_stack: tryCatchStack(row),
    awaited_action_dispatch: wait?.kind === "dispatched" ? wait.dispatchId : null,
    current_attempt: wait?.kind === "dispatched" ? wait.attempt : null,
    queued_action: wait?.kind === "queued" ? queuedAction(row, wait) : null,
    retry: wait?.kind === "backoff" ? retryOf(wait) : null,
    incident: wait?.kind === "incident" ? incidentOf(wait) : null,
  };
}

/** The reason is not in the row: it follows from the workers that are connected (api/run-reader.ts). */
function queuedAction({ called }: RunViewRow, { since = 0 }: WaitView): JsonObject | null {
  if (!called) return null;
  return present({ action: actionText(called), transport: called.transport, since: new Date(since) });
}

function retryOf({ nth, maxAttempts, dueAt = 0, error }: WaitView): JsonObject {
  return present({ attempt: nth, max_attempts: maxAttempts, next_at: new Date(dueAt), error });
}

function incidentOf({ error = {}, attempts, since = 0, phase }: WaitView): JsonObject {
  const { code = null, message = null, step_id = null } = error;
  const undo = phase === "compensation" ? phase : undefined;
  return present({ code, message, step_id, attempts, since: new Date(since), phase: undo });
}

function tryCatchStack({ frames }: RunViewRow): JsonObject[] | null {
  const open = (frames ?? []) as unknown as readonly FrameView[];
  const tries = open.filter(({ kind }) => kind === "try");
  return tries.length > 0 ? tries.map(({ step, catchStep }) => ({ step_id: step, catch_step: catchStep })) : null;
}

const TIMED: ReadonlySet<string> = new Set([
  "timer",
  "backoff",
  "signal",
  "event",
  "user_task",
  "children",
  "rate_limit",
]);

/** A run that succeeded may have been on its way to another end before: that is not its error. */
function ended(row: RunViewRow, { ending }: RecordView) {
  if (row.state === "succeeded" || !ending) return {};
  const { error } = ending;
  return {
    last_error: ending.reason,
    error: error && present({ code: error.code, message: error.message, step_id: error.step_id, cause: error.cause }),
  };
}

function nonEmpty(features: IdentityView["features"]) {
  return features && Object.keys(features).length > 0 ? features : null;
}
