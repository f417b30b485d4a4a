// Runs for tests of retention: whole families with rows in every table that belongs to a run, written as they would be after an end some days ago. And a
// round that deletes runs alone.
import type { Sql, TransactionSql } from "postgres";
import { uuidv7 } from "../../src/ids.js";
import { hashedKey } from "../../src/store/engine/start-keys.js";
import { Families } from "../../src/store/upkeep/families.js";
import { Policies, type RunRetention } from "../../src/store/upkeep/policies.js";

export interface FamilyOf {
  readonly workflow: string;
  readonly state: "succeeded" | "failed" | "cancelled";
  /** Days since the root ended. Absent: it has not. */
  readonly ended?: number;
  /** For how many days the family has worked. */
  readonly lasted?: number;
  /** Runs below the root: the first two are its children, each further one is a child of one before it. */
  readonly children?: number;
  /** How many of the last of them have not ended. */
  readonly open?: number;
  readonly tenant?: string;
  /** A text in everything that has one. */
  readonly text?: string;
}

export interface Made {
  readonly root: string;
  readonly runs: readonly string[];
}

/** One round over the runs that are past their time, without an archive. */
export async function pruneRuns(sql: Sql, settings: RunRetention): Promise<void> {
  await new Families(sql).prune(await Policies.read(sql, settings));
}

/** A published version whose document says this of retention; undefined: nothing. */
export async function publishRetention(sql: Sql, workflow: string, version: number, retention: object | undefined) {
  await sql`
    insert into definitions (definition_id, workflow_id, version, name, published, ever_published, document)
    values (gen_random_uuid(), ${workflow}, ${version}, ${workflow}, true, true,
      ${sql.json({ id: workflow, ...(retention && { retention }) } as never)})`;
}

/** Each run has audit rows at its start and its end, at least one for each week between, a variable, a label, a signal, an undo entry, a user task and recorded answers. */
export async function insertFamily(sql: Sql, family: FamilyOf): Promise<Made> {
  const { workflow, state, ended, lasted = 0, children = 0, open = 0, tenant = null, text = "x" } = family;
  const runs = Array.from({ length: children + 1 }, () => uuidv7());
  const [root = ""] = runs;
  await sql.begin(async (transaction) => {
    for (const [nth, id] of runs.entries()) {
      const parent = nth === 0 ? null : (runs[nth < 3 ? 0 : Math.floor(nth / 2)] ?? root);
      const isOpen = ended === undefined || nth > children - open;
      // A child begins and ends within its root.
      const [from, to] = nth === 0 ? [lasted, 0] : [lasted * 0.75, lasted * 0.25];
      const [begun, over] = [(ended ?? 0) + from, (ended ?? 0) + to];
      await insertRun(transaction, {
        id,
        parent,
        root,
        begun,
        over: isOpen ? null : over,
        state,
        workflow,
        tenant,
        text,
        nth,
      });
    }
  });
  return { root, runs };
}

interface RunOf {
  readonly id: string;
  readonly parent: string | null;
  readonly root: string;
  /** Days ago. */
  readonly begun: number;
  readonly over: number | null;
  readonly state: string;
  readonly workflow: string;
  readonly tenant: string | null;
  readonly text: string;
  readonly nth: number;
}

async function insertRun(sql: TransactionSql, run: RunOf): Promise<void> {
  const { id, parent, root, begun, over, state, workflow, tenant, text, nth } = run;
  const value = { text, amount: 12.35, none: null, empty: [] };
  const days = (ago: number | null) => sql`now() - make_interval(secs => ${(ago ?? 0) * 86_400}::float8)`;
  const terminal = over === null ? sql`null::timestamptz` : days(over);
  await sql`
    insert into runs (id, shard, revision, fence, last_seq, state, current_step, last_event_at, terminal_at, requires_manual_review, record,
      output, workflow_id, version, definition_id, tenant_id, business_key, started_at, parent_run_id, parent_step_id, parent_branch_id, parent_entry, root_run_id, family_run_id)
    values (${id}, 0, 1, 1, 2, ${over === null ? "running" : state}, 'end', ${days(over)}, ${terminal}, false,
      ${sql.json(state === "failed" ? { ending: { to: "failed", reason: text, error: { code: "bad", message: text } } } : {})},
      ${sql.json(value)}, ${workflow}, 1, ${id}, ${tenant}, ${text}, ${days(begun)}, ${parent}, ${parent && "each"}, ${parent && String(nth)},
      ${parent && 1}, ${parent && root}, ${parent && root})`;
  await sql`
    insert into run_starts (run_id, inputs, identity, request_hash)
    values (${id}, ${parent === null ? sql.json(value) : null}, ${sql.json({ idempotencyKey: id, labels: { mark: text } })}, '')`;
  await sql.unsafe(
    `insert into start_keys (scope, key, run_id) values ($1, (select ${hashedKey("$2::text")}), $2::text::uuid)`,
    [`${tenant ?? ""}/${workflow}`, id],
  );
  await sql`
    insert into run_events (run_id, seq, recorded_at, event_type, attempt, from_state, to_state, actor, metadata)
    select ${id}, row_number() over (order by at), at, 'log', 0, 'running', 'running', 'engine', ${sql.json(value)}
    from (select generate_series(${days(begun)}, ${days(over)}, interval '3 days') union select ${days(over)}) times(at)`;
  await sql`insert into run_variables (run_id, name, value) values (${id}, 'v', ${sql.json(value)})`;
  await sql`insert into run_labels (run_id, name, value) values (${id}, 'mark', ${text})`;
  await sql`insert into run_commands (run_id, command_id, answer, keep, at) values (${id}, gen_random_uuid(), '{}', true, now())`;
  await sql`
    insert into signals (id, run_id, signal_name, payload, received_at) values (gen_random_uuid(), ${id}, 'go', ${sql.json(value)}, ${days(begun)})`;
  await sql`
    insert into undo (owner_run_id, step_id, entry, forward_idempotency_key, state, action) values (${id}, 's', 1, '', 'owed', 'shop.refund')`;
  await sql`
    insert into user_tasks (id, run_id, step_id, assignee, title, opened_at, closed_at, submitted_at, result)
    values (gen_random_uuid(), ${id}, 't', 'ann', ${text}, ${days(begun)}, ${days(over)}, ${days(over)}, ${sql.json(value)})`;
}

/** The tables of a run, and the column with its id. */
export const OF_RUN = [
  ...([
    ["run_starts", "run_id"],
    ["start_keys", "run_id"],
    ["run_variables", "run_id"],
    ["run_labels", "run_id"],
  ] as const),
  ...([
    ["run_commands", "run_id"],
    ["signals", "run_id"],
    ["undo", "owner_run_id"],
    ["user_tasks", "run_id"],
  ] as const),
  ...([
    ["run_events", "run_id"],
    ["runs", "id"],
  ] as const),
] as const;

/** How many rows each run has, by table: `runs 1`. */
export async function rowsByRun(sql: Sql): Promise<ReadonlyMap<string, string>> {
  const counted = new Map<string, string[]>();
  for (const [table, column] of OF_RUN) {
    const rows = await sql<{ id: string; count: number }[]>`
      select ${sql(column)} as id, count(*)::int as count from ${sql(table)} group by 1`;
    for (const { id, count } of rows) counted.set(id, [...(counted.get(id) ?? []), `${table} ${count}`]);
  }
  return new Map([...counted].map(([id, tables]) => [id, tables.sort().join(", ")]));
}

/** The weeks with a partition of audit rows, as the Mondays that begin them. */
export async function weeksOf(sql: Sql): Promise<readonly string[]> {
  const rows = await sql<{ name: string }[]>`
    select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'run_events'::regclass and c.relname ~ '_[0-9]{8}$' order by 1`;
  return rows.map(({ name }) => name.slice(-8));
}

/** Partitions for the weeks of so many days ago, which no service has made. */
export async function makePastWeeks(sql: Sql, days: number): Promise<void> {
  await sql.unsafe(`
    do $$ declare week timestamptz; name text; begin
      for week in select generate_series(date_trunc('week', now() at time zone 'UTC') at time zone 'UTC' - make_interval(days => ${days}), now() - interval '7 days', interval '7 days') loop
        week := date_trunc('week', week at time zone 'UTC') at time zone 'UTC';
        name := 'run_events_' || to_char(week at time zone 'UTC', 'YYYYMMDD');
        if to_regclass(name) is null then
          execute format('create table %I partition of run_events for values from (%L) to (%L)', name, week, week + interval '7 days');
        end if;
      end loop;
    end $$`);
}
