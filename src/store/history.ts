// Reads of what belongs to a run: its audit rows, signals, undo list and user tasks, as clients see them. Nothing here
// writes.
import type { Fragment, Sql } from "postgres";
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

export interface TaskFilter {
  readonly runId?: string;
  readonly assignee?: string;
  readonly status?: "open" | "submitted" | "expired";
}

interface TaskRow {
  readonly id: string;
  readonly run_id: string;
  readonly step_id: string;
  readonly assignee: string;
  readonly due_at: string | null;
  readonly form_schema: string | null;
  readonly submitted_at: string | null;
  readonly submitted_by: string | null;
  readonly result: string | null;
}

export function listUserTasks(sql: Sql, filter: TaskFilter, page: PageQuery): Promise<Page<JsonObject>> {
  const where = sql`from user_tasks t left join runs r on r.id = t.run_id where ${taskConditions(sql, filter)}`;
  return readPage<TaskRow, JsonObject>(
    sql,
    {
      name: "user_tasks",
      key: [{ column: "id", kind: "uuid" }],
      rows: ({ after, order, window }) => sql`
        select * from (
          select t.id, t.run_id, t.step_id, t.assignee, ${timeText(sql, "t.due_at")}, t.form_schema::text as form_schema,
            ${timeText(sql, "t.submitted_at")}, t.submitted_by, t.result::text as result
          ${where}
        ) tasks where ${after} order by ${order} ${window}`,
      matching: where,
      item: ({ form_schema, result, ...task }) =>
        present({ ...clean(task), form_schema: parsedText(form_schema), result: parsedText(result) }),
      position: (row) => [row.id],
    },
    page,
  );
}

function taskConditions(sql: Sql, { runId, assignee, status }: TaskFilter): Fragment {
  const all: Fragment[] = [];
  if (assignee !== undefined) all.push(sql`t.assignee = ${assignee}`);
  if (runId !== undefined) all.push(sql`t.run_id in (${family(sql, runId)})`);
  const lapsed = sql`(coalesce(t.due_at <= now(), false) or r.terminal_at is not null)`;
  if (status === "submitted") all.push(sql`t.submitted_at is not null`);
  if (status === "expired") all.push(sql`t.submitted_at is null and ${lapsed}`);
  if (status === "open") all.push(sql`t.submitted_at is null and not ${lapsed}`);
  return all.reduce((left, right) => sql`${left} and ${right}`, sql`true`);
}

/** The run with its branches and items, not its sub-sagas: those are addressed by their own ids. */
function family(sql: Sql, runId: string): Fragment {
  return sql`
    with recursive family(id) as (
      select ${runId}::uuid
      union all
      select child.id from runs child join family on child.parent_run_id = family.id where child.parent_branch_id is not null
    ) select id from family`;
}

/** Without the columns that the page reader added. */
function clean<Row extends object>(row: Row): Row {
  return Object.fromEntries(Object.entries(row).filter(([name]) => !name.startsWith("_"))) as Row;
}
