// What each relation of a commit does to the tables: the memory store's half of what src/store/engine/commit says in SQL. A relation without
// its entry does not compile, and test/store/contract.test.ts compares the two.
//
// All conditions are looked at before anything is written, and the relations are applied in the order of WRITTEN: a statement of Postgres does
// not see the rows that it inserts, so rows are changed before others are added.

import { type Relation, type Row, RUN_COLUMNS } from "../messages/relations.js";
import type { RunId } from "../values/ids.js";
import { keyOf, type RunRow, type Tables, type TicketRow, type UndoRow } from "./tables.js";

interface Written<Of extends Relation> {
  /** The run whose commit has the row: it is written if that run wins. */
  readonly by: (row: Row<Of>) => string | undefined;
  /** The row is there already, and its run loses. */
  readonly collides?: (tables: Tables, row: Row<Of>) => boolean;
  readonly write: (tables: Tables, row: Row<Of>, at: Moment) => void;
}

/** The time of a commit, by the clock of the store. */
export interface Moment {
  readonly now: number;
}

const byRun = ({ run_id }: { readonly run_id: string }) => run_id;
const bySender = ({ from_run }: { readonly from_run: string }) => from_run;

/** The rows that decide who wins: they have no run that must have won before. */
const deciding = { by: ({ id }: { readonly id: string }) => id } as const;

export const WRITTEN: { readonly [Of in Relation]: Written<Of> } = {
  run_update: { ...deciding, write: updateRun },
  confirm: { ...deciding, write: () => {} },
  new_run: { by: ({ id }) => id, write: createRun },
  held_key: { by: byRun, write: ({ held_keys }, { expected: _, ...row }) => held_keys.put(row) },
  fork: { by: byRun, write: inherit },
  // The claims and promises of a commit.
  promise: {
    by: byRun,
    write: promiseSignal,
  },
  signal_claim: {
    by: byRun,
    write: ({ signals }, { id, at }) => {
      const signal = signals.get(id);
      if (signal) signals.put({ ...signal, consumed_at: at });
    },
  },
  event_claim: { by: byRun, write: ({ event_takes }, row) => event_takes.put(row) },
  command: { by: byRun, write: ({ run_commands }, row) => run_commands.put(row) },
  audit_event: {
    by: byRun,
    collides: ({ run_events }, { run_id, seq }) => run_events.has(keyOf(run_id, seq)),
    write: ({ run_events }, row) => run_events.put(row),
  },
  variable: { by: byRun, write: ({ run_variables }, row) => run_variables.put(row) },
  wake: { by: byRun, write: ({ wakes }, row) => wakes.put(row) },
  wake_gone: { by: byRun, write: ({ wakes }, { run_id }) => wakes.delete(run_id) },
  outbox_row: { by: byRun, write: ({ outbox }, row) => outbox.putNew(row) },
  outbox_gone: {
    by: byRun,
    write: ({ outbox }, { id, run_id }) => {
      if (outbox.get(id)?.run_id === run_id) outbox.delete(id);
    },
  },
  signal: {
    by: byRun,
    collides: ({ signals }, { id }) => signals.has(id),
    write: ({ signals }, { at, consumed, ...row }) =>
      signals.put({ ...row, ordinal: signals.next(), received_at: at, consumed_at: consumed ? at : undefined }),
  },
  inbox_row: { by: bySender, write: ({ inbox }, { from_run: _, ...row }) => inbox.putNew(row) },
  inbox_gone: {
    by: byRun,
    write: ({ inbox }, { id, run_id }) => {
      if (inbox.get(id)?.run_id === run_id) inbox.delete(id);
    },
  },
  undo_settled: {
    by: byRun,
    write: ({ undo }, { run_id, ordinal, state }) => {
      const entry = undo.get(ordinal);
      if (entry?.owner === run_id) undo.put({ ...entry, state });
    },
  },
  undo_passed: {
    by: byRun,
    write: (tables, { run_id, since, every }) => {
      const isPassed = ({ action, entry }: UndoRow) => (every || action === undefined) && entry > since;
      for (const row of owedBy(tables, run_id)) if (isPassed(row)) tables.undo.put({ ...row, state: "passed" });
    },
  },
  undo_handed: {
    by: byRun,
    write: (tables, { run_id, heir, entry }) => {
      for (const row of owedBy(tables, run_id))
        tables.undo.put({ ...row, owner: heir, entry, child_run_id: row.child_run_id ?? run_id });
    },
  },
  undo_entry: {
    by: byRun,
    write: ({ undo }, { run_id: _, ...row }) => undo.put({ ...row, ordinal: undo.next() }),
  },
  label: {
    by: byRun,
    collides: ({ run_labels }, { run_id, name }) => run_labels.has(keyOf(run_id, name)),
    write: ({ run_labels }, row) => run_labels.put(row),
  },
  scope: {
    by: byRun,
    collides: ({ kept_scopes }, { run_id, entry }) => kept_scopes.has(keyOf(run_id, entry)),
    write: ({ kept_scopes }, row) => kept_scopes.put(row),
  },
  kept_entry: {
    by: byRun,
    collides: ({ kept_entries }, { run_id, entry }) => kept_entries.has(keyOf(run_id, entry)),
    write: ({ kept_entries }, row) => kept_entries.put(row),
  },
  scope_value: { by: byRun, write: ({ kept_values }, { run_id: _, ...row }) => kept_values.putNew(row) },
  published_event: {
    by: byRun,
    write: ({ events }, { run_id: _, ...row }, { now }) => {
      if (!events.has(row.id)) events.put({ ...row, ordinal: events.next(), published_at: now, announced: false });
    },
  },
  event_wait: { by: byRun, write: ({ event_waits }, row) => event_waits.put(row) },
  event_wait_gone: { by: byRun, write: ({ event_waits }, { run_id }) => event_waits.delete(run_id) },
  closed_task: { by: byRun, write: closeTask },
  opened_task: {
    by: byRun,
    collides: ({ user_tasks }, { id }) => user_tasks.has(id),
    write: ({ user_tasks }, { at, ...row }) =>
      user_tasks.put({
        ...{ ...row, opened_at: at },
        ...{ closed_at: undefined, submitted_at: undefined, submitted_by: undefined, result: undefined },
      }),
  },
  outgoing_event: {
    by: bySender,
    write: ({ outgoing_events }, { from_run: _, ...row }) => {
      if (!outgoing_events.has(row.id)) outgoing_events.put({ ...row, ordinal: outgoing_events.next() });
    },
  },
  ticket_gone: {
    by: byRun,
    write: ({ concurrency_tickets }, { run_id, entry }) => concurrency_tickets.delete(keyOf(run_id, entry)),
  },
  ticket_returned: {
    by: byRun,
    write: ({ concurrency_tickets: tickets }, { run_id, entry }) => {
      const ticket = tickets.get(keyOf(run_id, entry));
      if (ticket) tickets.put({ ...ticket, granted: false });
    },
  },
  ticket: { by: byRun, write: addTicket },
  turn_taken: { by: byRun, write: ({ rate_tickets }, { run_id, entry }) => rate_tickets.delete(keyOf(run_id, entry)) },
  turn_returned: {
    by: byRun,
    write: ({ rate_tickets }, { run_id, entry }) => {
      const ticket = rate_tickets.get(keyOf(run_id, entry));
      if (ticket) rate_tickets.put({ ...ticket, returned: true });
    },
  },
  turn: {
    by: byRun,
    write: ({ rate_tickets }, row) => rate_tickets.put({ ...row, ordinal: rate_tickets.next(), returned: false }),
  },
};

/** The relations in the order in which they are applied. */
export const ORDER = Object.keys(WRITTEN) as readonly Relation[];

function updateRun({ runs }: Tables, row: Row<"run_update">): void {
  const run = runs.get(row.id);
  if (!run) return;
  run.revision++;
  run.fence = row.fence;
  for (const column of RUN_COLUMNS.changing) copy(row, run, column);
  for (const column of RUN_COLUMNS.rare) if (row[`set_${column}`]) copy(row, run, column);
  run.version = row.version ?? run.version;
  run.definition_id = row.definition_id ?? run.definition_id;
}

function copy<Column extends keyof RunRow>(from: Readonly<Pick<RunRow, Column>>, to: RunRow, column: Column): void {
  to[column] = from[column];
}

/** The run is no longer free for another signal, and what it is deciding now is lost (law 9). */
function promiseSignal({ runs }: Tables, { waiter, fence }: Row<"promise">): void {
  const run = runs.get(waiter);
  if (!run) return;
  run.revision++;
  run.fence = fence;
  run.awaited_signal = undefined;
}

function createRun({ runs, run_starts, start_keys }: Tables, row: Row<"new_run">): void {
  const { inputs, identity, request_hash, scope, key, made_by: _, ...run } = row;
  runs.put({ ...run, id: row.id as RunId, revision: 1 } satisfies RunRow);
  run_starts.put({ run_id: row.id, inputs, identity, request_hash });
  if (scope !== undefined && key !== undefined) start_keys.put({ scope, key, run_id: row.id });
}

/** Only an open task of the run. */
function closeTask({ user_tasks }: Tables, { id, run_id, at, result, submitted_by }: Row<"closed_task">): void {
  const task = user_tasks.get(id);
  if (task?.run_id !== run_id || task.closed_at !== undefined) return;
  const submitted_at = result === undefined ? undefined : at;
  user_tasks.put({ ...task, closed_at: at, submitted_at, submitted_by, result });
}

/** The ticket of a start may have been reserved before its commit: it stays at its place. */
function addTicket({ concurrency_tickets: tickets }: Tables, row: Row<"ticket">): void {
  if (tickets.has(keyOf(row.run_id, row.entry))) return;
  tickets.put({ ...row, ordinal: tickets.next(), granted: false, cancelled: false } satisfies TicketRow);
}

/** The fork has the undo of the step entries before its first one, and the business key that the run held. */
function inherit({ forks, undo, held_keys }: Tables, row: Row<"fork">): void {
  const { run_id: origin_id, fork_id, step, entry, since, inherits, at } = row;
  forks.put({ origin_id, fork_id, step, entry, inherits, at });
  for (const held of held_keys) if (held.run_id === origin_id) held_keys.put({ ...held, run_id: fork_id });
  const stands = ({ state, action }: UndoRow) => state === "owed" || (state === "passed" && action === undefined);
  const inherited = inherits ? undo.of(origin_id).filter((one) => one.entry < since && stands(one)) : [];
  for (const one of inherited) undo.put({ ...one, owner: fork_id, state: "owed" });
}

function owedBy({ undo }: Tables, owner: string): readonly UndoRow[] {
  return undo.of(owner).filter(({ state }) => state === "owed");
}
