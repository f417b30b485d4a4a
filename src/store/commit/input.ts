// Fills a group's rows into the relations of the commit statement. Cells are in the order of the relation's columns.

import type { RunId } from "../../../machines/index.js";
import { shardOf } from "../../ids.js";
import { Columns } from "./columns.js";
import { RELATIONS, type Relation } from "./relations.js";
import type { NewRunRow, RunCommit, RunRow, ScopeRow, UndoRow } from "./rows.js";

type Input = { readonly [Name in Relation]: Columns };

/** The group's rows, relation by relation. */
export function inputOf(group: readonly RunCommit[]): Input {
  const relations = Object.entries(RELATIONS).map(([name, types]) => [name, new Columns(types)]);
  const input = Object.fromEntries(relations) as Input;
  for (const commit of group) addRun(input, commit);
  return input;
}

function addRun(input: Input, commit: RunCommit): void {
  const { runId, expected, expectedFence, update, create } = commit;
  if (create) addCreate(input, commit, create, undefined);
  else if (update) addUpdate(input, commit, update);
  else input.confirm.add(runId, expected, expectedFence);
  for (const { id, answer, keep, at } of commit.commands ?? []) input.command.add(runId, id, answer, keep, time(at));
  addHistory(input, commit);
  for (const child of commit.children ?? []) {
    addCreate(input, child, child.create, runId);
    addHistory(input, child);
    input.wake.add(child.runId, child.shard, time(child.wake));
  }
  if (commit.wake === null) input.wake_gone.add(runId);
  else if (commit.wake !== undefined) input.wake.add(runId, commit.shard, time(commit.wake));
  addOwed(input, commit);
}

/** A variable without a value has been removed. It still has a row: without one, a branch would find its parent's variable. */
function addHistory(
  input: Input,
  { runId, events, variables }: Pick<RunCommit, "runId" | "events" | "variables">,
): void {
  for (const e of events)
    input.audit_event.add(
      runId,
      e.seq,
      time(e.at),
      e.type,
      e.stepId,
      e.attempt,
      e.from,
      e.to,
      e.actor,
      e.metadata,
      e.commandId,
    );
  for (const [name, value] of variables ?? []) input.variable.add(runId, name, value);
}

function addUpdate(input: Input, { runId, expected, expectedFence }: RunCommit, row: RunRow): void {
  input.run_update.add(
    runId,
    expected,
    expectedFence,
    row.fence,
    row.state,
    row.step,
    row.lastSeq,
    time(row.lastEventAt),
    optionalTime(row.terminalAt),
    row.review,
    row.awaitedSignal,
    row.pausedReason,
    row.record,
    row.call !== undefined,
    row.call,
    row.output,
    row.frames !== undefined,
    row.frames,
    row.items !== undefined,
    row.items,
    row.version,
    row.definitionId,
  );
}

function addCreate(
  input: Input,
  { runId, shard }: Pick<RunCommit, "runId" | "shard">,
  row: NewRunRow,
  madeBy: string | undefined,
): void {
  input.new_run.add(
    runId,
    shard,
    row.fence,
    row.record,
    row.workflowId,
    row.version,
    row.definitionId,
    row.tenantId,
    row.businessKey,
    row.triggerId,
    row.parentRunId,
    row.parentStepId,
    row.parentBranchId,
    row.parentEntry,
    row.rootRunId,
    row.familyRunId,
    time(row.startedAt),
    row.inputs,
    row.identity,
    row.requestHash,
    row.key?.scope,
    row.key?.key,
    madeBy,
  );
  for (const [name, value] of Object.entries(row.labels ?? {})) input.label.add(runId, name, value);
}

/** Rows of the smaller tables. */
function addOwed(input: Input, commit: RunCommit): void {
  const { runId, shard } = commit;
  for (const s of commit.signals ?? [])
    input.signal.add(s.id, runId, s.name, s.payload, time(s.at), s.consumed, s.promisedTo);
  for (const { to, name, fence } of commit.promises ?? []) input.promise.add(runId, to, name, fence);
  for (const { id, at } of commit.signalClaims ?? []) input.signal_claim.add(runId, id, time(at));
  for (const o of commit.outbox ?? []) input.outbox_row.add(o.id, runId, shard, o.kind, o.payload, time(o.dueAt));
  for (const id of commit.outboxGone ?? []) input.outbox_gone.add(runId, id);
  for (const i of commit.inbox ?? []) input.inbox_row.add(i.id, runId, i.to, i.shard, i.command, time(i.dueAt));
  for (const id of commit.inboxGone ?? []) input.inbox_gone.add(runId, id);
  addEvents(input, commit);
  for (const { id, runId: of, topic, payload } of commit.outgoingEvents ?? [])
    input.outgoing_event.add(id, runId, of, shardOf(of), topic, payload, input.outgoing_event.length);
  for (const t of commit.tasksOpened ?? [])
    input.opened_task.add(t.id, runId, t.stepId, t.assignee, t.title, optionalTime(t.dueAt), t.formSchema, time(t.at));
  for (const t of commit.tasksClosed ?? []) input.closed_task.add(runId, t.id, time(t.at), t.result, t.by);
  for (const x of commit.undoOwed ?? []) addUndo(input, runId, x);
  for (const { ordinal, state } of commit.undoSettled ?? []) input.undo_settled.add(runId, ordinal, state);
  if (commit.undoPassed) input.undo_passed.add(runId, commit.undoPassed.since, commit.undoPassed.every);
  if (commit.undoHanded) input.undo_handed.add(runId, commit.undoHanded.to, commit.undoHanded.entry);
  for (const scope of commit.scopes ?? []) addScope(input, runId, scope);
  for (const t of commit.tickets ?? [])
    input.ticket.add(runId, t.entry, shard, t.tenantId, t.scope, t.key, t.stepId, t.limit, t.onLimit, t.admitted);
  for (const entry of commit.ticketsGone ?? []) input.ticket_gone.add(runId, entry);
  for (const entry of commit.ticketsReturned ?? []) input.ticket_returned.add(runId, entry);
}

function addScope(input: Input, runId: string, { entry, holder, manifest, values }: ScopeRow): void {
  if (typeof manifest === "string") input.scope.add(runId, entry, holder, manifest, null);
  else input.scope.add(runId, entry, holder, null, manifest.hash);
  for (const { hash, value } of values) input.scope_value.add(runId, holder, hash, value);
}

function addEvents(input: Input, { runId, eventsPublished, eventClaims, eventWait }: RunCommit): void {
  for (const p of eventsPublished ?? [])
    input.published_event.add(p.id, runId, p.tenantId, p.topic, p.headers, p.payload);
  for (const id of eventClaims ?? []) input.event_claim.add(runId, id);
  if (eventWait === null) input.event_wait_gone.add(runId);
  else if (eventWait) input.event_wait.add(runId, eventWait.topic, eventWait.headers, eventWait.conditions);
}

function addUndo(input: Input, runId: RunId, row: UndoRow): void {
  const { stepId, entry, action, inputs, forwardKey, childRunId, owner = runId, state = "owed" } = row;
  input.undo_entry.add(
    runId,
    stepId,
    entry,
    action,
    inputs,
    forwardKey,
    childRunId,
    owner,
    state,
    input.undo_entry.length,
  );
}

const optionalTime = (epochMs: number | undefined) => (epochMs === undefined ? null : time(epochMs));

/** The rows of one transition, and most rows of a batch, have the same time: it is formatted once. */
let written = { epochMs: Number.NaN, text: "" };

function time(epochMs: number): string {
  if (written.epochMs !== epochMs) written = { epochMs, text: new Date(epochMs).toISOString() };
  return written.text;
}
