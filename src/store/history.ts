// Reads of a run's audit rows, signals and undo list, as clients see them. Nothing here writes.
import { eq, type SQL, sql } from "drizzle-orm";
import type { SelectResultFields } from "drizzle-orm/query-builders/select.types";
import type { Sql } from "postgres";
import type { JsonObject, RunId } from "../../machines/index.js";
import { eventId } from "../ids.js";
import { present } from "./item.js";
import { inRange, type Listing, type Page, type PageQuery, readAfter, readPage } from "./page.js";
import { query } from "./query.js";
import { runEvents, runs, signals, undo } from "./schema.js";

/** An audit row as clients see it, over HTTP and in stream frames alike. */
export interface EventItem extends JsonObject {
  readonly id: string;
  readonly run_id: RunId;
  readonly attempt: number;
  readonly event_type: string;
  readonly from_state: string;
  readonly to_state: string;
  readonly actor: string;
  readonly recorded_at: string;
  readonly seq: number;
}

const eventColumns = {
  run_id: runEvents.runId,
  seq: runEvents.seq,
  recorded_at: runEvents.recordedAt,
  event_type: runEvents.eventType,
  step_id: runEvents.stepId,
  attempt: runEvents.attempt,
  from_state: runEvents.fromState,
  to_state: runEvents.toState,
  actor: runEvents.actor,
  metadata: runEvents.metadata,
};

type EventRow = SelectResultFields<typeof eventColumns>;

function eventsOf(database: Sql, runId: RunId): Listing<EventRow, EventItem> {
  const where = eq(runEvents.runId, runId);
  return {
    name: "events",
    key: [{ column: runEvents.seq, kind: "integer" }],
    rows: (range) => inRange(query(database).select(eventColumns).from(runEvents).$dynamic(), where, range),
    matching: { from: runEvents, where },
    item: (row) => present({ id: eventId(row.run_id, row.seq), ...row }) as EventItem,
    position: ({ seq }) => [String(seq)],
  };
}

export function listEvents(database: Sql, runId: RunId, page: PageQuery): Promise<Page<JsonObject>> {
  return readPage(database, eventsOf(database, runId), page);
}

const BATCH = { rows: 200, bytes: 1024 * 1024 };

/** The run's next audit rows after `seq`, a bounded batch of them; empty: there are none. */
export function eventsAfter(database: Sql, runId: RunId, seq: number): Promise<readonly EventItem[]> {
  return readAfter(database, eventsOf(database, runId), [String(seq)], BATCH);
}

export function listSignals(database: Sql, runId: RunId, page: PageQuery): Promise<Page<JsonObject>> {
  const where = eq(signals.runId, runId);
  const columns = {
    ordinal: signals.ordinal,
    id: signals.id,
    run_id: signals.runId,
    signal_name: signals.signalName,
    payload: signals.payload,
    received_at: signals.receivedAt,
    consumed_at: signals.consumedAt,
  };
  return readPage(
    database,
    {
      name: "signals",
      key: [{ column: signals.ordinal, kind: "integer" }],
      rows: (range) => inRange(query(database).select(columns).from(signals).$dynamic(), where, range),
      matching: { from: signals, where },
      item: ({ ordinal: _, ...signal }) => present(signal),
      position: ({ ordinal }) => [String(ordinal)],
    },
    page,
  );
}

/**
 * In the order of completion: a rollback starts at the end. `ordinal` counts from 1 in this run's list. An entry that is still
 * owed when the run has ended was not needed if the run succeeded, and is abandoned otherwise.
 */
export function listUndo(database: Sql, runId: RunId, page: PageQuery): Promise<Page<JsonObject>> {
  const where = eq(undo.ownerRunId, runId);
  return readPage(
    database,
    {
      name: "undo",
      key: [{ column: undo.ordinal, kind: "integer" }],
      rows: (range) =>
        inRange(query(database).select().from(numberedUndo(database, where)).$dynamic(), undefined, range),
      matching: { from: undo, where },
      item: ({ ordinal: _, nth, ...entry }) => present({ ordinal: Number(nth), ...entry }),
      position: ({ ordinal }) => [String(ordinal)],
    },
    page,
  );
}

/** The ordinal of the nth entry of the run's undo list, counted from 1. */
export async function undoOrdinal(database: Sql, runId: RunId, nth: number): Promise<string | undefined> {
  const [row] = await database<{ ordinal: string }[]>`
    select ordinal::text from undo where owner_run_id = ${runId} order by undo.ordinal offset ${nth - 1} limit 1`;
  return row?.ordinal;
}

/** It is named like the table, so that the position of a page refers to its column. */
function numberedUndo(database: Sql, where: SQL) {
  const ended = sql`case when ${runs.state} = 'succeeded' then 'not_needed' else 'abandoned' end`;
  return query(database)
    .select({
      ordinal: undo.ordinal,
      nth: sql<string>`row_number() over (order by ${undo.ordinal})`.as("nth"),
      step_id: undo.stepId,
      action: undo.action,
      child_run_id: undo.childRunId,
      state: sql<string>`case when ${undo.state} = 'owed' and ${runs.terminalAt} is not null then ${ended}
        else ${undo.state} end`.as("undo_state"),
    })
    .from(undo)
    .innerJoin(runs, eq(runs.id, undo.ownerRunId))
    .where(where)
    .as("undo");
}
