// Reads about a run's family and about other runs, for decisions that ask for them: children, runs that wait for a signal, whether a run
// exists. Children are created by the commit of their parent. In SQL: a decision waits for these reads.
import type { Sql } from "postgres";
import type {
  EndedChild,
  Json,
  JsonObject,
  KeyedRun,
  RecordedSignal,
  RunId,
  RunState,
  StepError,
  Unmatched,
} from "../../../machines/index.js";
import { shardOf } from "../../ids.js";
import { asRead, readColumn, sealingOf } from "../sealed/sealing.js";
import { hashOfKey } from "./start-keys.js";

/** The ended children of a step entry, in their order; null: their outputs together exceed `most` bytes. */
export async function endedChildren(
  sql: Sql,
  runId: RunId,
  { entry, child }: { readonly entry: number; readonly child?: RunId },
  most: number,
): Promise<readonly EndedChild[] | null> {
  const which = sql`parent_run_id = ${runId} and parent_entry = ${entry} and terminal_at is not null
    and (${child ?? null}::uuid is null or id = ${child ?? null})`;
  const [size] = await sql<
    { bytes: string | null }[]
  >`select sum(octet_length(output::text)) as bytes from runs where ${which}`;
  // A sealed value is longer by a third, and by its envelope.
  const bound = sealingOf(sql) ? most * 2 + SEALED_BYTES : most;
  if (Number(size?.bytes ?? 0) > bound) return null;
  const text = asRead(sql);
  const rows = await sql<EndedRow[]>`
    select id, parent_branch_id as branch, state, output${text} as output, (record->'ending'->'error')${text} as error,
      (record->'ending'->'reason')${text} as reason
    from runs where ${which} order by length(parent_branch_id), parent_branch_id`;
  return rows.map(({ id, branch, state, ...sealed }) => {
    const output = readColumn(sql, sealed.output, `runs.output/${id}`);
    const ending = `runs.record/${id}/ending`;
    const [error, reason] = [
      readColumn(sql, sealed.error, `${ending}/error`),
      readColumn(sql, sealed.reason, `${ending}/reason`),
    ];
    return endedChild({ branch, state, output, error, reason });
  });
}

/** Of the envelope of a small value. */
const SEALED_BYTES = 256;

function endedChild({ branch, state, output, error, reason }: Omit<EndedRow, "id">): EndedChild {
  return {
    branch: branch ?? "",
    state,
    output,
    ...(state !== "succeeded" && { error: error ?? { code: "cancelled", message: reason ?? "cancelled" } }),
  };
}

interface EndedRow {
  readonly id: RunId;
  readonly branch: string | null;
  readonly state: EndedChild["state"];
  readonly output: Json;
  readonly error: StepError | null;
  readonly reason: string | null;
}

export async function livingChildren(sql: Sql, runId: RunId, from: number): Promise<readonly RunId[]> {
  const rows = await sql<{ id: RunId }[]>`
    select id from runs where parent_run_id = ${runId} and parent_entry >= ${from} and terminal_at is null order by id`;
  return rows.map(({ id }) => id);
}

type Member = { readonly id: RunId; readonly family?: readonly RunId[] };

/** More pairs than a family can have at once. */
const MAX_PAIRS = 10_000;

/**
 * A run's branches and items, at any depth, that wait for a signal of the name. Not those that have been promised one (their column is null
 * then), and not those that a cancel is on its way to, or that are part of such a run.
 */
function waiting(sql: Sql, run: Member, name: string) {
  return sql`
    from runs r join run_starts s on s.run_id = r.id
    where r.family_run_id = ${run.family?.at(-1) ?? run.id} and r.awaited_signal = ${name} and r.terminal_at is null
      and r.paused_reason = 'signal' and r.id not in (select run_id from told_to_stop) and exists (
        select 1 from json_array_elements_text(s.identity->'family') above where above = ${run.id})
      and not exists (
        select 1 from json_array_elements_text(s.identity->'family') above
        where above::uuid in (select run_id from told_to_stop))`;
}

/** Read once for a statement. Inbox rows have no index by their command, so those of the family's shard are looked through. */
function toldToStop(sql: Sql, { id }: Member) {
  return sql`with told_to_stop as materialized (
    select run_id from inbox where shard = ${shardOf(id)} and command->>'type' = 'cancel')`;
}

/** The run's own signals of the name that no run has taken or been promised. The promise to a run that has ended is void. */
function free(sql: Sql, run: Member, name: string) {
  return sql`from signals where run_id = ${run.id} and signal_name = ${name} and consumed_at is null and ${unpromised(sql)}`;
}

const unpromised = (sql: Sql) =>
  sql`(promised_to is null or not exists (select 1 from runs p where p.id = promised_to and p.terminal_at is null))`;

/** The signal of the name that the run was promised; otherwise the oldest of its own and of the runs that it is a part of that is free. */
export async function signalFor(sql: Sql, run: Member, name: string): Promise<RecordedSignal | null> {
  const seen = sql`
    from signals where run_id = any(${[run.id, ...(run.family ?? [])]}::uuid[]) and signal_name = ${name} and consumed_at is null`;
  const columns = sql`id, run_id as "runId", payload${asRead(sql)} as payload`;
  const [row] = await sql<RecordedSignal[]>`
    with mine as materialized (
      select ${columns}, true as promised ${seen} and promised_to = ${run.id} order by ordinal limit 1
    )
    select * from mine union all (
      select ${columns}, false ${seen} and not exists (select from mine) and ${unpromised(sql)} order by ordinal limit 1)`;
  return row ? { ...row, payload: readColumn(sql, row.payload, `signals.payload/${row.id}`) } : null;
}

/** The run that has waited longest, not counting those that the recorded signals go to. One statement, so both are as of one moment. */
export async function nextWaiter(sql: Sql, run: Member, name: string): Promise<{ readonly id: RunId } | null> {
  const [row] = await sql<{ id: RunId }[]>`
    ${toldToStop(sql, run)}
    select r.id ${waiting(sql, run, name)}
    order by r.last_event_at, r.id offset (select count(*) ${free(sql, run, name)}) limit 1`;
  return row ?? null;
}

/** How many signals of the run no step has consumed, counted up to `most`. */
export async function keptSignals(sql: Sql, runId: RunId, most: number): Promise<number> {
  const [row] = await sql<{ kept: number }[]>`
    select count(*)::int as kept from (
      select from signals where run_id = ${runId} and consumed_at is null limit ${most}
    ) signal`;
  return row?.kept ?? 0;
}

/** Pairs: the oldest signal with the run that has waited longest, and so on. */
export async function unmatchedSignals(sql: Sql, run: Member, name: string): Promise<readonly Unmatched[]> {
  return sql<Unmatched[]>`
    ${toldToStop(sql, run)}
    select g.id as "signalId", w.id as waiter
    from (select id, row_number() over (order by ordinal) as nth ${free(sql, run, name)}) g
    join (select r.id, row_number() over (order by r.last_event_at, r.id) as nth ${waiting(sql, run, name)}) w using (nth)
    order by nth limit ${MAX_PAIRS}`;
}

/** A run that another run of the same tenant names. */
export async function namedRun(
  sql: Sql,
  runId: RunId,
  tenantId: string | undefined,
): Promise<{ readonly id: RunId; readonly state: RunState } | null> {
  const [row] = await sql<{ id: RunId; state: RunState }[]>`
    select id, state from runs where id = ${runId} and tenant_id is not distinct from ${tenantId ?? null}`;
  return row ?? null;
}

/** The variables that the service gave a run at its start. */
export async function startupVariables(sql: Sql, runId: RunId): Promise<JsonObject> {
  const [row] = await sql<{ startup: JsonObject | null }[]>`
    select (identity->'startup')${asRead(sql)} as startup from run_starts where run_id = ${runId}`;
  return readColumn(sql, row?.startup ?? null, `run_starts.identity/${runId}/startup`) ?? {};
}

/** The run that was started with an idempotency key: the key stays when it is erased. */
export async function keyedRun(sql: Sql, scope: string, key: string): Promise<KeyedRun | null> {
  const [row] = await sql<KeyedRun[]>`
    select k.run_id as id, exists (select from erased_runs e where e.run_id = k.run_id) as erased
    from start_keys k where k.scope = ${scope} and k.key = ${hashOfKey(key)}`;
  return row ?? null;
}
