// Reads a run back into memory, and the few rows that a decision may ask for. Runs as clients see them are in runs.ts. In SQL: a command
// waits for these reads.

import type { Sql } from "postgres";
import {
  type Answer,
  type JsonObject,
  LOADED_COLUMNS,
  type RunColumns,
  type RunId,
  type StoredRun,
  storedRun,
  type UndoEntry,
} from "../../../machines/index.js";
import { setImmediate } from "../../ambient.js";
import { asRead, ofManifest, type ReadCell, readColumn, type Sealing, sealingOf } from "../sealed/sealing.js";
import { keptInputs } from "./kept-inputs.js";
import type { Revision } from "./revision.js";
import { hashOfKey } from "./start-keys.js";

export interface RunAtRevision {
  readonly stored: StoredRun;
  readonly revision: Revision;
  /** The token beside the revision. */
  readonly fence: string;
  readonly lastSeq: number;
  /** Epoch milliseconds: the time of audit row `lastSeq`. */
  readonly lastEventAt: number;
  /** The key of some of its values was destroyed: `stored` has markers in their places. */
  readonly dataLost?: true;
}

/** Columns by name: a column that a later release adds must not change a result (law 13). */
const OF_THE_RUN = LOADED_COLUMNS.map((column) => `r.${column}`).join(", ");

/** Where encryption is on, values are read as text: each must be the one of its column. */
const JSON_OF_THE_RUN = ["record", "call", "output", "frames", "items"] as const;
const OF_THE_RUN_AS_TEXT = LOADED_COLUMNS.map((column) =>
  JSON_OF_THE_RUN.some((json) => json === column) ? `r.${column}::text as ${column}` : `r.${column}`,
).join(", ");

export async function loadRun(sql: Sql, runId: RunId): Promise<RunAtRevision | undefined> {
  const kept = keptInputs(sql);
  const sealing = sealingOf(sql);
  const text = asRead(sql);
  // What is kept now is at hand when the answer comes, whatever is evicted meanwhile.
  const known = new Map(kept.startsFor(runId).map((start) => [start, kept.get(start)]));
  const [found] = await sql<LoadedRow[]>`
    select r.revision, r.fence, r.last_seq, r.last_event_at, ${sql.unsafe(sealing ? OF_THE_RUN_AS_TEXT : OF_THE_RUN)},
      o.start as inputs_of, i.inputs${text} as inputs, octet_length(i.inputs::text) as inputs_bytes, s.identity${text} as identity,
      z.variables${text} as inherited, ${sealing ? sql`z.names::text as names, z.holder,` : sql``}
      (select json_object_agg(v.name, v.value) from run_variables v where v.run_id = r.id and v.value is not null)${text} as variables,
      (select array_agg(v.name) from run_variables v where v.run_id = r.id and v.value is null) as gone
    from runs r join run_starts s on s.run_id = r.id
      left join run_starts f on f.run_id = r.family_run_id
      cross join lateral (select case when s.inputs is null then f.run_id else s.run_id end as start) o
      left join lateral (select coalesce(s.inputs, f.inputs) as inputs where o.start <> all(${[...known.keys()]}::text[]::uuid[])) i on true
      left join lateral (
        select kept_variables(k.holder, k.manifest, k.manifest_hash) as variables
          ${sealing ? sql`, k.manifest->'names' as names, k.holder` : sql``} from kept_scopes k
        where r.family_run_id is not null and k.run_id = r.parent_run_id and k.entry = r.parent_entry
      ) z on true
    where r.id = ${runId}`;
  if (!found) return undefined;
  const row: OpenedRow = sealing ? openedRow(sealing, found) : found;
  const inputs = (row.inputs ?? known.get(row.inputs_of)) as JsonObject;
  if (row.inputs) kept.keep(row.inputs_of, row.inputs, row.inputs_bytes ?? 0);
  const { revision, fence, last_seq: lastSeq } = row;
  return {
    revision,
    fence,
    lastSeq,
    lastEventAt: row.last_event_at.getTime(),
    ...(row.dataLost && { dataLost: row.dataLost }),
    stored: storedRun({ ...row, inputs, started_at: row.started_at.getTime() }),
  };
}

type OpenedRow = LoadedRow & Pick<RunAtRevision, "dataLost">;

/** The row with its values, each of which was written where it stands. Throws Unreadable if one was not. */
function openedRow(sealing: Sealing, row: LoadedRow): OpenedRow {
  const { id } = row;
  let dataLost: true | undefined;
  const lose = () => {
    dataLost = true;
  };
  const read: ReadCell = (cell, expected) => (typeof cell === "string" ? sealing.read(cell, expected, lose) : cell);
  const ofRun = Object.fromEntries(
    JSON_OF_THE_RUN.map((column) => [column, read<unknown>(row[column], `runs.${column}/${id}`)]),
  ) as Pick<LoadedRow, (typeof JSON_OF_THE_RUN)[number]>;
  const opened: OpenedRow = {
    ...row,
    ...ofRun,
    inputs: read(row.inputs, `run_starts.inputs/${row.inputs_of}`),
    identity: read(row.identity, `run_starts.identity/${id}`),
    variables: read(row.variables, `run_variables.value/${id}`),
    inherited: read(
      row.inherited,
      ofManifest(`kept_scopes.manifest/${row.parent_run_id}/${row.parent_entry}`, row, read),
    ),
  };
  return dataLost ? { ...opened, dataLost } : opened;
}

export interface RecordedAnswer {
  readonly answer: Answer;
  /** What a repeat must have in common with the first command, where that was said. */
  readonly requestHash?: string;
}

/** Audit rows among which a worker's answer is looked for, newest first. An answer that is repeated later than that is stale. */
const ANSWER_AMONG = 1_000;

/**
 * The recorded answer of a command, if its outcome is committed (law 6). A worker's answer that counted has its id beside its audit row
 * instead. An inbox row that brings the command again is removed.
 */
export async function repeatedAnswer(sql: Sql, runId: RunId, commandId: string): Promise<RecordedAnswer | undefined> {
  const [row] = await sql<{ answer: Answer & { readonly request_hash?: string } }[]>`
    with recorded as materialized (
      select answer from run_commands where run_id = ${runId} and command_id = ${commandId}
      union all
      select '{"type": "report", "stale": false}'::json from (
        select command_id from run_events where run_id = ${runId} order by seq desc limit ${ANSWER_AMONG}
      ) newest where newest.command_id = ${commandId}
    ), done as (
      delete from inbox where id = ${commandId} and exists (select from recorded)
    )
    select answer from recorded`;
  if (!row) return undefined;
  const { request_hash: requestHash, ...answer } = row.answer;
  return { answer: answer as Answer, ...(requestHash !== undefined && { requestHash }) };
}

/** Undo entries that are still owed, newest first. `complete`: there are no further ones. */
export interface OwedEntries {
  readonly entries: readonly UndoEntry[];
  readonly complete: boolean;
}

/** What is read of one undo list at once. */
const OWED_AT_ONCE = { rows: 20, bytes: 65_536 };
/** Lists that one statement reads: with large entries, a megabyte. */
const LISTS_AT_ONCE = 16;

/** The undo entries of a run that are asked for: those of the step entries after `since`. */
export interface UndoList {
  readonly runId: RunId;
  readonly since: number;
}

/** The newest undo entries that are still owed, of each list. Entries without an action are passed, not undone. */
export async function newestOwed(sql: Sql, lists: readonly UndoList[]): Promise<readonly OwedEntries[]> {
  const { rows: most, bytes } = OWED_AT_ONCE;
  const runIds = lists.map(({ runId }) => runId);
  const marks = lists.map(({ since }) => since);
  const rows = await sql<(UndoColumns & { list: number; found: number })[]>`
    select list::int, ordinal::text, step_id, entry, action, inputs${asRead(sql)} as inputs, forward_idempotency_key, forward_trace, child_run_id,
      found::int
    from unnest(${runIds}::text[]::uuid[], ${marks}::int[]) with ordinality as asked (run_id, since, list)
    cross join lateral (
      select *, row_number() over newest as nth, count(*) over () as found, sum(octet_length(inputs::text)) over newest as bytes
      from (
        select * from undo where owner_run_id = asked.run_id and state = 'owed' and action is not null and entry > asked.since
        order by undo.ordinal desc limit ${most + 1}
      ) owed
      window newest as (order by owed.ordinal desc rows unbounded preceding)
    ) measured
    where nth = 1 or (nth <= ${most} and bytes <= ${bytes}) order by list, nth`;
  return lists.map((_, nth) => {
    const own = rows.filter(({ list }) => list === nth + 1);
    return { entries: own.map((row) => undoEntry(sql, row)), complete: own.length === (own[0]?.found ?? 0) };
  });
}

/**
 * Reads of undo lists. Those that are asked for in one turn of the event loop share a statement: many runs fail together, and each would have
 * one of its own.
 */
export class UndoReads {
  private readonly waiting: (UndoList & { resolve(owed: OwedEntries): void; reject(error: unknown): void })[] = [];

  constructor(private readonly sql: Sql) {}

  newestOwed(runId: RunId, since: number): Promise<OwedEntries> {
    return new Promise((resolve, reject) => {
      if (this.waiting.length === 0) setImmediate(() => this.readAll());
      this.waiting.push({ runId, since, resolve, reject });
    });
  }

  private readAll(): void {
    while (this.waiting.length > 0) void this.readGroup(this.waiting.splice(0, LISTS_AT_ONCE));
  }

  private async readGroup(group: typeof this.waiting): Promise<void> {
    try {
      const lists = await newestOwed(this.sql, group);
      for (const [nth, owed] of lists.entries()) group[nth]?.resolve(owed);
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
  }
}

function undoEntry(sql: Sql, row: UndoColumns): UndoEntry {
  return {
    ordinal: row.ordinal,
    stepId: row.step_id,
    entry: row.entry,
    action: row.action,
    inputs: readColumn(sql, row.inputs, `undo.inputs/${row.forward_idempotency_key}`) ?? undefined,
    forwardIdempotencyKey: row.forward_idempotency_key,
    forwardTrace: row.forward_trace ?? undefined,
    childRunId: row.child_run_id ?? undefined,
  };
}

/** The run that a start with this id or key made: a repeat is compared with it. */
export async function findStart(
  sql: Sql,
  runId: RunId | undefined,
  key: { readonly scope: string; readonly key: string } | undefined,
): Promise<StartedRow | undefined> {
  const [row] = await sql<StartedRow[]>`
    select r.id, r.workflow_id, r.version, r.definition_id, r.state, s.request_hash
    from runs r join run_starts s on s.run_id = r.id
    where r.id = coalesce(
      (select k.run_id from start_keys k where k.scope = ${key?.scope ?? null} and k.key = ${key ? hashOfKey(key.key) : null}), ${runId ?? null}::uuid)`;
  return row;
}

/** Whether the run that a start with this id or key made has been erased. */
export async function isStartErased(
  sql: Sql,
  runId: RunId | undefined,
  key: { readonly scope: string; readonly key: string } | undefined,
): Promise<boolean> {
  const rows = await sql`
    select from erased_runs where run_id = coalesce(
      (select k.run_id from start_keys k where k.scope = ${key?.scope ?? null} and k.key = ${key ? hashOfKey(key.key) : null}), ${runId ?? null}::uuid)`;
  return rows.length > 0;
}

export interface StartedRow {
  readonly id: RunId;
  readonly workflow_id: string;
  readonly version: number;
  readonly definition_id: string;
  readonly state: string;
  readonly request_hash: string;
}

/** The run that holds a business key. */
export interface Holder {
  readonly runId: string;
  /** Null: it was not started for a burst of starts. */
  readonly burstAt: Date | null;
  /** Undefined: it has ended, or is gone, and holds nothing any more. */
  readonly active: StartedRow | undefined;
}

/** Who holds a key is decided by the commit of a start (commit/general.ts); here it is looked up before. Undefined: no run has held it. */
export async function holderOf(
  sql: Sql,
  { scope, key }: { readonly scope: string; readonly key: string },
): Promise<Holder | undefined> {
  type Found = { run_id: string; burst_at: Date | null } & (StartedRow | { id: null });
  const [found] = await sql<Found[]>`
    select k.run_id, k.burst_at, r.id, r.workflow_id, r.version, r.definition_id, r.state, '' as request_hash
    from held_keys k left join runs r on r.id = k.run_id and r.business_key = ${key} and r.terminal_at is null
    where k.scope = ${scope} and k.key = ${hashOfKey(key)}`;
  return found && { runId: found.run_id, burstAt: found.burst_at, active: found.id === null ? undefined : found };
}

interface UndoColumns {
  readonly ordinal: string;
  readonly step_id: string;
  readonly entry: number;
  readonly action: string;
  readonly inputs: JsonObject | null;
  readonly forward_idempotency_key: string;
  readonly forward_trace: string | null;
  readonly child_run_id: RunId | null;
}

interface LoadedRow extends Omit<RunColumns, "inputs" | "started_at"> {
  readonly revision: Revision;
  readonly fence: string;
  readonly last_seq: number;
  readonly last_event_at: Date;
  readonly started_at: Date;
  /** The run that has the inputs: itself, or the first of its family. */
  readonly inputs_of: string;
  /** Null: they are kept. */
  readonly inputs: JsonObject | null;
  readonly inputs_bytes: number | null;
  /** With encryption on: the sealed hashes of the kept values of the scope, by name, and who holds them. */
  readonly names?: string | null;
  readonly holder?: string | null;
}
