// Reads of a run for its explanation: what its row says without its inputs, variables and outputs, which may be large. In SQL: a call,
// a frame or an item is read only in part.
import type { Sql } from "postgres";
import {
  decodeRun,
  type JsonObject,
  type RunColumns,
  type RunContext,
  type RunId,
  storedRun,
} from "../../../machines/index.js";
import { urgency } from "../engine/urgency.js";
import { type Reach, withinReach } from "./reach.js";

const OF_R = { tenant: "r.tenant_id", workflow: "r.workflow_id" };

export interface RunToExplain {
  readonly context: RunContext;
  readonly lastEventAt: number;
}

interface Row extends Omit<RunColumns, keyof typeof NOT_READ | "started_at"> {
  readonly started_at: Date;
  readonly last_event_at: Date;
}

/** Undefined: there is no such run. Throws UnreadableRecord for a record of a newer release. */
export async function runToExplain(sql: Sql, reach: Reach, runId: RunId): Promise<RunToExplain | undefined> {
  const [row] = await sql<Row[]>`
    select ${columns(sql)} from runs r join run_starts s on s.run_id = r.id
    where r.id = ${runId} and ${withinReach(sql, reach, OF_R)}`;
  return row && toExplain(row);
}

/** Runs below a run that are looked at for the order of its children. */
const MOST_BELOW = 20_000;

/**
 * The children that have not ended: first those that need a person, themselves or with what runs below them, then those that wait, then the
 * others; of equal ones the oldest first.
 */
export async function livingChildren(
  sql: Sql,
  reach: Reach,
  runId: RunId,
  limit: number,
): Promise<readonly RunToExplain[]> {
  const rows = await sql<Row[]>`
    with recursive below (child, id, paused_reason) as (
      select id, id, paused_reason from runs r
      where parent_run_id = ${runId} and terminal_at is null and ${withinReach(sql, reach, OF_R)}
      union all
      select b.child, r.id, r.paused_reason from below b join runs r on r.parent_run_id = b.id and r.terminal_at is null
      where ${withinReach(sql, reach, OF_R)}
    ), children as (
      select child, min(${urgency(sql, "b.paused_reason")}) as urgency
      from (select * from below limit ${MOST_BELOW}) b group by child
    )
    select ${columns(sql)} from children c join runs r on r.id = c.child join run_starts s on s.run_id = r.id
    order by c.urgency, r.started_at, r.id limit ${limit}`;
  return rows.map(toExplain);
}

/** When the run was last quarantined, or began to roll back: the time of its newest such audit row, if it is kept. */
export async function newestEventAt(sql: Sql, runId: RunId, type: string, kind?: string): Promise<number | undefined> {
  const [row] = await sql<{ recorded_at: Date }[]>`
    select recorded_at from run_events
    where run_id = ${runId} and event_type = ${type} and (${kind ?? null}::text is null or metadata->>'kind' = ${kind ?? null})
    order by seq desc limit 1`;
  return row?.recorded_at.getTime();
}

export async function taskWords(sql: Sql, taskId: string) {
  const [row] = await sql<{ assignee: string; title: string | null }[]>`
    select assignee, title from user_tasks where id = ${taskId}`;
  return row && { assignee: row.assignee, ...(row.title !== null && { title: row.title }) };
}

function columns(sql: Sql) {
  return sql`
    r.id, r.state, r.current_step, r.requires_manual_review, r.record, r.workflow_id, r.version, r.definition_id,
    r.parent_run_id, r.parent_branch_id, r.tenant_id, r.started_at, r.last_event_at, s.identity,
    (select json_build_object('phase', c.phase, 'stepId', c."stepId", 'service', c.service, 'action', c.action,
        'version', c.version, 'transport', c.transport, 'childRunId', c."childRunId")
      from json_to_record(r.call) as c(phase text, "stepId" text, service text, action text, version int, transport text,
        "childRunId" text)
      where r.call is not null) as call,
    (select json_agg(json_build_object('kind', f->'kind', 'dueAt', f->'dueAt')) from json_array_elements(r.frames) f) as frames`;
}

/** Inputs, variables and the rest of a call are not there: an explanation needs none of them. */
const NOT_READ = {
  ...{ inputs: {}, variables: null, inherited: null, gone: null, output: null, items: null },
  ...{ business_key: null, trigger_id: null, parent_step_id: null, parent_entry: null, root_run_id: null },
};

function toExplain(row: Row): RunToExplain {
  const stored = storedRun({
    ...{ ...NOT_READ, ...row, started_at: row.started_at.getTime() },
    call: row.call && withoutNulls(row.call),
    frames: row.frames?.map(withoutNulls) ?? null,
  });
  return { context: decodeRun(stored), lastEventAt: row.last_event_at.getTime() };
}

function withoutNulls(members: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null));
}
