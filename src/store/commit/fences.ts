// The first half of the commit statement: which runs of the group win. Rows of other tables are written for winners only
// (writes.ts).
//
// No two commits wait for each other in a circle: run rows are locked in key order, confirmed ones like updated ones (their wake
// rows and commands would be waited for otherwise), and tables are written in a fixed order. A row that another commit holds is
// skipped, and its run loses: it tries again.
//
// Rows are looked up by key, one by one: `cross join lateral (… limit 1)`. A join, or a condition that can move in there (a limit keeps it
// out), would leave the way to the planner: it may plan while the table is empty, and keep a plan that reads all of it.
import type { Clause } from "./clause.js";

/** The columns of a run that its update sets: in the plain statement the same. */
export const SET_RUN = `revision = runs.revision + 1, fence = run_update.fence, state = run_update.state, current_step = run_update.step,
    last_seq = run_update.last_seq, last_event_at = run_update.last_event_at, terminal_at = run_update.terminal_at,
    requires_manual_review = run_update.review, awaited_signal = run_update.awaited_signal,
    paused_reason = run_update.paused_reason, record = run_update.record,
    call = case when run_update.set_call then run_update.call else runs.call end, output = run_update.output,
    frames = case when run_update.set_frames then run_update.frames else runs.frames end,
    items = case when run_update.set_items then run_update.items else runs.items end,
    version = coalesce(run_update.version, runs.version), definition_id = coalesce(run_update.definition_id, runs.definition_id)`;

export const INSERT_RUNS = `insert into runs (id, shard, revision, fence, last_seq, state, current_step, last_event_at, terminal_at,
    requires_manual_review, awaited_signal, paused_reason, record, call, frames, items, output, workflow_id, version,
    definition_id, tenant_id, business_key, trigger_id, parent_run_id, parent_step_id, parent_branch_id, parent_entry, root_run_id,
    family_run_id, started_at)
  select new_run.id, new_run.shard, 1, new_run.fence, new_run.last_seq, new_run.state, new_run.step, new_run.last_event_at,
    new_run.terminal_at, new_run.review, new_run.awaited_signal, new_run.paused_reason, new_run.record,
    new_run.call, new_run.frames, new_run.items, new_run.output, new_run.workflow_id, new_run.version, new_run.definition_id,
    new_run.tenant_id, new_run.business_key, new_run.trigger_id, new_run.parent_run_id, new_run.parent_step_id,
    new_run.parent_branch_id, new_run.parent_entry, new_run.root_run_id, new_run.family_run_id, new_run.started_at
  from new_run`;

/** A signal goes to one run (law 9): of two claims in the group the first one counts, and a consumed signal is no longer free. */
export const SIGNAL_CLAIMS: readonly Clause[] = [
  (from) => `
signal_claim as materialized (
  select *, row_number() over (partition by id order by run_id) as nth from ${from.signal_claim}
)`,
  () => `
free_signal as materialized (
  select signal.id from (select distinct id from signal_claim order by id) claimed cross join lateral (
    select signals.id, signals.consumed_at from signals where signals.id = claimed.id limit 1 for update skip locked
  ) signal where signal.consumed_at is null
)`,
  () => `
signal_conflict as materialized (
  select signal_claim.run_id from signal_claim
  where signal_claim.nth > 1 or signal_claim.id not in (select id from free_signal)
)`,
];
export const NO_SIGNAL_CONFLICT: Clause = () => `
signal_conflict as (select null::uuid as run_id where false)`;

/** A signal is promised to a run that waits for it and has been promised none (law 9). Of two promises in the group the first one counts. */
export const SIGNAL_PROMISES: readonly Clause[] = [
  (from) => `
promise as materialized (
  select *, row_number() over (partition by waiter order by run_id) as nth from ${from.promise}
)`,
  () => `
waiting_run as materialized (
  select locked.id from (select waiter, name from promise order by waiter) promise cross join lateral (
    select id, awaited_signal, paused_reason, terminal_at from runs where runs.id = promise.waiter limit 1
    for no key update skip locked
  ) locked
  where locked.awaited_signal = promise.name and locked.paused_reason = 'signal' and locked.terminal_at is null
)`,
  () => `
promise_conflict as materialized (
  select promise.run_id from promise where promise.nth > 1 or promise.waiter not in (select id from waiting_run)
)`,
];
export const NO_PROMISE_CONFLICT: Clause = () => `
promise_conflict as (select null::uuid as run_id where false)`;

/** A run takes an event at most once (law 9). */
export const EVENT_CLAIMS: readonly Clause[] = [
  (from) => `
event_claim as materialized (select * from ${from.event_claim})`,
  () => `
event_conflict as materialized (
  select event_claim.run_id from event_claim cross join lateral (
    select from event_takes
    where event_takes.run_id = event_claim.run_id and event_takes.event_id = event_claim.event_id limit 1
  ) taken
)`,
];
export const NO_EVENT_CONFLICT: Clause = () => `
event_conflict as (select null::uuid as run_id where false)`;

/**
 * A command that has an outcome already is not carried out again (law 6). One whose outcome was committed after this statement's
 * snapshot is not seen here; it moved the revision, or, where it was a confirmation, its key refuses the second one.
 */
export const COMMANDS: readonly Clause[] = [
  (from) => `
command as materialized (select * from ${from.command})`,
  () => `
command_conflict as materialized (
  select command.run_id from command cross join lateral (
    select from run_commands
    where run_commands.run_id = command.run_id and run_commands.command_id = command.command_id limit 1
  ) recorded
)`,
];

/**
 * The compare-and-set on the revision and on the token beside it (law 1), of runs that have not ended (law 4). A token that was not expected
 * means that the row has another history.
 */
export const REVISIONS: readonly Clause[] = [
  (from) => `
run_update as materialized (select * from ${from.run_update})`,
  ...COMMANDS,
  () => `
fenced as materialized (
  select locked.id from (select id, expected, expected_fence from run_update order by id) run_update cross join lateral (
    select id, revision, fence, terminal_at from runs where runs.id = run_update.id limit 1 for update skip locked
  ) locked
  where locked.revision = run_update.expected and locked.fence = run_update.expected_fence
    and locked.terminal_at is null
    and locked.id not in (select run_id from command_conflict)
    and locked.id not in (select run_id from signal_conflict)
    and locked.id not in (select run_id from promise_conflict)
    and locked.id not in (select run_id from event_conflict)
)`,
];

/** A decision that changes nothing is based on a revision, too (law 3). */
export const CONFIRMATIONS: Clause = (from) => `
confirmed as (
  select locked.id from (select id, expected, expected_fence from ${from.confirm} order by id) confirm cross join lateral (
    select id, revision, fence from runs where runs.id = confirm.id limit 1 for no key update skip locked
  ) locked
  where locked.revision = confirm.expected and locked.fence = confirm.expected_fence
    and locked.id not in (select run_id from command_conflict)
)`;

/**
 * A run is created once: it wins its idempotency key, or loses. A run that creates another under a key loses with it, because it
 * has told its workflow the id of a run that would not exist. It replays and finds the winner. So that a key that was won is
 * never left without its run, a run creates at most one run under a key in a commit.
 */
export const START_KEYS: readonly Clause[] = [
  (from) => `
new_run as materialized (
  select * from ${from.new_run}
  where new_run.made_by is null or new_run.key is null or new_run.made_by in (select id from fenced)
)`,
  () => `
start_key_taken as (
  insert into start_keys (scope, key, run_id)
  select new_run.scope, new_run.key, new_run.id from new_run
  where new_run.key is not null and not exists (select 1 from runs where runs.id = new_run.id)
  order by new_run.scope, new_run.key
  on conflict do nothing returning run_id
)`,
  () => `
start_key_conflict as materialized (
  select new_run.made_by as run_id from new_run
  where new_run.made_by is not null and new_run.key is not null
    and new_run.id not in (select run_id from start_key_taken)
)`,
];
export const NO_START_KEY_CONFLICT: Clause = () => `
start_key_conflict as (select null::uuid as run_id where false)`;

/** The runs that win. */
export const UPDATE: Clause = () => `
updated as (
  update runs set ${SET_RUN}
  from run_update where runs.id = run_update.id and runs.id in (select id from fenced)
    and runs.id not in (select run_id from start_key_conflict)
  returning runs.id
)`;

/** Started runs, then the children of runs that have won: a run may create some in the commit of its start. */
export const CREATION: readonly Clause[] = [
  () => `
started as (
  ${INSERT_RUNS}
  where (new_run.key is null or new_run.id in (select run_id from start_key_taken)) and new_run.made_by is null
  order by new_run.id
  on conflict do nothing returning id
)`,
  () => `
born as (
  ${INSERT_RUNS}
  where (new_run.key is null or new_run.id in (select run_id from start_key_taken))
    and (new_run.made_by in (select id from updated) or new_run.made_by in (select id from started))
  order by new_run.id
  on conflict do nothing returning id
)`,
  () => `
created as (select id from started union all select id from born)`,
];
export const NOTHING_CREATED: Clause = () => `
created as (select null::uuid as id where false)`;

export const WON: Clause = () => `
won as materialized (
  select id from updated union all select id from confirmed union all select id from created
)`;
