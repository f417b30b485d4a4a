// What a decision on a fork reads of the run: the steps that it has entered, and what a fork would take over of it. In SQL: a command waits for these
// reads. What a fork moves is written by commit/general.ts.
import type { Sql } from "postgres";
import type { GivenAtStart, Inheritance, JsonObject, RunId, StepEntries } from "../../../machines/index.js";
import { asRead, ofManifest, type ReadCell, readColumn } from "../sealed/sealing.js";

/** The audit rows that are looked through, newest first. */
const LOOKED_THROUGH = 50_000;
/** Step entries that are read. */
const MOST_ENTRIES = 10_000;
/** Effects that do not stand any more, as a refusal names them. */
const NAMED = 100;

export async function stepEntries(sql: Sql, runId: RunId): Promise<StepEntries> {
  const [found] = await sql<EntriesRow[]>`
    with log as materialized (
      select seq, event_type, step_id, metadata->>'kind' as kind, metadata->>'phase' as phase, metadata->'variables' is not null as named
      from run_events where run_id = ${runId} order by seq desc limit ${LOOKED_THROUGH}
    ), moved as (select coalesce(max(seq), 0) as seq from log where event_type = 'log' and kind = 'migrate'
    ), entered as (
      select log.seq, log.step_id from log, moved
      where log.event_type = 'step.started' and log.phase is distinct from 'compensation' and log.seq > moved.seq
      order by log.seq desc limit ${MOST_ENTRIES}
    ), newest as (select seq, step_id from entered order by seq desc limit 1)
    select (select coalesce(json_agg(step_id order by seq), '[]') from entered) as steps,
      (select count(*) from entered) < ${MOST_ENTRIES} and (select seq from moved) = 0
        and coalesce((select min(seq) from log) = 1, false) as whole,
      exists (select from log where event_type = 'log' and kind = 'retry_step' and named) as corrected,
      exists (select from log, newest where log.seq > newest.seq and log.step_id = newest.step_id
        and log.event_type in ('step.succeeded', 'step.skipped') and log.phase is distinct from 'compensation') as "lastIsDone",
      (select coalesce(json_agg(json_build_object('entry', entry, 'step', step_id) order by entry), '[]') from (
        select entry, step_id from kept_entries where run_id = ${runId} order by entry desc limit ${MOST_ENTRIES}) kept) as kept,
      (select seq from moved) > 0 as moved`;
  if (!found) throw new Error("a statement without a table gives one row");
  const { moved, kept, ...entries } = found;
  // Steps of another version may have the same ids, and stand elsewhere.
  return { ...entries, kept: moved ? [] : kept };
}

interface EntriesRow extends StepEntries {
  readonly moved: boolean;
}

export async function inheritanceOf(
  sql: Sql,
  runId: RunId,
  { before, undoing }: { readonly before: number; readonly undoing?: string },
): Promise<Inheritance> {
  const earlier = sql`undo.owner_run_id = ${runId} and undo.entry < ${before}`;
  const text = asRead(sql);
  const read: ReadCell = (cell, expected) => readColumn(sql, cell, expected);
  const [found] = await sql<InheritanceRow[]>`
    select (select fork_id from forks where origin_id = ${runId} and inherits limit 1) as heir,
      (select count(*)::int from undo where ${earlier} and state = 'owed' and action is not null) as owed,
      (select array_agg(distinct step_id) from undo where ${earlier} and action is null and state in ('owed', 'passed')) as review,
      (select coalesce(json_agg(lost), '[]') from (
        select step_id as step, entry, case state when 'owed' then 'undoing' else state end as state from undo
        where ${earlier} and (state in ('done', 'failed') or ordinal = ${undoing ?? null}::int8) order by ordinal limit ${NAMED}) lost) as undone,
      kept.names, kept.variables${text} as variables, s.identity->'labels' as labels, (s.identity->'given')${text} as given
    from run_starts s left join lateral (
      select (e.manifest->'names')::text as names, kept_variables(e.run_id, e.manifest, e.manifest_hash) as variables
      from kept_entries e where e.run_id = ${runId} and e.entry = ${before}
    ) kept on true
    where s.run_id = ${runId}`;
  if (!found) throw new Error(`the run ${runId} has no start`);
  const { heir, owed, review, undone, labels } = found;
  const expected = ofManifest(`kept_entries.manifest/${runId}/${before}`, { holder: runId, names: found.names }, read);
  const [variables, given] = [read(found.variables, expected), read(found.given, `run_starts.identity/${runId}/given`)];
  return {
    ...{ owed, undone, review: review ?? [] },
    ...(heir && { heir }),
    ...(variables && { variables }),
    ...(labels && { labels }),
    ...(given && { given }),
  };
}

interface InheritanceRow {
  readonly heir: RunId | null;
  readonly owed: number;
  readonly review: readonly string[] | null;
  readonly undone: Inheritance["undone"];
  /** Of the kept values, where encryption is on. */
  readonly names: string | null;
  readonly variables: JsonObject | null;
  readonly labels: Readonly<Record<string, string>> | null;
  readonly given: GivenAtStart | null;
}
