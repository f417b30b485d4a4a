// One run's share of a commit, as plain rows. src/run makes them and gives them their meaning; the commit statement writes them.

import type { RunId } from "../../../machines/index.js";
import type { ShardId } from "../../ids.js";
import type { Revision } from "../revision.js";

/** All rows of the transitions that the run has taken since its last commit. Times are epoch milliseconds, JSON is text. */
export interface RunCommit {
  readonly runId: RunId;
  readonly shard: ShardId;
  /** The revision that the commit is based on. Absent: the run is new. */
  readonly expected?: Revision;
  /** The token beside that revision. */
  readonly expectedFence?: string;
  readonly create?: NewRunRow;
  /** Absent, with `expected`: the revision is confirmed, and the run stays as it is (law 3). */
  readonly update?: RunRow;
  readonly commands?: readonly CommandRow[];
  readonly events: readonly EventRow[];
  readonly variables?: ReadonlyMap<string, string | undefined>;
  /** Due time of the wake row; null: the row is removed; undefined: it stays as it is. */
  readonly wake?: number | null;
  readonly signals?: readonly SignalRow[];
  /** Runs that are promised a signal of this commit: see SIGNAL_PROMISES in fences.ts. */
  readonly promises?: readonly PromiseRow[];
  /** Recorded signals that the run takes. */
  readonly signalClaims?: readonly { readonly id: string; readonly at: number }[];
  readonly outbox?: readonly {
    readonly id: string;
    readonly kind: string;
    readonly payload?: string;
    readonly dueAt: number;
  }[];
  /** Outbox rows that are no longer owed, by id. */
  readonly outboxGone?: readonly string[];
  readonly inbox?: readonly InboxRow[];
  /** Inbox rows that the commit answers, by id. */
  readonly inboxGone?: readonly string[];
  readonly eventsPublished?: readonly PublishedRow[];
  /** Events that are owed to RabbitMQ, in their order. */
  readonly outgoingEvents?: readonly OutgoingEventRow[];
  /** Published events that the run takes, by id. */
  readonly eventClaims?: readonly string[];
  /** The event that the run waits for after the commit; null: none; undefined: as before. */
  readonly eventWait?: { readonly topic: string; readonly headers: string; readonly conditions?: string } | null;
  readonly tasksOpened?: readonly TaskRow[];
  readonly tasksClosed?: readonly ClosedTaskRow[];
  readonly undoOwed?: readonly UndoRow[];
  readonly undoSettled?: readonly { readonly ordinal: string; readonly state: string }[];
  /** Undo entries after a step entry that are passed: those without an action, or, with `every`, all that are owed. */
  readonly undoPassed?: { readonly since: number; readonly every: boolean };
  /** The run that takes over the entries that the undo list still owes, and the step entry of that run which they then belong to. */
  readonly undoHanded?: { readonly to: string; readonly entry: number };
  readonly scopes?: readonly ScopeRow[];
  /** Slots that the run asks for. */
  readonly tickets?: readonly TicketRow[];
  /** Slots that it gives back, or waits for no more, by their step entries. */
  readonly ticketsGone?: readonly number[];
  /** Slots that it gives back while their tickets wait on at their old places, by their step entries. */
  readonly ticketsReturned?: readonly number[];
  /** Runs that this one creates. */
  readonly children?: readonly ChildCommit[];
}

/** A run that another run creates in its own commit. */
export interface ChildCommit {
  readonly runId: RunId;
  readonly shard: ShardId;
  readonly create: NewRunRow;
  readonly events: readonly EventRow[];
  readonly variables: ReadonlyMap<string, string | undefined>;
  readonly wake: number;
}

/** The variables that all branches or items of a step entry begin with: see kept-scope.ts. */
export interface ScopeRow {
  readonly entry: number;
  /** The run at the top of the family: its starting inputs are those of the scope, and the family shares kept values. */
  readonly holder: string;
  readonly manifest: string | { readonly hash: string };
  readonly values: readonly { readonly hash: string; readonly value: string }[];
}

/** A command that the commit answers. */
export interface CommandRow {
  readonly id: string;
  readonly answer: string;
  /** Kept with the run; else pruned after a day. */
  readonly keep: boolean;
  readonly at: number;
}

export interface RunRow {
  /** The random token beside the new revision (law 1): an int8. */
  readonly fence: string;
  readonly state: string;
  readonly step?: string;
  readonly lastSeq: number;
  readonly lastEventAt: number;
  readonly terminalAt?: number;
  readonly review: boolean;
  readonly awaitedSignal?: string;
  readonly pausedReason?: string;
  readonly record: string;
  /** For these three, undefined: the column stays as it is; null: it becomes null. */
  readonly call?: string | null;
  readonly frames?: string | null;
  readonly items?: string | null;
  readonly output?: string;
  /** Where the run has moved to another version. */
  readonly version?: number;
  readonly definitionId?: string;
}

export interface NewRunRow {
  /** As in RunRow. */
  readonly fence: string;
  readonly record: string;
  readonly workflowId: string;
  readonly version: number;
  readonly definitionId: string;
  readonly tenantId?: string;
  readonly businessKey?: string;
  readonly triggerId?: string;
  readonly parentRunId?: RunId;
  readonly parentStepId?: string;
  readonly parentBranchId?: string;
  readonly parentEntry?: number;
  readonly rootRunId?: RunId;
  /** Of a branch or an item: the run that it is a part of. */
  readonly familyRunId?: RunId;
  readonly startedAt: number;
  /** Absent: the inputs of the kept scope. */
  readonly inputs?: string;
  readonly identity: string;
  readonly requestHash: string;
  /** For the filters of the list. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly key?: { readonly scope: string; readonly key: string };
}

export interface EventRow {
  readonly seq: number;
  readonly at: number;
  readonly type: string;
  readonly stepId?: string;
  readonly attempt: number;
  readonly from: string;
  readonly to: string;
  readonly actor: string;
  readonly metadata?: string;
  /** The worker's answer that it is the outcome of. */
  readonly commandId?: string;
}

export interface SignalRow {
  readonly id: string;
  readonly name: string;
  readonly payload: string;
  readonly at: number;
  readonly consumed: boolean;
  readonly promisedTo?: RunId;
}

export interface PromiseRow {
  /** The run that the signal is promised to. */
  readonly to: RunId;
  readonly name: string;
  /** The token that its row gets: what it is deciding now is lost (law 1). */
  readonly fence: string;
}

export interface InboxRow {
  readonly id: string;
  readonly to: string;
  readonly shard: ShardId;
  readonly command: string;
  readonly dueAt: number;
}

/** The slot of a step entry, or of the whole run (`entry` 0). */
export interface TicketRow {
  readonly entry: number;
  readonly stepId?: string;
  readonly tenantId: string;
  readonly scope: string;
  readonly key: string;
  readonly limit: number;
  readonly onLimit: string;
  /** The waiting list had room for it when its start was accepted. */
  readonly admitted: boolean;
}

export interface PublishedRow {
  readonly id: string;
  readonly tenantId?: string;
  readonly topic: string;
  readonly headers: string;
  readonly payload: string;
}

export interface OutgoingEventRow {
  readonly id: string;
  /** The run, or one that it creates in this commit. */
  readonly runId: RunId;
  /** Absent, with the payload: those of the published event with this id. */
  readonly topic?: string;
  readonly payload?: string;
}

export interface TaskRow {
  readonly id: string;
  readonly stepId: string;
  readonly assignee: string;
  readonly title?: string;
  readonly dueAt?: number;
  readonly formSchema?: string;
  readonly at: number;
}

/** A task that is no longer open: submitted, or, without a `result`, left by its step. */
export interface ClosedTaskRow {
  readonly id: string;
  readonly at: number;
  readonly result?: string;
  readonly by?: string;
}

export interface UndoRow {
  readonly stepId: string;
  readonly entry: number;
  readonly action?: string;
  readonly inputs?: string;
  readonly forwardKey: string;
  readonly childRunId?: RunId;
  /** The run that has the entry in its list, if not this one: its parent, if the entry is handed over in the same commit. */
  readonly owner?: string;
  /** Set if the entry is no longer owed at the end of the same commit. */
  readonly state?: "passed";
}
