// The clauses that both forms of the commit statement are made of: the row of a run, and the rows that a run which has won owes. The forms are
// plain.ts and general.ts.
//
// No two commits wait for each other in a circle: run rows are locked in key order, confirmed ones like updated ones (their wake
// rows and commands would be waited for otherwise), and tables are written in a fixed order. A row that another commit holds is
// skipped, and its run loses: it tries again.
//
// Rows are looked up by key, one by one: `cross join lateral (… limit 1)`, or keyed (below). A join, or a condition that can move in there (a limit
// keeps it out), would leave the way to the planner: it may plan while the table is nearly empty, and keep a plan that reads all of it.
import { type ColumnType, RELATIONS, type Relation, RUN_COLUMNS } from "../../../../machines/index.js";
import { ANNOUNCED_FROM_MEMORY_SECONDS } from "../events.js";

/** The FROM item of each relation: `unnest(…) as name(columns)`. */
type From = Readonly<Record<Relation, string>>;

/** The condition that the run in this column has won. In the plain statement all have. */
type Won = (column: string) => string;

/** One CTE of a statement: `name as (…)`. */
export type Clause = (from: From, won: Won) => string;

/** Relations that are seldom without each other, and the clauses that write their rows for the runs that have won. */
export interface Section {
  readonly relations: readonly Relation[];
  readonly writes: readonly Clause[];
}

/** A statement with its parameters: those of these relations, in their order. */
export interface Statement {
  readonly relations: readonly Relation[];
  readonly text: string;
}

/** Their rows are written in the order in which they were added, which the column `position` counts: the sequence numbers follow it. */
const ORDERED: ReadonlySet<Relation> = new Set(["undo_entry", "outgoing_event", "signal", "published_event"]);

/** The FROM items of the relations, each column a text parameter; the parameters are numbered through. */
export function fromItems(relations: readonly Relation[]): From {
  let next = 1;
  const items = relations.map((relation) => {
    const columns = Object.entries<ColumnType>(RELATIONS[relation]);
    const arrays = columns.map(([, type]) => `$${next++}::text::${type.replace("?", "")}[]`).join(", ");
    const names = columns.map(([name]) => name).join(", ");
    const [counting, position] = ORDERED.has(relation) ? [" with ordinality", ", position"] : ["", ""];
    return [relation, `unnest(${arrays})${counting} as ${relation}(${names}${position})`];
  });
  return Object.fromEntries(items) as From;
}

/**
 * The part of a fence that is about tenants: a command that may not reach the run's loses, whatever its decision was. `run` has the tenant of the
 * run, `row` the tenants that the command may reach.
 */
export const withinReach = (run: string, row: string) =>
  `(${row}.within is null or ${run}.tenant_id = any(${row}.within::uuid[]))`;

/** An equality that an index looks up, and that no join can be made by: the planner is left one way to the row. */
export const keyed = (column: string, value: string): string => `${column} = any (array[${value}])`;

// ---- The row of a run

/** The columns that have other names in the table. */
const IN_TABLE: Readonly<Record<string, string>> = { step: "current_step", review: "requires_manual_review" };
const inTable = (column: string) => IN_TABLE[column] ?? column;

const { changing, rare, fixed } = RUN_COLUMNS;

/** The columns of a run that its update sets: in both forms of the statement the same. */
export const SET_RUN = [
  "revision = runs.revision + 1, fence = run_update.fence",
  ...changing.map((column) => `${inTable(column)} = run_update.${column}`),
  ...rare.map(
    (column) => `${column} = case when run_update.set_${column} then run_update.${column} else runs.${column} end`,
  ),
  ...["version", "definition_id"].map((column) => `${column} = coalesce(run_update.${column}, runs.${column})`),
].join(", ");

const CREATED = ["id", "fence", ...fixed, ...changing, ...rare];

export const INSERT_RUNS = `insert into runs (revision, ${CREATED.map(inTable).join(", ")})
  select 1, ${CREATED.map((column) => `new_run.${column}`).join(", ")} from new_run`;

// ---- The rows of the winners: every clause asks who has won, so a loser leaves no row; in the plain statement all have. Each row rides in the
// commit of its own run, so it is written exactly once (law 5).

/** The outcome of a command is committed with its id: a repeat gets the recorded answer (law 6). */
export const COMMANDS_RECORDED: Clause = (_, won) => `
commands_recorded as (
  insert into run_commands (run_id, command_id, answer, keep, at)
  select command.run_id, command.command_id, command.answer, command.keep, command.at
  from command where ${won("command.run_id")}
)`;

/** Every transition has its own audit rows. */
export const AUDIT_EVENTS: Clause = (from, won) => `
audit_events_added as (
  insert into run_events (run_id, seq, recorded_at, event_type, step_id, attempt, from_state, to_state, actor, metadata, command_id)
  select audit_event.* from ${from.audit_event} where ${won("audit_event.run_id")}
)`;

/** One row a variable: only what changed is written (law 15). */
export const VARIABLES: Clause = (from, won) => `
variables_set as (
  insert into run_variables (run_id, name, value)
  select variable.run_id, variable.name, variable.value
  from ${from.variable} where ${won("variable.run_id")}
  on conflict (run_id, name) do update set value = excluded.value
)`;

/** A commit resets the counts of a wake: the run has advanced (law 7). */
export const WAKES: Clause = (from, won) => `
wakes_set as (
  insert into wakes (run_id, shard, due_at)
  select wake.run_id, wake.shard, wake.due_at from ${from.wake} where ${won("wake.run_id")}
  on conflict (run_id) do update set due_at = excluded.due_at, tries = 0, trial_deaths = 0
)`;

export const WAKES_GONE: Clause = (from, won) => `
wakes_removed as (
  delete from wakes using ${from.wake_gone}
  where ${keyed("wakes.run_id", "wake_gone.run_id")} and ${won("wake_gone.run_id")}
)`;

export const STARTS: readonly Clause[] = [
  (_, won) => `
starts_recorded as (
  insert into run_starts (run_id, inputs, identity, request_hash)
  select new_run.id, new_run.inputs, new_run.identity, new_run.request_hash
  from new_run where ${won("new_run.id")}
)`,
];

/** Effects outside are owed by a row until they are accepted or answered (law 5). A repeat has the id of the first. */
const OUTBOX: Section = {
  relations: ["outbox_row", "outbox_gone"],
  writes: [
    (from, won) => `
outbox_added as (
  insert into outbox (id, run_id, shard, kind, payload, due_at)
  select outbox_row.id, outbox_row.run_id, outbox_row.shard, outbox_row.kind, outbox_row.payload, outbox_row.due_at
  from ${from.outbox_row} where ${won("outbox_row.run_id")}
  on conflict (id) do nothing
)`,
    (from, won) => `
outbox_removed as (
  delete from outbox using ${from.outbox_gone}
  where ${keyed("outbox.id", "outbox_gone.id")} and ${won("outbox_gone.run_id")}
)`,
  ],
};

/** Signals and commands from run to run. An inbox row goes in the commit that answers it (law 6). */
const MESSAGES: Section = {
  relations: ["signal", "inbox_row", "inbox_gone"],
  writes: [
    (from, won) => `
signals_recorded as (
  insert into signals (id, run_id, signal_name, payload, received_at, consumed_at, promised_to)
  select signal.id, signal.run_id, signal.name, signal.payload, signal.at, case when signal.consumed then signal.at end,
    signal.promised_to
  from ${from.signal} where ${won("signal.run_id")}
  order by signal.position
)`,
    (from, won) => `
inbox_added as (
  insert into inbox (id, run_id, shard, command, due_at)
  select inbox_row.id, inbox_row.run_id, inbox_row.shard, inbox_row.command, inbox_row.due_at
  from ${from.inbox_row} where ${won("inbox_row.from_run")}
  on conflict (id) do nothing
)`,
    (from, won) => `
inbox_removed as (
  delete from inbox using ${from.inbox_gone}
  where ${keyed("inbox.id", "inbox_gone.id")} and ${won("inbox_gone.run_id")}
)`,
  ],
};

/**
 * The undo list (law 10). Ordinals come from one global sequence, in the order of completion. Each row is changed by one clause at most,
 * because a second update of a row in one statement has no effect: a settled entry is not passed, and a settled or passed entry is not
 * handed over.
 */
const UNDO_ADDED: Section = {
  relations: ["undo_entry"],
  writes: [
    (from, won) => `
undo_added as (
  insert into undo (owner_run_id, step_id, entry, action, inputs, forward_idempotency_key,
    forward_trace, child_run_id, state)
  select undo_entry.owner, undo_entry.step_id, undo_entry.entry, undo_entry.action, undo_entry.inputs,
    undo_entry.forward_key, undo_entry.forward_trace, undo_entry.child_run_id, undo_entry.state
  from ${from.undo_entry} where ${won("undo_entry.run_id")}
  order by undo_entry.position
)`,
  ],
};

const UNDO_CHANGED: Section = {
  relations: ["undo_settled", "undo_passed", "undo_handed"],
  writes: [
    (from, won) => `
entries_settled as (
  update undo set state = undo_settled.state from ${from.undo_settled}
  where ${keyed("undo.ordinal", "undo_settled.ordinal")} and ${keyed("undo.owner_run_id", "undo_settled.run_id")}
    and ${won("undo_settled.run_id")}
)`,
    (from, won) => `
entries_passed as (
  update undo set state = 'passed' from ${from.undo_passed}
  where ${keyed("undo.owner_run_id", "undo_passed.run_id")} and (undo.action is null or undo_passed.every)
    and undo.state = 'owed' and undo.entry > undo_passed.since and ${won("undo_passed.run_id")}
    and undo.ordinal not in (select undo_settled.ordinal from ${from.undo_settled})
)`,
    (from, won) => `
entries_handed as (
  update undo set owner_run_id = undo_handed.heir, entry = undo_handed.entry,
    child_run_id = coalesce(undo.child_run_id, undo_handed.run_id)
  from ${from.undo_handed}
  where ${keyed("undo.owner_run_id", "undo_handed.run_id")} and undo.state = 'owed' and ${won("undo_handed.run_id")}
    and undo.ordinal not in (select undo_settled.ordinal from ${from.undo_settled})
    and not exists (
      select from ${from.undo_passed}
      where undo_passed.run_id = undo_handed.run_id and undo.action is null and undo.entry > undo_passed.since
    )
)`,
  ],
};

/** A row until the broker has the event (law 5). Without a broker for events there are none. */
const OUTGOING_EVENTS: Section = {
  relations: ["outgoing_event"],
  writes: [
    (from, won) => `
outgoing_events_added as (
  insert into outgoing_events (id, run_id, shard, topic, payload)
  select outgoing_event.id, outgoing_event.run_id, outgoing_event.shard, outgoing_event.topic, outgoing_event.payload
  from ${from.outgoing_event} where ${won("outgoing_event.from_run")}
  order by outgoing_event.position
  on conflict (id) do nothing
)`,
  ],
};

/**
 * Slots are asked for, and given back, in the runs' own commits. The ticket that was reserved for a start becomes an ordinary one; if the
 * reservation had become void, the start has a new ticket, at the end of the queue.
 */
const TICKETS: Section = {
  relations: ["ticket", "ticket_gone", "ticket_returned"],
  writes: [
    (from, won) => `
tickets_added as (
  insert into concurrency_tickets (run_id, entry, shard, tenant_id, scope, key, step_id, slot_limit, on_limit, admitted,
    priority, fairness_key, fairness_weight)
  select ticket.run_id, ticket.entry, ticket.shard, ticket.tenant_id, ticket.scope, ticket.key, ticket.step_id, ticket.slot_limit,
    ticket.on_limit, ticket.admitted, case when ticket.precedence is not null then coalesce((ticket.precedence->>'priority')::int2, 3) end,
    case when ticket.precedence is not null then coalesce(ticket.precedence->>'key', '') end,
    case when ticket.precedence is not null then coalesce((ticket.precedence->>'weight')::float8, 1) end
  from ${from.ticket} where ${won("ticket.run_id")}
  on conflict (run_id, entry) do update set reserved_until = null
)`,
    (from, won) => `
tickets_removed as (
  delete from concurrency_tickets using ${from.ticket_gone}
  where ${keyed("concurrency_tickets.run_id", "ticket_gone.run_id")} and concurrency_tickets.entry = ticket_gone.entry
    and ${won("ticket_gone.run_id")}
)`,
    (from, won) => `
tickets_returned as (
  update concurrency_tickets set granted_at = null from ${from.ticket_returned}
  where ${keyed("concurrency_tickets.run_id", "ticket_returned.run_id")} and concurrency_tickets.entry = ticket_returned.entry
    and ${won("ticket_returned.run_id")}
)`,
  ],
};

/** Turns are asked for, taken and given back in the runs' own commits. One that is asked for anew is behind all others. */
const TURNS: Section = {
  relations: ["turn", "turn_taken", "turn_returned"],
  writes: [
    (from, won) => `
turns_asked as (
  insert into rate_tickets (run_id, entry, shard, tenant_id, scope, key, step_id, rate_limit, per_ms, burst, admitted)
  select turn.run_id, turn.entry, turn.shard, turn.tenant_id, turn.scope, turn.key, turn.step_id, turn.rate_limit, turn.per_ms,
    turn.burst, turn.admitted
  from ${from.turn} where ${won("turn.run_id")}
  on conflict (run_id, entry) do update set ticket = excluded.ticket, scope = excluded.scope, key = excluded.key,
    rate_limit = excluded.rate_limit, per_ms = excluded.per_ms, burst = excluded.burst, admitted = excluded.admitted,
    at_us = null, before_us = null, after_us = null, returned = false
)`,
    (from, won) => `
turns_taken as (
  delete from rate_tickets using ${from.turn_taken}
  where ${keyed("rate_tickets.run_id", "turn_taken.run_id")} and rate_tickets.entry = turn_taken.entry and ${won("turn_taken.run_id")}
)`,
    (from, won) => `
turns_returned as (
  update rate_tickets set returned = true from ${from.turn_returned}
  where ${keyed("rate_tickets.run_id", "turn_returned.run_id")} and rate_tickets.entry = turn_returned.entry
    and ${won("turn_returned.run_id")}
)`,
  ],
};

/** Rows that only some steps write. */
const OCCASIONAL: Section = {
  relations: [
    ...(["label", "scope", "scope_value", "published_event"] as const),
    ...(["event_wait", "event_wait_gone", "opened_task", "closed_task"] as const),
  ],
  writes: [
    (from, won) => `
labels_set as (
  insert into run_labels (run_id, name, value)
  select label.run_id, label.name, label.value from ${from.label} where ${won("label.run_id")}
)`,
    (from, won) => `
scopes_kept as (
  insert into kept_scopes (run_id, entry, holder, manifest, manifest_hash)
  select scope.run_id, scope.entry, scope.holder, scope.manifest, scope.manifest_hash
  from ${from.scope} where ${won("scope.run_id")}
)`,
    // Branches and items of one family that fork at once keep the same values: in key order, they wait for each other in no circle.
    (from, won) => `
values_kept as (
  insert into kept_values (holder, hash, value)
  select scope_value.holder, scope_value.hash, scope_value.value
  from ${from.scope_value} where ${won("scope_value.run_id")}
  order by scope_value.holder, scope_value.hash
  on conflict do nothing
)`,
    // The row owes the announcement: the publisher's node has this long before a poll takes it up (law 9).
    (from, won) => `
events_published as (
  insert into events (id, tenant_id, topic, headers, payload, size, due_at)
  select published_event.id, published_event.tenant_id, published_event.topic, published_event.headers::jsonb,
    published_event.payload, octet_length(published_event.payload::text),
    now() + interval '${ANNOUNCED_FROM_MEMORY_SECONDS} seconds'
  from ${from.published_event} where ${won("published_event.run_id")}
  order by published_event.position
  on conflict (id) do nothing
)`,
    (from, won) => `
event_waits_set as (
  insert into event_waits (run_id, topic, headers, conditions)
  select event_wait.run_id, event_wait.topic, event_wait.headers::jsonb, event_wait.conditions::jsonb
  from ${from.event_wait} where ${won("event_wait.run_id")}
  on conflict (run_id) do update set topic = excluded.topic, headers = excluded.headers,
    conditions = excluded.conditions
)`,
    (from, won) => `
event_waits_removed as (
  delete from event_waits using ${from.event_wait_gone}
  where ${keyed("event_waits.run_id", "event_wait_gone.run_id")} and ${won("event_wait_gone.run_id")}
)`,
    (from, won) => `
tasks_opened as (
  insert into user_tasks (id, run_id, step_id, assignee, title, due_at, form_schema, opened_at)
  select opened_task.id, opened_task.run_id, opened_task.step_id, opened_task.assignee, opened_task.title,
    opened_task.due_at, opened_task.form_schema, opened_task.at
  from ${from.opened_task} where ${won("opened_task.run_id")}
)`,
    // Only an open task, looked up by its id. With "is null", or with a join, a plan that is made while the table is nearly empty reads a whole index.
    (from, won) => `
tasks_closed as (
  update user_tasks set closed_at = closed_task.at,
    submitted_at = case when closed_task.result is not null then closed_task.at end,
    submitted_by = closed_task.submitted_by, result = closed_task.result
  from (
    select closed_task.*, found.place from ${from.closed_task} cross join lateral (
      select user_tasks.ctid as place from user_tasks
      where user_tasks.id = closed_task.id and user_tasks.run_id = closed_task.run_id limit 1
    ) found
  ) closed_task
  where user_tasks.ctid = closed_task.place and coalesce(user_tasks.closed_at, 'infinity') = 'infinity'
    and ${won("closed_task.run_id")}
)`,
  ],
};

/** The variables of step entries, for workflows that keep their history. Their values are those of scopes. */
const KEPT_ENTRIES: Section = {
  relations: ["kept_entry"],
  writes: [
    (from, won) => `
entries_kept as (
  insert into kept_entries (run_id, entry, step_id, manifest, manifest_hash)
  select kept_entry.run_id, kept_entry.entry, kept_entry.step_id, kept_entry.manifest, kept_entry.manifest_hash
  from ${from.kept_entry} where ${won("kept_entry.run_id")}
)`,
  ],
};

/** What a group may have besides its runs and their history, in the order in which the tables are written. */
export const OWED: readonly Section[] = [
  OUTBOX,
  MESSAGES,
  UNDO_ADDED,
  UNDO_CHANGED,
  OCCASIONAL,
  KEPT_ENTRIES,
  OUTGOING_EVENTS,
  TICKETS,
  TURNS,
];
