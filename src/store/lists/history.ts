// Reads of a run's audit rows, signals and undo list, as clients see them. Nothing here writes.
import { and, eq, type SQL, sql } from "drizzle-orm";
import type { SelectResultFields } from "drizzle-orm/query-builders/select.types";
import type { Sql } from "postgres";
import type { JsonObject, RunId } from "../../../machines/index.js";
import { eventId } from "../../ids.js";
import { query } from "../engine/query.js";
import { runEvents, signals, undo } from "../schema.js";
import { present } from "./item.js";
import { inRange, type Listing, type Page, type PageQuery, readAfter, readPage } from "./page.js";
import { OF_RUN, ofRun, type Reach, within } from "./reach.js";

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

function eventsOf(database: Sql, reach: Reach, runId: RunId): Listing<EventRow, EventItem> {
  const where = and(eq(runEvents.runId, runId), ofRun(reach, sql`${runId}`));
  return {
    name: "events",
    reach,
    key: [{ column: runEvents.seq, kind: "integer" }],
    rows: (range) => inRange(query(database).select(eventColumns).from(runEvents).$dynamic(), where, range),
    matching: { from: runEvents, where },
    item: (row) => present({ id: eventId(row.run_id, row.seq), ...row }) as EventItem,
    position: ({ seq }) => [String(seq)],
  };
}

export function listEvents(database: Sql, reach: Reach, runId: RunId, page: PageQuery): Promise<Page<JsonObject>> {
  return readPage(database, eventsOf(database, reach, runId), page);
}

const BATCH = { rows: 200, bytes: 1024 * 1024 };

/** The run's next audit rows after `seq`, a bounded batch of them; empty: there are none. */
export function eventsAfter(database: Sql, reach: Reach, runId: RunId, seq: number): Promise<readonly EventItem[]> {
  return readAfter(database, eventsOf(database, reach, runId), [String(seq)], BATCH);
}

export function listSignals(database: Sql, reach: Reach, runId: RunId, page: PageQuery): Promise<Page<JsonObject>> {
  const where = and(eq(signals.runId, runId), ofRun(reach, sql`${runId}`));
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
      reach,
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
 * The run's own entries in the order of completion: a rollback starts at their end. `ordinal` counts from 1. An entry that is still owed when
 * its run has ended was not needed if the run succeeded, and is abandoned otherwise. Of a root there follows, behind them, so that their
 * numbers stay, what the runs below it have left undone for good: what a child handed over is an entry of its own already. A page begins
 * behind the entry that the one before it ended with, whichever entries have come in between.
 */
export function listUndo(database: Sql, reach: Reach, runId: RunId, page: PageQuery): Promise<Page<JsonObject>> {
  const from = undoOfFamily(reach, runId);
  const entries = query(database)
    .select({
      of_child: sql<number>`of_child`.as("of_child"),
      ordinal: sql<string>`ordinal`.as("ordinal"),
      nth: sql<string>`nth`.as("nth"),
      step_id: sql<string>`step_id`.as("step_id"),
      action: sql<string | null>`action`.as("action"),
      child_run_id: sql<RunId | null>`child_run_id`.as("child_run_id"),
      state: sql<string>`state`.as("state"),
    })
    .from(from)
    .as("undo");
  return readPage(
    database,
    {
      name: "undo",
      reach,
      // 10,000 children are walked for each statement.
      inOnePiece: true,
      key: [
        { column: { name: "of_child" }, kind: "integer" },
        { column: undo.ordinal, kind: "integer" },
      ],
      rows: (range) => inRange(query(database).select().from(entries).$dynamic(), undefined, range),
      matching: { from },
      item: ({ of_child: _, ordinal: __, nth, ...entry }) => present({ ordinal: Number(nth), ...entry }),
      position: ({ of_child, ordinal }) => [String(of_child), String(ordinal)],
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

/**
 * Its alias and its ordinal have the names of the table, so that the position of a page refers to them. The family is found from parent to child
 * at each read: a copy in the commits of its ends would be written for all families, and hardly ever be read.
 */
function undoOfFamily(reach: Reach, runId: RunId): SQL {
  const isWithin = within(reach, OF_RUN) ?? sql`true`;
  const childIsWithin = within(reach, { tenant: "child.tenant_id", workflow: "child.workflow_id" }) ?? sql`true`;
  return sql`(
    with recursive family as (
      select id, state, terminal_at is not null as ended, parent_run_id is null as of_root from runs
      where id = ${runId} and ${isWithin}
      union all
      select child.id, child.state, child.terminal_at is not null, true
      from family join runs child on child.parent_run_id = family.id
      where family.of_root and ${childIsWithin}
    ), entries as (
      select own.*, (family.id <> ${runId})::int as of_child, case
          when own.state <> 'owed' or not family.ended then own.state
          when family.state = 'succeeded' then 'not_needed'
          else 'abandoned'
        end as became
      from family join undo own on own.owner_run_id = family.id
    )
    select of_child, ordinal, row_number() over (order by of_child, ordinal) as nth, step_id, action,
      case when of_child = 1 then coalesce(child_run_id, owner_run_id) else child_run_id end as child_run_id, became as state
    from entries where of_child = 0 or became in ('abandoned', 'failed')
  ) as undo`;
}
