// A new run as rows: the same for a run that a client starts and a run that its parent creates. Starts are checked in starter.ts;
// a parent's creation of children is decided in machines/.
import {
  FIRST_FORMAT,
  type JsonObject,
  type NewChild,
  newRun,
  RECORD_FORMATS,
  type RunContext,
  type RunIdentity,
} from "../../machines/index.js";
import { shardOf } from "../ids.js";
import type { ChildCommit, NewRunRow, OutgoingEventRow } from "../store/commit/rows.js";
import { type GivenAtStart, storedIdentity } from "../store/load.js";
import { newFence } from "./fence.js";
import { type OutgoingEvents, outgoingRows } from "./outgoing-events.js";
import type { CommittedEvent } from "./ports.js";
import { eventRow, STEPPING_GRACE_MS, wakeTime } from "./run-rows.js";

/** The event of a run that its parent, not a client, has created. */
export function createdByParent(identity: RunIdentity): CommittedEvent {
  return startedEvent(identity, "coordinator");
}

/** The first audit event of every run. `startup`: where its startup variables come from. */
export function startedEvent(identity: RunIdentity, actor: string, startup?: JsonObject): CommittedEvent {
  const { id: runId, workflowId, version, entrypoint, triggerId, rerunOf, startedAt: at } = identity;
  const cause = { ...(triggerId && { trigger_id: triggerId }), ...(rerunOf && { rerun_of: rerunOf }) };
  const given = { ...cause, ...(startup && { startup_variables: startup }) };
  const metadata = { workflow_id: workflowId, version, entrypoint, ...given };
  return { runId, seq: 1, type: "saga.started", attempt: 0, from: "pending", to: "pending", actor, at, metadata };
}

/** Stored with the run: what a repeat of its start request is recognised by, and the token of its first revision (law 1). */
export interface StartMark {
  readonly requestHash: string;
  readonly idempotencyKey?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly given?: GivenAtStart;
  readonly fence: string;
}

export function newRunRow(context: RunContext, mark: StartMark): NewRunRow {
  const { requestHash, idempotencyKey, labels, given, fence } = mark;
  const { run } = context;
  return {
    ...run,
    fence,
    familyRunId: run.family?.at(-1),
    record: JSON.stringify(RECORD_FORMATS.encode(context, FIRST_FORMAT)),
    inputs: run.family ? undefined : JSON.stringify(run.inputs),
    identity: JSON.stringify({ ...storedIdentity(run), idempotencyKey, labels, given }),
    requestHash,
    labels,
    key: idempotencyKey === undefined ? undefined : startKey(run, idempotencyKey),
  };
}

/** The scope of an idempotency key is tenant and workflow. A storage format: it must never change. */
export function startKey(
  { tenantId, workflowId }: Pick<RunIdentity, "tenantId" | "workflowId">,
  key: string,
): { readonly scope: string; readonly key: string } {
  return { scope: `${tenantId ?? ""}/${workflowId}`, key };
}

export function variableRows(context: RunContext): ReadonlyMap<string, string> {
  const { variables } = context;
  return new Map(Object.keys(variables).map((name) => [name, JSON.stringify(variables[name])]));
}

/** The due time of a new run's wake row: if the node dies before the run steps, the poll takes it up then. */
export function firstWake(context: RunContext): number {
  const { startedAt } = context.run;
  return wakeTime(context, startedAt) ?? startedAt + STEPPING_GRACE_MS;
}

/** A run that its parent creates, in the parent's commit. */
export function childCommit(child: NewChild): ChildCommit {
  const { identity, inherited, idempotencyKey, fence = newFence() } = child;
  const context = newRun(identity, {}, 0);
  return {
    runId: identity.id,
    shard: shardOf(identity.id),
    create: newRunRow(context, { requestHash: "", idempotencyKey, fence }),
    events: [eventRow(createdByParent(identity))],
    variables: inherited ? new Map() : variableRows(newRun(identity, child.variables ?? {}, child.variablesSize)),
    wake: firstWake(context),
  };
}

/** What RabbitMQ gets of the start of a run that its parent creates. */
export function childStarted({ identity }: NewChild, outgoing: OutgoingEvents | undefined): OutgoingEventRow[] {
  return outgoingRows(identity, [createdByParent(identity)], outgoing);
}
