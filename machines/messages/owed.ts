// What a transition owes: writes, which are rows of its own commit, and sends, which leave the process after that commit (law 5). Here is how
// each thing that a decision owes is written and sent; the relations are in relations.ts.

import type { ActionCall } from "../state/call.js";
import type { Unprotected } from "../state/frame.js";
import type { GivenAtStart, RunIdentity } from "../state/identity.js";
import type { Precedence } from "../state/precedence.js";
import type { UndoEntry } from "../state/rollback.js";
import { type SlotKey, type SlotRequest, slotTenant } from "../state/slot.js";
import type { TurnRequest } from "../state/turn.js";
import { type DispatchId, type RunId, shardNumber } from "../values/ids.js";
import type { Json, JsonObject } from "../values/json.js";
import type { RunCommand } from "./command.js";
import type { Relation, Row } from "./relations.js";

/** A row that decisions write. Most are complete: the random tokens, and what is kept by its content, are the shell's. */
export type Write =
  | { readonly [Of in Complete]: { readonly to: Of; readonly row: Row<Of> } }[Complete]
  /** The shell adds the new token of the waiting run. */
  | { readonly to: "promise"; readonly row: Omit<Row<"promise">, "fence"> }
  /** The shell keeps the variables by their content. */
  | { readonly to: "scope"; readonly row: Pick<Row<"scope">, "run_id" | "entry" | "holder"> & KeptVariables }
  | { readonly to: "kept_entry"; readonly row: Pick<Row<"kept_entry">, "run_id" | "entry" | "step_id"> & KeptVariables }
  /** The shell makes the rows of the new run, and adds its token. */
  | { readonly to: "new_run"; readonly row: NewChild };

type Complete = Exclude<
  Relation,
  | ("run_update" | "confirm" | "command" | "audit_event" | "variable" | "wake" | "wake_gone" | "inbox_gone")
  | ("promise" | "scope" | "scope_value" | "kept_entry" | "new_run" | "held_key" | "label" | "outgoing_event")
>;

interface KeptVariables {
  readonly variables: JsonObject;
}

/** What leaves the process after the commit. Kinds and members travel between nodes, so they are a wire format. */
export type Send =
  /** The run's call needs a worker. The shell answers with an `offer` command once a worker has credit. */
  | {
      readonly kind: "dispatch.request";
      readonly dispatchId: DispatchId;
      readonly call: ActionCall;
      /** Of the run: not every worker serves it. */
      readonly tenantId?: string;
      readonly precedence?: Precedence;
    }
  /** The call was dispatched: it is sent to the worker, and sent again until it is accepted or answered. */
  | { readonly kind: "dispatch.send"; readonly dispatch: Dispatch }
  /** Asks the worker to stop. The run still waits for its answer or its deadline. */
  | { readonly kind: "dispatch.cancel"; readonly dispatchId: DispatchId; readonly reason: string }
  /** The dispatch is resolved, or was never sent: nothing is owed for it any more. */
  | { readonly kind: "dispatch.resolved"; readonly dispatchId: DispatchId }
  | ({ readonly kind: "command" } & SentCommand)
  /** A delivery to the outside, at least once and independent of the run. Its outbox row is deleted when it is delivered. */
  | { readonly kind: "post"; readonly id: string; readonly to: "webhook" }
  /** An announcer offers the event to the runs that wait for it. */
  | { readonly kind: "announce"; readonly eventId: string }
  /** The run was created in the commit, and begins. */
  | { readonly kind: "child"; readonly child: FencedChild }
  /** The commit has changed the row of that run: an actor of it is outdated. */
  | { readonly kind: "outdated"; readonly runId: RunId }
  /** Slots of the key may be granted. `asked`: a ticket was added. */
  | { readonly kind: "slot"; readonly slot: SlotKey; readonly asked: boolean }
  /** Turns of the key were asked for, or given back. */
  | { readonly kind: "turn"; readonly key: SlotKey };

export interface Owed {
  readonly writes?: readonly Write[];
  readonly sends?: readonly Send[];
}

/** A durable command to another run, carried out exactly once: its inbox row is written by this commit and deleted by the receiver's. */
export interface SentCommand {
  readonly id: string;
  readonly to: RunId;
  readonly command: RunCommand;
}

/**
 * What an event must equal to match: by path, a JSON array of names. `entry` is that of the waiting step, so that the conditions of two waits
 * of a run differ. A storage format.
 */
export interface EventConditions {
  readonly entry: number;
  readonly equal: Readonly<Record<string, string | number | boolean | null>>;
}

export interface PublishedEvent {
  readonly id: string;
  readonly topic: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: Json;
  /** Only runs of this tenant may consume it. Absent: any run. */
  readonly tenantId?: string;
}

export interface NewChild {
  readonly identity: RunIdentity;
  /** The variables it starts with. Absent: those stored for its step entry. */
  readonly variables?: JsonObject;
  /** The size of `variables` in characters of JSON. */
  readonly variablesSize?: number;
  /** Whether its inputs and variables are those stored for its step entry, so that it needs no rows of its own. */
  readonly inherited: boolean;
  /** Set for a detached run (`spawn_saga`), as for a run that a client starts. */
  readonly idempotencyKey?: string;
  /** Database time. */
  readonly at: number;
  /** It is a fork: it begins with this in its context, and was asked for by a person. */
  readonly fork?: ForkStart;
}

/** What a fork has of its original besides its identity and its variables. */
export interface ForkStart {
  readonly actor: string;
  /** The step entries before its first one, which has the number of the original's. */
  readonly entries: number;
  /** How many undos it inherits, and the steps before it that have no compensation. */
  readonly owed: number;
  readonly unprotected: Unprotected;
  readonly labels?: Readonly<Record<string, string>>;
  /** What the start of the original gave: a rerun of the fork gives it again. */
  readonly given?: GivenAtStart;
}

/** A new run with the random token of its row, which the shell adds before the commit (law 1). */
export type FencedChild = NewChild & { readonly fence: string };

/** A user task at its creation. */
export interface OpenedTask {
  readonly id: string;
  readonly stepId: string;
  readonly assignee: string;
  readonly title?: string;
  /** Epoch milliseconds. */
  readonly dueAt?: number;
  readonly formSchema?: JsonObject;
}

/** One attempt of an action as its worker receives it. A dispatch that is sent again is unchanged. */
export interface Dispatch {
  readonly dispatchId: DispatchId;
  readonly runId: RunId;
  readonly tenantId?: string;
  readonly dryRun: boolean;
  readonly attempt: number;
  /** Database time, epoch milliseconds. A worker drops the dispatch once it has passed. */
  readonly deadlineAt: number;
  /** Until then it may be handed over: the end of the call's queue timeout. Absent: until its deadline. */
  readonly handOverBy?: number;
  /** The W3C trace context of the attempt. */
  readonly traceparent?: string;
  readonly call: ActionCall;
}

/** Until then the node that committed the send carries it out; later the poll does. */
export const CARRIED_MS = 10_000;
/** A command to another run is delivered from memory at once; the poll delivers it if that was lost. */
const DELIVERED_MS = 1_000;

/** The run that owes, and when it decides. */
export interface Owing {
  readonly run: Pick<RunIdentity, "id">;
  readonly now: number;
}

/** The row is owed until the dispatch is resolved. */
export function outboxRow({ run, now }: Owing, id: string, kind: string, payload?: JsonObject): Write {
  const row = { id, run_id: run.id, shard: shardNumber(run.id), kind, payload, due_at: now + CARRIED_MS };
  return { to: "outbox_row", row };
}

export function postOwed(by: Owing, id: string, to: "webhook", payload: JsonObject): Owed {
  return { writes: [outboxRow(by, id, to, payload)], sends: [{ kind: "post", id, to }] };
}

export function commandOwed(by: Owing, sent: SentCommand): Owed {
  const { id, to, command } = sent;
  return { writes: [{ to: "inbox_row", row: inboxRow(by, sent) }], sends: [{ kind: "command", id, to, command }] };
}

export function inboxRow({ run, now }: Owing, { id, to, command }: SentCommand): Row<"inbox_row"> {
  return { id, from_run: run.id, run_id: to, shard: shardNumber(to), command, due_at: now + DELIVERED_MS };
}

/**
 * `promisedTo`: the branch or item that is promised the signal. The commit loses if that run no longer waits for it, and if it wins, that
 * run decides again: it cannot leave its wait without having seen the promise.
 */
export function signalRecorded(
  { run, now }: Owing,
  { id, name, payload }: { readonly id: string; readonly name: string; readonly payload: Json },
  { consumed, promisedTo }: { readonly consumed: boolean; readonly promisedTo?: RunId },
): Owed {
  const row = { id, run_id: run.id, name, payload, at: now, consumed, promised_to: promisedTo };
  if (promisedTo === undefined) return { writes: [{ to: "signal", row }] };
  const promise: Write = { to: "promise", row: { run_id: run.id, waiter: promisedTo, name } };
  return { writes: [{ to: "signal", row }, promise], sends: [{ kind: "outdated", runId: promisedTo }] };
}

/** The commit loses if another wait has consumed the signal. */
export function signalConsumed({ run, now }: Owing, id: string): Owed {
  return { writes: [{ to: "signal_claim", row: { run_id: run.id, id, at: now } }] };
}

export function eventPublished({ run }: Owing, event: PublishedEvent): Owed {
  const { id, tenantId, topic, headers, payload } = event;
  const row = { id, run_id: run.id, tenant_id: tenantId, topic, headers, payload };
  return { writes: [{ to: "published_event", row }], sends: [{ kind: "announce", eventId: id }] };
}

/** The commit loses if the run has consumed the event before. */
export function eventTaken({ run }: Owing, eventId: string): Owed {
  return { writes: [{ to: "event_claim", row: { run_id: run.id, event_id: eventId } }] };
}

/** Events of the topic with these headers are offered to the run from this commit on, unless they cannot pass its `match`. */
export function eventAwaited(
  { run }: Pick<Owing, "run">,
  { topic, headers }: Pick<PublishedEvent, "topic" | "headers">,
  conditions: EventConditions | undefined,
): Owed {
  return { writes: [{ to: "event_wait", row: { run_id: run.id, topic, headers, conditions } }] };
}

export function eventUnawaited({ run }: Pick<Owing, "run">): Owed {
  return { writes: [{ to: "event_wait_gone", row: { run_id: run.id } }] };
}

export function taskOpened({ run, now }: Owing, task: OpenedTask): Owed {
  const { id, stepId, assignee, title, dueAt, formSchema } = task;
  const row = { id, run_id: run.id, step_id: stepId, assignee, title, due_at: dueAt, form_schema: formSchema, at: now };
  return { writes: [{ to: "opened_task", row }] };
}

/** Later submits are refused. Without a submit the step has left the task. */
export function taskClosed(
  { run, now: at }: Owing,
  id: string,
  submit?: { readonly result: JsonObject; readonly by?: string },
): Owed {
  const row = { run_id: run.id, id, at, result: submit?.result, submitted_by: submit?.by };
  return { writes: [{ to: "closed_task", row }] };
}

export function undoOwed({ run }: Pick<Owing, "run">, entry: UndoEntry): Owed {
  const { stepId, action, inputs, forwardIdempotencyKey, childRunId, forwardTrace } = entry;
  const forward = { forward_key: forwardIdempotencyKey, forward_trace: forwardTrace };
  const call = { action, inputs, ...forward, child_run_id: childRunId };
  const row = { run_id: run.id, step_id: stepId, entry: entry.entry, ...call, owner: run.id, state: "owed" };
  return { writes: [{ to: "undo_entry", row }] };
}

export function undoSettled({ run }: Pick<Owing, "run">, ordinal: string, state: "done" | "failed"): Owed {
  return { writes: [{ to: "undo_settled", row: { run_id: run.id, ordinal, state } }] };
}

/**
 * The rollback skips the steps that completed without a compensation. `since`: only those of later step entries. `every`: the run succeeded,
 * and the compensation of its parent's step replaces its undo list.
 */
export function undoPassed({ run }: Pick<Owing, "run">, { since = 0, every = false }): Owed {
  return { writes: [{ to: "undo_passed", row: { run_id: run.id, since, every } }] };
}

/** The run succeeded: its undo list goes to its parent, in the same order, as part of the parent's step entry `entry`. */
export function undoHanded({ run }: Pick<Owing, "run">, heir: RunId, entry: number): Owed {
  return { writes: [{ to: "undo_handed", row: { run_id: run.id, heir, entry } }] };
}

/** The variables that the branches or items of a step entry start with, stored once for all: the run goes on changing its own. */
export function scopeKept(
  { run }: { readonly run: Pick<RunIdentity, "id" | "family"> },
  entry: number,
  variables: JsonObject,
): Owed {
  const row = { run_id: run.id, entry, holder: run.family?.at(-1) ?? run.id, variables };
  return { writes: [{ to: "scope", row }] };
}

/** The variables of a step entry at the top level, for forks. The run that has them holds the values. */
export function entryKept({ run }: Pick<Owing, "run">, entry: number, step_id: string, variables: JsonObject): Owed {
  return { writes: [{ to: "kept_entry", row: { run_id: run.id, entry, step_id, variables } }] };
}

/** The fork, and what it takes over of the run, in one commit. `since`: the step entry that it begins with. */
export function forkOwed({ run, now }: Owing, fork: NewChild, since: number, inherits: boolean): Owed {
  const { forkedFrom } = fork.identity;
  if (!forkedFrom) throw new Error(`the run ${fork.identity.id} is no fork`);
  const { step, entry } = forkedFrom;
  const row = { run_id: run.id, fork_id: fork.identity.id, step, entry, since, inherits, at: now };
  return {
    writes: [
      { to: "fork", row },
      { to: "new_run", row: fork },
    ],
  };
}

export function childStarted(child: NewChild): Owed {
  return { writes: [{ to: "new_run", row: child }] };
}

/** The store answers with `slot_granted` or `slot_refused`. `admitted`: the waiting list had room when its start was accepted. */
export function ticketOf({ run }: Asking, request: SlotRequest, admitted: boolean): Row<"ticket"> {
  const { entry, stepId, slot, limit, onLimit } = request;
  const { scope, key } = slot;
  const about = { run_id: run.id, entry, shard: shardNumber(run.id), tenant_id: slotTenant(slot), scope, key };
  return { ...about, step_id: stepId, slot_limit: limit, on_limit: onLimit, admitted, precedence: run.precedence };
}

/** The run that asks for a slot. */
interface Asking {
  readonly run: Pick<RunIdentity, "id" | "precedence">;
}

export function slotRequested(by: Asking, request: SlotRequest): Owed {
  const row = ticketOf(by, request, false);
  return { writes: [{ to: "ticket", row }], sends: [{ kind: "slot", slot: request.slot, asked: true }] };
}

/** The ticket of the run, or of the step entry, goes with this commit, whether it had the slot or waited for it. */
export function slotReleased({ run }: Pick<Owing, "run">, entry: number, slot: SlotKey): Owed {
  return { writes: [{ to: "ticket_gone", row: { run_id: run.id, entry } }], sends: [slotFree(slot)] };
}

/** The ticket gives its slot back, and waits again, at its old place. */
export function slotReturned({ run }: Pick<Owing, "run">, entry: number, slot: SlotKey): Owed {
  return { writes: [{ to: "ticket_returned", row: { run_id: run.id, entry } }], sends: [slotFree(slot)] };
}

/** The ticket is passed over no longer. Nothing of it is stored: the granter looks whether the run is halted. */
export const slotWanted = (slot: SlotKey): Owed => ({ sends: [slotFree(slot)] });

const slotFree = (slot: SlotKey): Send => ({ kind: "slot", slot, asked: false });

/** The store answers with `turn_given` or `turn_refused`. `admitted`: the waiting list had room when its start was accepted. */
export function turnTicketOf({ run }: Pick<Owing, "run">, request: TurnRequest, admitted: boolean): Row<"turn"> {
  const { entry, stepId, key, limit, perMs, burst } = request;
  const about = { run_id: run.id, entry, shard: shardNumber(run.id), tenant_id: slotTenant(key) };
  const rate = { rate_limit: limit, per_ms: String(perMs), burst };
  return { ...about, scope: key.scope, key: key.key, step_id: stepId, ...rate, admitted };
}

export function turnRequested(by: Pick<Owing, "run">, request: TurnRequest): Owed {
  const row = turnTicketOf(by, request, false);
  return { writes: [{ to: "turn", row }], sends: [{ kind: "turn", key: request.key }] };
}

export function turnTaken({ run }: Pick<Owing, "run">, entry: number): Owed {
  return { writes: [{ to: "turn_taken", row: { run_id: run.id, entry } }] };
}

/** The ticket stays until the store has given the turn back. */
export function turnReturned({ run }: Pick<Owing, "run">, entry: number, key: SlotKey): Owed {
  return { writes: [{ to: "turn_returned", row: { run_id: run.id, entry } }], sends: [{ kind: "turn", key }] };
}
