// The general form of the commit statement: it finds out which runs of the group win, and writes the rows of those only. It serves where some run may
// lose, and where a run claims something or promises it.
import type { Relation } from "../../../../machines/index.js";
import { hashedKey } from "../start-keys.js";
import {
  AUDIT_EVENTS,
  type Clause,
  COMMANDS_RECORDED,
  fromItems,
  INSERT_RUNS,
  keyed,
  OWED,
  SET_RUN,
  type Section,
  STARTS,
  type Statement,
  VARIABLES,
  WAKES,
  WAKES_GONE,
  withinReach,
} from "./clauses.js";
import type { GroupRows } from "./encoding.js";

// ---- Who wins

/** A signal goes to one run (law 9): of two claims in the group the first one counts, and a consumed signal is no longer free. */
const SIGNAL_CLAIMS: readonly Clause[] = [
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
const NO_SIGNAL_CONFLICT: Clause = () => `
signal_conflict as (select null::uuid as run_id where false)`;

/** A signal is promised to a run that waits for it and has been promised none (law 9). Of two promises in the group the first one counts. */
const SIGNAL_PROMISES: readonly Clause[] = [
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
const NO_PROMISE_CONFLICT: Clause = () => `
promise_conflict as (select null::uuid as run_id where false)`;

/** A run takes an event at most once (law 9). */
const EVENT_CLAIMS: readonly Clause[] = [
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
const NO_EVENT_CONFLICT: Clause = () => `
event_conflict as (select null::uuid as run_id where false)`;

/**
 * A run that is to hold its business key wins only if the run that it expects holds it now. Of two in the group the first one counts. A row that a start
 * inserts and then loses names a run that does not exist, and so holds nothing.
 */
const HELD_KEYS: readonly Clause[] = [
  (from) => `
held_key as materialized (
  select run_id, scope, ${hashedKey("key")} as hash, expected, burst_at,
    row_number() over (partition by scope, key order by run_id) as nth from ${from.held_key}
)`,
  () => `
key_passed as materialized (
  select first.* from (select * from held_key where nth = 1 and expected is not null order by scope, hash) first cross join lateral (
    select held_keys.run_id from held_keys
    where held_keys.scope = first.scope and held_keys.key = first.hash limit 1 for update skip locked
  ) holder where holder.run_id = first.expected
)`,
  () => `
key_taken as (
  insert into held_keys (scope, key, run_id, burst_at)
  select scope, hash, run_id, burst_at from held_key where nth = 1 and expected is null
  order by 1, 2
  on conflict do nothing returning run_id
)`,
  () => `
key_lost as materialized (
  select run_id from held_key
  where run_id not in (select run_id from key_passed) and run_id not in (select run_id from key_taken)
)`,
];
const NO_KEY_LOST: readonly Clause[] = [
  () => `
key_passed as (select null::uuid as expected where false)`,
  () => `
key_lost as (select null::uuid as run_id where false)`,
];

/** The undo of a run is inherited once. A fork that was committed after this statement's snapshot is not seen here; its key refuses the second one. */
const FORKS: readonly Clause[] = [
  (from) => `
fork as materialized (select * from ${from.fork})`,
  () => `
fork_conflict as materialized (
  select fork.run_id from fork cross join lateral (
    select from forks where forks.origin_id = fork.run_id and forks.inherits limit 1
  ) taken where fork.inherits
)`,
];
const NO_FORK_CONFLICT: Clause = () => `
fork_conflict as (select null::uuid as run_id where false)`;

/**
 * What a fork takes over, in the commit that creates it: the undo of the step entries before its first one, and the hold of the business key. Undos
 * keep their order. A step without a compensation that a rollback has passed over still stands, so the fork has it in its list. A start of this group
 * that takes the key over is stronger.
 */
const FORKED: readonly Clause[] = [
  (_, won) => `
forks_recorded as (
  insert into forks (origin_id, fork_id, step, entry, inherits, at)
  select fork.run_id, fork.fork_id, fork.step, fork.entry, fork.inherits, fork.at from fork where ${won("fork.run_id")}
)`,
  (_, won) => `
undo_inherited as (
  update undo set owner_run_id = fork.fork_id, state = 'owed' from fork
  where ${keyed("undo.owner_run_id", "fork.run_id")} and fork.inherits and undo.entry < fork.since
    and (undo.state = 'owed' or (undo.state = 'passed' and undo.action is null)) and ${won("fork.run_id")}
)`,
  (_, won) => `
keys_inherited as (
  update held_keys set run_id = fork.fork_id from fork
  where ${keyed("held_keys.run_id", "fork.run_id")} and ${won("fork.run_id")}
    and fork.run_id not in (select expected from key_passed)
)`,
];

const KEYS_HELD: Clause = (_, won) => `
keys_held as (
  update held_keys set run_id = key_passed.run_id, burst_at = key_passed.burst_at
  from key_passed where ${keyed("held_keys.scope", "key_passed.scope")}
    and ${keyed("held_keys.key", "key_passed.hash")} and ${won("key_passed.run_id")}
)`;

/**
 * A command that has an outcome already is not carried out again (law 6). One whose outcome was committed after this statement's
 * snapshot is not seen here; it moved the revision, or, where it was a confirmation, its key refuses the second one.
 */
const COMMANDS: readonly Clause[] = [
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
const REVISIONS: readonly Clause[] = [
  (from) => `
run_update as materialized (select * from ${from.run_update})`,
  ...COMMANDS,
  () => `
fenced as materialized (
  select locked.id from (select id, expected, expected_fence, within from run_update order by id) run_update cross join lateral (
    select id, revision, fence, terminal_at, tenant_id from runs where runs.id = run_update.id limit 1 for update skip locked
  ) locked
  where locked.revision = run_update.expected and locked.fence = run_update.expected_fence
    and ${withinReach("locked", "run_update")}
    and locked.terminal_at is null
    and locked.id not in (select run_id from command_conflict)
    and locked.id not in (select run_id from signal_conflict)
    and locked.id not in (select run_id from promise_conflict)
    and locked.id not in (select run_id from event_conflict)
    and locked.id not in (select run_id from key_lost)
    and locked.id not in (select run_id from fork_conflict)
)`,
];

/** A decision that changes nothing is based on a revision, too (law 3). */
const CONFIRMATIONS: Clause = (from) => `
confirmed as (
  select locked.id from (select id, expected, expected_fence, within from ${from.confirm} order by id) confirm cross join lateral (
    select id, revision, fence, tenant_id from runs where runs.id = confirm.id limit 1 for no key update skip locked
  ) locked
  where locked.revision = confirm.expected and locked.fence = confirm.expected_fence and ${withinReach("locked", "confirm")}
    and locked.id not in (select run_id from command_conflict)
    and locked.id not in (select run_id from fork_conflict)
)`;

/** The start of a run is kept when the run is erased: a start with its id loses. */
const NOT_STARTED = "(select run_id from run_starts where run_starts.run_id = new_run.id limit 1) is null";

/**
 * A run is created once: it wins its idempotency key, or loses. A run that creates another under a key loses with it, because it
 * has told its workflow the id of a run that would not exist. It replays and finds the winner. So that a key that was won is
 * never left without its run, a run creates at most one run under a key in a commit.
 */
const START_KEYS: readonly Clause[] = [
  (from) => `
new_run as materialized (
  select * from ${from.new_run}
  where (new_run.made_by is not null or ${NOT_STARTED}) and new_run.id not in (select run_id from key_lost)
    and (new_run.made_by is null or new_run.key is null or new_run.made_by in (select id from fenced))
)`,
  () => `
start_key_taken as (
  insert into start_keys (scope, key, run_id)
  select new_run.scope, ${hashedKey("new_run.key")}, new_run.id from new_run
  where new_run.key is not null and (select runs.id from runs where runs.id = new_run.id limit 1) is null
  order by 1, 2
  on conflict do nothing returning run_id
)`,
  () => `
start_key_conflict as materialized (
  select new_run.made_by as run_id from new_run
  where new_run.made_by is not null and new_run.key is not null
    and new_run.id not in (select run_id from start_key_taken)
)`,
];
const NO_START_KEY_CONFLICT: Clause = () => `
start_key_conflict as (select null::uuid as run_id where false)`;

/** The runs that win. */
const UPDATE: Clause = () => `
updated as (
  update runs set ${SET_RUN}
  from run_update where ${keyed("runs.id", "run_update.id")} and run_update.id in (select id from fenced)
    and run_update.id not in (select run_id from start_key_conflict)
  returning runs.id
)`;

/** Started runs, then the children of runs that have won: a run may create some in the commit of its start. One that has ended is confirmed when it is forked. */
const CREATION: readonly Clause[] = [
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
    and (new_run.made_by in (select id from updated) or new_run.made_by in (select id from started)
      or new_run.made_by in (select id from confirmed))
  order by new_run.id
  on conflict do nothing returning id
)`,
  () => `
created as (select id from started union all select id from born)`,
];
const NOTHING_CREATED: Clause = () => `
created as (select null::uuid as id where false)`;

const WON: Clause = () => `
won as materialized (
  select id from updated union all select id from confirmed union all select id from created
)`;

/** The claims and promises that have won: the taker's commit consumes the signal or the event (law 9). */
const CLAIMED: readonly Clause[] = [
  (_, won) => `
signals_consumed as (
  update signals set consumed_at = signal_claim.at from signal_claim
  where ${keyed("signals.id", "signal_claim.id")} and ${won("signal_claim.run_id")}
)`,
  // The run is no longer free for another signal, and what it is deciding now is lost: it reads the promise before it decides again (law 9).
  (_, won) => `
promises_made as (
  update runs set revision = runs.revision + 1, fence = promise.fence, awaited_signal = null
  from promise where ${keyed("runs.id", "promise.waiter")} and ${won("promise.run_id")}
)`,
  (_, won) => `
events_taken as (
  insert into event_takes (run_id, event_id)
  select event_claim.run_id, event_claim.event_id from event_claim where ${won("event_claim.run_id")}
)`,
];

// ---- The statement

/**
 * Clauses that a group without rows for them does without: opening a table costs time even where nothing is written. There are
 * few sections, because each set of them is a statement of its own, planned once a connection.
 */
interface GeneralSection extends Section {
  /** Which runs lose, as later clauses ask. */
  readonly conflicts?: readonly Clause[];
  /** The same names with no rows: for statements without the section. */
  readonly withoutConflicts?: readonly Clause[];
}

const EVERY_GROUP: readonly Relation[] = [
  "run_update",
  "confirm",
  "command",
  "audit_event",
  "variable",
  "wake",
  "wake_gone",
];
const HISTORY: readonly Clause[] = [COMMANDS_RECORDED, AUDIT_EVENTS, VARIABLES, WAKES, WAKES_GONE];

const claims: GeneralSection = {
  relations: ["signal_claim", "promise", "event_claim"],
  conflicts: [...SIGNAL_CLAIMS, ...SIGNAL_PROMISES, ...EVENT_CLAIMS],
  withoutConflicts: [NO_SIGNAL_CONFLICT, NO_PROMISE_CONFLICT, NO_EVENT_CONFLICT],
  writes: CLAIMED,
};
const heldKeys: GeneralSection = {
  relations: ["held_key"],
  conflicts: HELD_KEYS,
  withoutConflicts: NO_KEY_LOST,
  writes: [KEYS_HELD],
};
const forks: GeneralSection = {
  relations: ["fork"],
  conflicts: FORKS,
  withoutConflicts: [NO_FORK_CONFLICT],
  writes: FORKED,
};
/** Runs that are started, or made by others in the group. */
const newRuns: GeneralSection = {
  relations: ["new_run"],
  conflicts: START_KEYS,
  withoutConflicts: [NO_START_KEY_CONFLICT],
  writes: STARTS,
};
/** The order in which tables are written. */
const SECTIONS: readonly GeneralSection[] = [claims, heldKeys, forks, newRuns, ...OWED];

/** General statements by the sections that are present, each a bit. */
const generalStatements: Statement[] = [];

/** The statement that finds out who wins. */
export function generalStatement(rows: GroupRows): Statement {
  const present = SECTIONS.filter(({ relations }) => relations.some((relation) => rows.has(relation)));
  const shape = present.reduce((bits, section) => bits | (1 << SECTIONS.indexOf(section)), 0);
  generalStatements[shape] ??= statementWith(new Set(present));
  return generalStatements[shape];
}

function statementWith(present: ReadonlySet<GeneralSection>): Statement {
  const relations = [...EVERY_GROUP, ...[...present].flatMap((section) => section.relations)];
  const from = fromItems(relations);
  const conflicts = (section: GeneralSection) =>
    (present.has(section) ? section.conflicts : section.withoutConflicts) ?? [];
  const clauses: readonly Clause[] = [
    ...conflicts(claims),
    ...conflicts(heldKeys),
    ...conflicts(forks),
    ...REVISIONS,
    ...conflicts(newRuns),
    UPDATE,
    CONFIRMATIONS,
    ...(present.has(newRuns) ? CREATION : [NOTHING_CREATED]),
    WON,
    ...HISTORY,
    ...[...present].flatMap(({ writes }) => writes),
  ];
  const won = (column: string) => `${column} in (select id from won)`;
  const text = clauses.map((clause) => clause(from, won)).join(",");
  return { relations, text: `with ${text}\nselect id from won` };
}
