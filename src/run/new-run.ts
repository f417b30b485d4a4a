// The birth of a run, as rows: the same for one that a client starts and one that its parent creates. Not who may start one
// (starter.ts), and not when a parent creates children (machines/children.ts).
import {
  encodeRecord,
  type NewChild,
  newRun,
  type RunContext,
  type RunIdentity,
  wakeAt,
} from "../../machines/index.js";
import { shardOf } from "../ids.js";
import type { ChildCommit, EventRow, NewRunRow } from "../store/commit-rows.js";
import { storedIdentity } from "../store/load.js";
import type { CommittedEvent } from "./ports.js";

/** A run that is stepping has a wake row this far ahead: it is only looked at if its node died. */
export const STEPPING_GRACE_MS = 2_000;

/** The due time of the run's wake row, null for none. */
export function wakeTime(context: RunContext, now: number): number | null {
  const wake = wakeAt(context);
  return wake === "soon" ? now + STEPPING_GRACE_MS : (wake ?? null);
}

export function eventRow(event: CommittedEvent): EventRow {
  const { seq, at, type, stepId, attempt, from, to, actor, metadata } = event;
  return { seq, at, type, stepId, attempt, from, to, actor, metadata: metadata && JSON.stringify(metadata) };
}

export function startedEvent(identity: RunIdentity, actor: string): CommittedEvent {
  const { id: runId, workflowId, version, entrypoint, startedAt: at } = identity;
  const metadata = { workflow_id: workflowId, version, entrypoint };
  return { runId, seq: 1, type: "saga.started", attempt: 0, from: "pending", to: "pending", actor, at, metadata };
}

/** Who asked for it: a repeat of the request must find the same. */
export interface Request {
  readonly hash: string;
  readonly idempotencyKey?: string;
}

export function newRunRow(context: RunContext, { hash, idempotencyKey }: Request): NewRunRow {
  const { run } = context;
  return {
    ...run,
    familyRunId: run.family?.at(-1),
    record: JSON.stringify(encodeRecord(context)),
    inputs: run.family ? undefined : JSON.stringify(run.inputs),
    identity: JSON.stringify({ ...storedIdentity(run), idempotencyKey }),
    requestHash: hash,
    key: startKey(run, idempotencyKey),
  };
}

/** An idempotency key's scope is tenant and workflow. */
export function startKey(
  { tenantId, workflowId }: Pick<RunIdentity, "tenantId" | "workflowId">,
  key: string | undefined,
): { readonly scope: string; readonly key: string } | undefined {
  return key === undefined ? undefined : { scope: `${tenantId ?? ""}/${workflowId}`, key };
}

export function variableRows(context: RunContext): ReadonlyMap<string, string> {
  return new Map(Object.entries(context.variables).map(([name, value]) => [name, JSON.stringify(value)]));
}

/** A run that its parent creates, in the parent's commit. */
export function childCommit(child: NewChild): ChildCommit {
  const { identity, at, inherited, idempotencyKey } = child;
  const context = newRun(identity, {}, 0);
  return {
    runId: identity.id,
    shard: shardOf(identity.id),
    create: newRunRow(context, { hash: "", idempotencyKey }),
    events: [eventRow(startedEvent(identity, "coordinator"))],
    variables: inherited ? new Map() : variableRows(newRun(identity, child.variables ?? {}, child.variablesSize)),
    wake: wakeTime(context, at) ?? at + STEPPING_GRACE_MS,
  };
}
