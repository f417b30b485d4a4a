// Reads of what belongs to a run: its audit rows, signals and undo list, as clients see them. Nothing here writes.
import type { Sql } from "postgres";
import type { JsonObject } from "../../machines/index.js";
import { eventId } from "../ids.js";
import { type Page, type PageQuery, parsedText, present, readPage, timeText } from "./page.js";

/** An audit row as clients see it, over HTTP and in stream frames alike. */
export interface EventItem extends JsonObject {
  readonly id: string;
  readonly run_id: string;
  readonly attempt: number;
  readonly event_type: string;
  readonly from_state: string;
  readonly to_state: string;
  readonly actor: string;
  readonly recorded_at: string;
  readonly seq: number;
}

interface EventRow {
  readonly run_id: string;
  readonly seq: number;
  readonly recorded_at: string;
  readonly event_type: string;
  readonly step_id: string | null;
  readonly attempt: number;
  readonly from_state: string;
  readonly to_state: string;
  readonly actor: string;
  readonly metadata: string | null;
}

const eventColumns = (sql: Sql) => sql`run_id, seq, ${timeText(sql, "recorded_at")}, event_type, step_id, attempt,
  from_state, to_state, actor, metadata::text as metadata`;

function eventItem(row: EventRow): EventItem {
  const { metadata, ...fields } = row;
  const rest = { ...fields, metadata: parsedText(metadata) };
  return present({ id: eventId(row.run_id, row.seq), ...rest }) as EventItem;
}

export function listEvents(sql: Sql, runId: string, page: PageQuery): Promise<Page<JsonObject>> {
  const where = sql`from run_events where run_id = ${runId}`;
  return readPage<EventRow, JsonObject>(
    sql,
    {
      name: "events",
      key: [{ column: "seq", kind: "integer" }],
      rows: ({ after, order, window }) =>
        sql`select ${eventColumns(sql)} ${where} and ${after} order by ${order} ${window}`,
      matching: where,
      item: (row) => eventItem(clean(row)),
      position: (row) => [String(row.seq)],
    },
    page,
  );
}

const PULL_ROWS = 200;
const PULL_BYTES = 1024 * 1024;

/** The run's next audit rows after `seq`, a bounded batch of them; empty: there are none. */
export async function eventsAfter(sql: Sql, runId: string, seq: number): Promise<readonly EventItem[]> {
  const rows = await sql<EventRow[]>`
    with batch as (
      select ${eventColumns(sql)} from run_events where run_id = ${runId} and seq > ${seq} order by seq limit ${PULL_ROWS}
    ), measured as (
      select batch.*, sum(octet_length(coalesce(metadata, ''))) over (order by seq) - octet_length(coalesce(metadata, ''))
        as bytes_before from batch
    )
    select run_id, seq, recorded_at, event_type, step_id, attempt, from_state, to_state, actor, metadata
    from measured where bytes_before < ${PULL_BYTES} order by seq`;
  return rows.map(eventItem);
}

interface SignalRow {
  readonly id: string;
  readonly ordinal: string;
  readonly run_id: string;
  readonly signal_name: string;
  readonly payload: string | null;
  readonly received_at: string;
  readonly consumed_at: string | null;
}

export function listSignals(sql: Sql, runId: string, page: PageQuery): Promise<Page<JsonObject>> {
  const where = sql`from signals where run_id = ${runId}`;
  return readPage<SignalRow, JsonObject>(
    sql,
    {
      name: "signals",
      key: [{ column: "ordinal", kind: "integer" }],
      rows: ({ after, order, window }) => sql`
        select id, ordinal, run_id, signal_name, payload::text as payload, ${timeText(sql, "received_at")},
          ${timeText(sql, "consumed_at")}
        ${where} and ${after} order by ${order} ${window}`,
      matching: where,
      item: ({ id, run_id, signal_name, payload, received_at, consumed_at }) =>
        present({ id, run_id, signal_name, payload: parsedText(payload), received_at, consumed_at }),
      position: (row) => [String(row.ordinal)],
    },
    page,
  );
}

interface UndoRow {
  readonly ordinal: string;
  readonly step_id: string;
  readonly action: string | null;
  readonly child_run_id: string | null;
  readonly state: string;
}

/** In the order of completion: a rollback goes through it from the end. */
export function listUndo(sql: Sql, runId: string, page: PageQuery): Promise<Page<JsonObject>> {
  const where = sql`from undo where owner_run_id = ${runId}`;
  return readPage<UndoRow, JsonObject>(
    sql,
    {
      name: "undo",
      key: [{ column: "ordinal", kind: "integer" }],
      rows: ({ after, order, window }) =>
        sql`select ordinal, step_id, action, child_run_id, state ${where} and ${after} order by ${order} ${window}`,
      matching: where,
      item: ({ ordinal, step_id, action, child_run_id, state }) =>
        present({ ordinal: Number(ordinal), step_id, action, child_run_id, state }),
      position: (row) => [String(row.ordinal)],
    },
    page,
  );
}

/** Without the columns that the page reader added. */
function clean<Row extends object>(row: Row): Row {
  return Object.fromEntries(Object.entries(row).filter(([name]) => !name.startsWith("_"))) as Row;
}
