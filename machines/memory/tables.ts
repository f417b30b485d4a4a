// The tables of the memory store: the rows that commits have written, by their keys. They have what decisions and loads need of the tables of
// Postgres; leases, tries and counts of other processes are not there.

import type { Row } from "../messages/relations.js";
import type { RunId } from "../values/ids.js";

type StartColumn = "inputs" | "identity" | "request_hash";
type KeyColumn = "scope" | "key" | "made_by";

type Changing<R> = { -readonly [Column in keyof R]: R[Column] };

/** The hot row of a run. It is wide and changes with every commit, so it is updated in place; all other rows are replaced. */
export interface RunRow extends Changing<Omit<Row<"new_run">, "id" | StartColumn | KeyColumn>> {
  readonly id: RunId;
  /** Counts updates (law 1). */
  revision: number;
}

/** Whether the run waits for a signal of the name, and has been promised none. */
export function isWaitingFor(run: RunRow | undefined, name: string): boolean {
  return run?.awaited_signal === name && run.paused_reason === "signal" && run.terminal_at === undefined;
}

export type RunStart = Pick<Row<"new_run">, StartColumn> & { readonly run_id: string };

/** `scope` and `key` are its key. */
export interface StartKey {
  readonly scope: string;
  readonly key: string;
  readonly run_id: string;
}

export interface HeldKey {
  readonly scope: string;
  readonly key: string;
  readonly run_id: string;
  readonly burst_at: number | undefined;
}

export type ForkRow = Omit<Row<"fork">, "run_id" | "since"> & { readonly origin_id: string };

/** Of signals, published events, undo entries, tickets and outgoing events: the order in which they were written. */
interface Numbered {
  readonly ordinal: number;
}

export type SignalRow = Omit<Row<"signal">, "at" | "consumed"> &
  Numbered & { readonly received_at: number; readonly consumed_at: number | undefined };

export type EventRow = Omit<Row<"published_event">, "run_id"> &
  Numbered & {
    readonly published_at: number;
    /** Whether the runs that waited for it then have been notified. */
    readonly announced: boolean;
  };

export type UndoRow = Omit<Row<"undo_entry">, "run_id"> & Numbered;

/** A turn that was asked for. Times are microseconds. */
export type TurnRow = Row<"turn"> &
  Numbered & { readonly returned: boolean; readonly at?: number; readonly before?: number; readonly after?: number };

/** The token bucket of a key: when it is full if no more are taken, and what it is computed with. */
export interface Bucket {
  readonly tenant_id: string;
  readonly scope: string;
  readonly key: string;
  readonly full: number;
  readonly step: number;
  readonly burst: number;
}

export type TicketRow = Row<"ticket"> & Numbered & { readonly granted: boolean; readonly cancelled: boolean };

export type TaskRow = Omit<Row<"opened_task">, "at"> & {
  readonly opened_at: number;
  readonly closed_at: number | undefined;
  readonly submitted_at: number | undefined;
  readonly submitted_by: string | undefined;
  readonly result: Row<"closed_task">["result"];
};

export type InboxRow = Omit<Row<"inbox_row">, "from_run">;
export type OutgoingRow = Omit<Row<"outgoing_event">, "from_run"> & Numbered;
export type KeptValue = Omit<Row<"scope_value">, "run_id">;

/** Rows by their key, in the order in which they were added; and, where asked for, those of one run. */
export class Table<R> {
  private readonly rows = new Map<string, R>();
  private readonly groups = new Map<string, Map<string, R>>();
  private numbered = 0;

  constructor(
    private readonly keyOf: (row: R) => string,
    private readonly groupOf: (row: R) => string = () => "",
  ) {}

  [Symbol.iterator](): IterableIterator<R> {
    return this.rows.values();
  }

  get size(): number {
    return this.rows.size;
  }

  get(key: string): R | undefined {
    return this.rows.get(key);
  }

  has(key: string): boolean {
    return this.rows.has(key);
  }

  of(group: string): readonly R[] {
    return [...(this.groups.get(group)?.values() ?? [])];
  }

  /** The next number of a table whose rows are numbered. */
  next(): number {
    return ++this.numbered;
  }

  /** A row with that key is replaced, at its place. */
  put(row: R): void {
    const key = this.keyOf(row);
    const group = this.groupOf(row);
    const before = this.rows.get(key);
    if (before !== undefined && this.groupOf(before) !== group) this.groups.get(this.groupOf(before))?.delete(key);
    this.rows.set(key, row);
    const mates = this.groups.get(group) ?? new Map<string, R>();
    this.groups.set(group, mates.set(key, row));
  }

  /** A row with that key stays as it is. */
  putNew(row: R): void {
    if (!this.rows.has(this.keyOf(row))) this.put(row);
  }

  /** Whether there was such a row. */
  delete(key: string): boolean {
    const row = this.rows.get(key);
    if (row !== undefined) this.groups.get(this.groupOf(row))?.delete(key);
    return this.rows.delete(key);
  }
}

/** The key of rows with a key of several columns. */
export const keyOf = (...columns: readonly (string | number)[]): string => columns.join("/");

const byId = (row: { readonly id: string }) => row.id;
const byRun = (row: { readonly run_id: string }) => row.run_id;

export class Tables {
  readonly runs = new Table<RunRow>(byId, ({ parent_run_id = "" }) => parent_run_id);
  readonly run_starts = new Table<RunStart>(byRun);
  readonly start_keys = new Table<StartKey>(({ scope, key }) => keyOf(scope, key));
  readonly held_keys = new Table<HeldKey>(({ scope, key }) => keyOf(scope, key));
  readonly run_labels = new Table<Row<"label">>(({ run_id, name }) => keyOf(run_id, name));
  readonly run_commands = new Table<Row<"command">>(({ run_id, command_id }) => keyOf(run_id, command_id));
  readonly run_events = new Table<Row<"audit_event">>(({ run_id, seq }) => keyOf(run_id, seq), byRun);
  readonly run_variables = new Table<Row<"variable">>(({ run_id, name }) => keyOf(run_id, name), byRun);
  readonly kept_scopes = new Table<Row<"scope">>(({ run_id, entry }) => keyOf(run_id, entry));
  readonly kept_entries = new Table<Row<"kept_entry">>(({ run_id, entry }) => keyOf(run_id, entry), byRun);
  readonly forks = new Table<ForkRow>(
    ({ origin_id, fork_id }) => keyOf(origin_id, fork_id),
    ({ origin_id }) => origin_id,
  );
  readonly kept_values = new Table<KeptValue>(({ holder, hash }) => keyOf(holder, hash));
  readonly wakes = new Table<Row<"wake">>(byRun);
  readonly signals = new Table<SignalRow>(byId, byRun);
  readonly outbox = new Table<Row<"outbox_row">>(byId);
  readonly inbox = new Table<InboxRow>(byId);
  readonly events = new Table<EventRow>(byId);
  readonly event_takes = new Table<Row<"event_claim">>(({ run_id, event_id }) => keyOf(run_id, event_id));
  readonly event_waits = new Table<Row<"event_wait">>(byRun);
  readonly outgoing_events = new Table<OutgoingRow>(byId);
  readonly user_tasks = new Table<TaskRow>(byId);
  readonly undo = new Table<UndoRow>(
    ({ ordinal }) => String(ordinal),
    ({ owner }) => owner,
  );
  readonly rate_tickets = new Table<TurnRow>(({ run_id, entry }) => keyOf(run_id, entry));
  readonly rate_buckets = new Table<Bucket>(({ scope, key, tenant_id }) => keyOf(tenant_id, scope, key));
  readonly concurrency_tickets = new Table<TicketRow>(({ run_id, entry }) => keyOf(run_id, entry));
}
