// THE commit statement. One round trip writes a whole group: it updates the run rows that win their compare-and-set and,
// for those runs only, everything that their transitions owe. Not retried here: the group commit decides what a failure means.
import type { Sql } from "postgres";
import { unnest } from "./arrays.js";
import { inputOf, PARTS, type Part, type RunCommit } from "./commit-rows.js";
import { TOLD_FROM_MEMORY_SECONDS } from "./events.js";

/** What stands for each part in a FROM. */
type From = Readonly<Record<Part, string>>;
type Clauses = (from: From) => string;

/**
 * Clauses that a group without rows for them goes without: a table costs its opening even where nothing is written. There are
 * few sections, and a statement for each set of them: each is planned once a connection.
 */
interface Section {
  readonly parts: readonly Part[];
  /** What later clauses ask of it, and the empty answer that they get where it is left out. */
  readonly asked?: Clauses;
  readonly unasked?: string;
  /** What it writes of the runs that have won. */
  readonly writes: Clauses;
}

/**
 * Fences stand in the `where`s. `fenced`: the run is at the revision the commit is based on, has not ended, none of its commands
 * has an outcome already, every signal it takes is still to be had, and it took no event of these before. Rows another commit
 * holds are skipped and lose. Rows of all other tables are written only for runs in `won`.
 *
 * No two commits wait for each other in a circle: run rows are taken in key order, confirmed ones like updated ones (their wake
 * rows and commands would be waited for otherwise), and tables in a fixed order.
 *
 * A command that was committed after this statement's snapshot moved the revision with it, or, where that was a confirmation,
 * its key refuses the second one: none is missed.
 */
const runs: Clauses = (from) => `
u as materialized (select * from ${from.u}),
k as materialized (select * from ${from.k}),
repeated as materialized (
  select k.run_id from k join run_commands d on d.run_id = k.run_id and d.command_id = k.command_id
),
fenced as materialized (
  select r.id from runs r join u on u.id = r.id
  where r.revision = u.expected and r.terminal_at is null and r.id not in (select run_id from repeated)
    and r.id not in (select run_id from unclaimed) and r.id not in (select run_id from retaken)
  order by r.id for update of r skip locked
),
updated as (
  update runs r set revision = r.revision + 1, state = u.state, current_step = u.step, last_seq = u.last_seq,
    last_event_at = u.last_event_at, terminal_at = u.terminal_at, requires_manual_review = u.review,
    awaited_signal = u.awaited_signal, paused_reason = u.paused_reason, record = u.record,
    call = case when u.set_call then u.call else r.call end, output = u.output,
    frames = case when u.set_frames then u.frames else r.frames end, items = case when u.set_items then u.items else r.items end
  from u where r.id = u.id and r.id in (select id from fenced)
  returning r.id
),
confirmed as (
  select r.id from ${from.c} join runs r on r.id = c.id
  where r.revision = c.expected and r.id not in (select run_id from repeated)
  order by r.id for no key update of r skip locked
)`;

/** Of every run that has won. */
const history: Clauses = (from) => `
commands as (
  insert into run_commands (run_id, command_id, answer, keep, at)
  select k.run_id, k.command_id, k.answer, k.keep, k.at from k where k.run_id in (select id from won)
),
events as (
  insert into run_events (run_id, seq, recorded_at, event_type, step_id, attempt, from_state, to_state, actor, metadata)
  select e.* from ${from.e} where e.run_id in (select id from won)
),
variables as (
  insert into run_variables (run_id, name, value)
  select v.run_id, v.name, v.value from ${from.v} where v.run_id in (select id from won)
  on conflict (run_id, name) do update set value = excluded.value
),
woken as (
  insert into wakes (run_id, shard, due_at)
  select w.run_id, w.shard, w.due_at from ${from.w} where w.run_id in (select id from won)
  on conflict (run_id) do update set due_at = excluded.due_at, tries = 0
),
wakes_gone as (
  delete from wakes d using ${from.wd} where d.run_id = wd.run_id and wd.run_id in (select id from won)
)`;

const ALWAYS: readonly Part[] = ["u", "c", "k", "e", "v", "w", "wd"];

/** Signals and events that runs take. Of two in the group that take the same signal one has it. */
const claims: Section = {
  parts: ["sc", "et"],
  asked: (from) => `
sc as materialized (select *, row_number() over (partition by id order by run_id) as nth from ${from.sc}),
claimed as materialized (
  select d.id from signals d where d.id in (select id from sc) and d.consumed_at is null order by d.id for update skip locked
),
unclaimed as materialized (select sc.run_id from sc where sc.nth > 1 or sc.id not in (select id from claimed)),
et as materialized (select * from ${from.et}),
retaken as materialized (
  select et.run_id from et join event_takes d on d.run_id = et.run_id and d.event_id = et.event_id
)`,
  unasked: `
unclaimed as (select null::uuid as run_id where false),
retaken as (select null::uuid as run_id where false)`,
  writes: () => `
signals_taken as (
  update signals d set consumed_at = sc.at from sc where d.id = sc.id and sc.run_id in (select id from won)
),
events_taken as (
  insert into event_takes (run_id, event_id) select et.run_id, et.event_id from et where et.run_id in (select id from won)
)`,
};

/** New runs, started or made by others in the group. */
const births: Section = {
  parts: ["n"],
  asked: (from) => `
n as materialized (select * from ${from.n} where n.made_by is null or n.made_by in (select id from updated)),
keyed as (
  insert into start_keys (scope, key, run_id)
  select n.scope, n.key, n.id from n
  where n.key is not null and not exists (select 1 from runs r where r.id = n.id)
  order by n.scope, n.key
  on conflict do nothing returning run_id
),
created as (
  insert into runs (id, shard, revision, last_seq, state, last_event_at, requires_manual_review, record, workflow_id, version,
    definition_id, tenant_id, business_key, trigger_id, parent_run_id, parent_step_id, parent_branch_id, parent_entry,
    root_run_id, family_run_id, started_at)
  select n.id, n.shard, 1, 1, 'pending', n.started_at, false, n.record, n.workflow_id, n.version, n.definition_id, n.tenant_id,
    n.business_key, n.trigger_id, n.parent_run_id, n.parent_step_id, n.parent_branch_id, n.parent_entry,
    n.root_run_id, n.family_run_id, n.started_at
  from n where n.key is null or n.id in (select run_id from keyed)
  order by n.id
  on conflict do nothing returning id
)`,
  unasked: `
created as (select null::uuid as id where false)`,
  writes: () => `
starts as (
  insert into run_starts (run_id, inputs, identity, request_hash)
  select n.id, n.inputs, n.identity, n.request_hash from n where n.id in (select id from created)
)`,
};

/** What is owed to workers and couriers. */
const calls: Section = {
  parts: ["o", "od"],
  writes: (from) => `
posted as (
  insert into outbox (id, run_id, shard, kind, payload, due_at)
  select o.id, o.run_id, o.shard, o.kind, o.payload, o.due_at from ${from.o} where o.run_id in (select id from won)
  on conflict (id) do nothing
),
outbox_gone as (
  delete from outbox d using ${from.od} where d.id = od.id and od.run_id in (select id from won)
)`,
};

/** What runs are told, and tell each other. */
const messages: Section = {
  parts: ["s", "i", "it"],
  writes: (from) => `
signalled as (
  insert into signals (id, run_id, signal_name, payload, received_at, consumed_at)
  select s.id, s.run_id, s.name, s.payload, s.at, case when s.consumed then s.at end
  from ${from.s} where s.run_id in (select id from won)
),
sent as (
  insert into inbox (id, run_id, shard, command, due_at)
  select i.id, i.run_id, i.shard, i.command, i.due_at from ${from.i} where i.from_run in (select id from won)
  on conflict (id) do nothing
),
inbox_taken as (
  delete from inbox d using ${from.it} where d.id = it.id and it.run_id in (select id from won)
)`,
};

/** What has to be undone, and whose that is. */
const undo: Section = {
  parts: ["x", "xs", "xp", "xh"],
  writes: (from) => `
undo_owed as (
  insert into undo (owner_run_id, step_id, entry, action, inputs, forward_idempotency_key, child_run_id, state)
  select x.owner, x.step_id, x.entry, x.action, x.inputs, x.forward_key, x.child_run_id, x.state
  from ${from.x} where x.run_id in (select id from won)
  order by x.position
),
undo_settled as (
  update undo d set state = xs.state from ${from.xs}
  where d.ordinal = xs.ordinal and d.owner_run_id = xs.run_id and xs.run_id in (select id from won)
),
undo_passed as (
  update undo d set state = 'passed' from ${from.xp}
  where d.owner_run_id = xp.run_id and (d.action is null or xp.every) and d.state = 'owed' and d.entry > xp.since
    and xp.run_id in (select id from won) and not exists (select from ${from.xs} where xs.ordinal = d.ordinal)
),
undo_handed as (
  update undo d set owner_run_id = xh.heir, entry = xh.entry, child_run_id = coalesce(d.child_run_id, xh.run_id) from ${from.xh}
  where d.owner_run_id = xh.run_id and d.state = 'owed' and xh.run_id in (select id from won)
    and not exists (select from ${from.xs} where xs.ordinal = d.ordinal)
    and not exists (select from ${from.xp} where xp.run_id = xh.run_id and d.action is null and d.entry > xp.since)
)`,
};

/** What only some steps do. */
const rest: Section = {
  parts: ["z", "p", "ew", "ewd", "t", "tc"],
  writes: (from) => `
scopes as (
  insert into run_scopes (run_id, entry, inputs, variables)
  select z.run_id, z.entry, z.inputs, z.variables from ${from.z} where z.run_id in (select id from won)
),
events_published as (
  insert into events (id, tenant_id, topic, headers, payload, size, due_at)
  select p.id, p.tenant_id, p.topic, p.headers::jsonb, p.payload, octet_length(p.payload::text),
    now() + interval '${TOLD_FROM_MEMORY_SECONDS} seconds'
  from ${from.p} where p.run_id in (select id from won)
  on conflict (id) do nothing
),
events_awaited as (
  insert into event_waits (run_id, topic, headers)
  select ew.run_id, ew.topic, ew.headers::jsonb from ${from.ew} where ew.run_id in (select id from won)
  on conflict (run_id) do update set topic = excluded.topic, headers = excluded.headers
),
events_unawaited as (
  delete from event_waits d using ${from.ewd} where d.run_id = ewd.run_id and ewd.run_id in (select id from won)
),
tasks_opened as (
  insert into user_tasks (id, run_id, step_id, assignee, title, due_at, form_schema, opened_at)
  select t.id, t.run_id, t.step_id, t.assignee, t.title, t.due_at, t.form_schema, t.at
  from ${from.t} where t.run_id in (select id from won)
),
tasks_closed as (
  update user_tasks d set closed_at = tc.at, submitted_at = case when tc.result is not null then tc.at end,
    submitted_by = tc.submitted_by, result = tc.result
  from ${from.tc}
  where d.id = tc.id and d.run_id = tc.run_id and d.closed_at is null and tc.run_id in (select id from won)
)`,
};

const SECTIONS: readonly Section[] = [claims, births, calls, messages, undo, rest];
const WON = `
won as materialized (select id from updated union all select id from confirmed union all select id from created)`;

interface Statement {
  /** In the order of its parameters. */
  readonly parts: readonly Part[];
  readonly text: string;
}

function statementWith(present: ReadonlySet<Section>): Statement {
  const parts = [...ALWAYS, ...[...present].flatMap((section) => section.parts)];
  const from = fromItems(parts);
  const asked = (section: Section) => (present.has(section) ? section.asked?.(from) : section.unasked);
  const written = [...present].map(({ writes }) => writes(from));
  const clauses = [asked(claims), runs(from), asked(births), WON, history(from), ...written];
  return { parts, text: `with ${clauses.join(",")}\nselect id from won` };
}

/** The FROM item of each part, its parameters numbered through. */
function fromItems(parts: readonly Part[]): From {
  let first = 1;
  const items = parts.map((name) => {
    const item = unnest(name, PARTS[name], first);
    first += Object.keys(PARTS[name]).length;
    return [name, item];
  });
  return Object.fromEntries(items) as From;
}

/** By the sections that are present, each a bit. */
const statements: Statement[] = [];

/** Writes the group; resolves with the ids of the runs that won. A run may stand in it once, be it as a child. */
export async function commitRuns(sql: Sql, group: readonly RunCommit[]): Promise<ReadonlySet<string>> {
  const input = inputOf(group);
  const present = SECTIONS.filter(({ parts }) => parts.some((part) => input[part].length > 0));
  const shape = present.reduce((bits, section) => bits | (1 << SECTIONS.indexOf(section)), 0);
  statements[shape] ??= statementWith(new Set(present));
  const { parts, text } = statements[shape];
  const parameters = parts.flatMap((part) => input[part].parameters());
  const won = await sql.unsafe<{ id: string }[]>(text, parameters, { prepare: true });
  return new Set(won.map(({ id }) => id));
}
