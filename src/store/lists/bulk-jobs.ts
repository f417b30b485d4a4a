// Bulk jobs and their targets. The targets of a job are the runs that match when it is created, written in the same statement; a target is
// settled once, and its job counts it in that statement. Nothing here acts on a run.
import { and, eq, type SQL, sql } from "drizzle-orm";
import type { ISql, PendingQuery, Row, Sql } from "postgres";
import type { JsonObject, RunId } from "../../../machines/index.js";
import { type ShardId, shardOf } from "../../ids.js";
import { query } from "../engine/query.js";
import { bulkJobs, type StoredReach } from "../schema.js";
import { asRead, readableRows, readColumn, sealedText } from "../sealed/sealing.js";
import { present } from "./item.js";
import { idsInRange, matchingRuns, type RunFilter } from "./matching-runs.js";
import { inRange, type Page, type PageQuery, readPage } from "./page.js";
import { OF_JOB, type Reach, within } from "./reach.js";

export type BulkState = "running" | "done" | "stopped";

export interface BulkProgress {
  readonly id: string;
  readonly state: BulkState;
  readonly done: number;
  readonly refused: number;
}

export interface BulkJob extends BulkProgress {
  readonly action: string;
  readonly filter: JsonObject;
  readonly matched: number;
  readonly startedAt: Date;
  readonly endedAt: Date | null;
  readonly tenantId: string | null;
  /** Whose runs its acts may reach. */
  readonly reach: StoredReach;
  readonly requestHash: string;
}

const columns = {
  id: bulkJobs.id,
  action: bulkJobs.action,
  filter: bulkJobs.filter,
  state: bulkJobs.state,
  matched: bulkJobs.matched,
  done: bulkJobs.done,
  refused: bulkJobs.refused,
  startedAt: bulkJobs.startedAt,
  endedAt: bulkJobs.endedAt,
  tenantId: bulkJobs.tenantId,
  reach: bulkJobs.reach,
  requestHash: bulkJobs.requestHash,
};

export interface NewBulkJob {
  readonly id: string;
  readonly action: string;
  /** The filter as it was posted. */
  readonly filter: JsonObject;
  readonly params: JsonObject;
  readonly actor: string;
  readonly tenantId?: string;
  readonly reach: StoredReach;
  readonly requestHash: string;
}

/**
 * Creates the job with its targets, the oldest runs first: those within its reach, whatever the filter says. Resolves with how many runs match, up to
 * one more than `limit`: then there is no job. A job that exists stays as it is.
 */
export async function createJob(
  database: Sql,
  reach: Reach,
  job: NewBulkJob,
  filter: RunFilter,
  limit: number,
): Promise<number> {
  const matching = await matchingRuns(database, reach, filter);
  const { id, action, actor, tenantId = null, requestHash } = job;
  const order = sql`started_at, id`;
  const ids = idsInRange(matching, { after: undefined, order, limit: limit + 1, offset: 0 });
  const filterText = JSON.stringify(job.filter);
  const paramsText = await sealedText(database, job.tenantId, job.params, `bulk_jobs.params/${id}`);
  const [row] = await query(database).execute<{ matched: number }>(sql`
    with found as materialized (select row_number() over () as nth, id from (${ids}) ids
    ), counted as materialized (select count(*)::int as matched from found
    ), job as (
      insert into bulk_jobs (id, shard, action, filter, params, state, matched, ended_at, actor, tenant_id, reach, request_hash)
      select ${id}::uuid, ${shardOf(id)}::int2, ${action}::text, ${filterText}::text::json, ${paramsText}::text::json,
        case when matched = 0 then 'done' else 'running' end, matched, case when matched = 0 then now() end,
        ${actor}::text, ${tenantId}::uuid, ${JSON.stringify(job.reach)}::text::json, ${requestHash}::text
      from counted where matched <= ${limit}::int4 on conflict (id) do nothing returning id
    ), targets as (
      insert into bulk_targets (bulk_id, nth, run_id) select job.id, found.nth, found.id from job, found
    )
    select matched from counted`);
  return row?.matched ?? 0;
}

export async function jobById(database: Sql, id: string): Promise<BulkJob | undefined> {
  const [row] = await query(database).select(columns).from(bulkJobs).where(eq(bulkJobs.id, id));
  return row;
}

/** Of these tenants, and acting on no more workflows than these. Undefined: every job is. */
function jobWithin(reach: Reach): SQL | undefined {
  const { workflows } = reach;
  const narrowing = sql`${bulkJobs.reach}->'workflows'`;
  const outside =
    workflows &&
    sql`select from json_array_elements_text(${narrowing}) named
      where not (named = any(${sql.param([...workflows.ids])}::text[]) and right(named, 1) <> '*'
        or case right(named, 1) when '*' then left(named, -1) else named end ^@ any(${sql.param([...workflows.prefixes])}::text[]))`;
  return and(within(reach, OF_JOB), outside && sql`${narrowing} is not null and not exists (${outside})`);
}

/** A job that a client reads. Undefined: there is none within the reach. */
export async function readJob(database: Sql, reach: Reach, id: string): Promise<BulkJob | undefined> {
  const where = and(eq(bulkJobs.id, id), jobWithin(reach));
  const [row] = await query(database).select(columns).from(bulkJobs).where(where);
  return row;
}

/** Newest first. */
export function listJobs(database: Sql, reach: Reach, page: PageQuery): Promise<Page<JsonObject>> {
  const where = jobWithin(reach);
  return readPage(
    database,
    {
      name: "bulk_jobs",
      reach,
      descending: true,
      key: [
        { column: bulkJobs.startedAt, kind: "time" },
        { column: bulkJobs.id, kind: "uuid" },
      ],
      rows: (range) => inRange(query(database).select(columns).from(bulkJobs).$dynamic(), where, range),
      matching: { from: bulkJobs, where },
      item: jobItem,
      position: ({ startedAt, id }) => [startedAt.toISOString(), id],
    },
    page,
  );
}

/** The job as clients see it, without its refusals. */
export function jobItem({
  id,
  action,
  filter,
  state,
  matched,
  done,
  refused,
  startedAt,
  endedAt,
  tenantId,
}: BulkJob): JsonObject {
  const counts = { matched, done, refused };
  const about = { bulk_id: id, action, filter, state, tenant_id: tenantId };
  return present({ ...about, ...counts, started_at: startedAt, ended_at: endedAt });
}

/** The refusals in the order of the targets. Who may see the job may see them. */
export async function refusalsOf(database: Sql, id: string, limit: number): Promise<readonly JsonObject[]> {
  return database<JsonObject[]>`
    select run_id, message from bulk_targets where bulk_id = ${id} and state = 'refused' order by nth limit ${limit}`;
}

/** What a stop or a resume has changed. */
export interface JobChange {
  readonly state: BulkState;
  readonly changed: boolean;
}

/** What a stop has changed. Undefined: there is no such job. */
export function stopJob(database: Sql, id: string, commandId?: string): Promise<JobChange | undefined> {
  const stopped = database`
    update bulk_jobs set state = 'stopped', ended_at = now()
    where id = ${id} and state = 'running' and not exists (select from first) returning state`;
  return changeJob(database, id, commandId, stopped);
}

/**
 * The credential of this actor was revoked: its jobs, those of its sessions included, begin no more acts, and are not resumed. Resolves with how many
 * were running.
 */
export async function revokeJobsOf(database: ISql, actor: string): Promise<number> {
  const [row] = await database<{ stopped: number }[]>`
    with found as materialized (select id, state from bulk_jobs where actor = ${actor} and state <> 'done' and not revoked for update
    ), revoked as (
      update bulk_jobs j set revoked = true, state = 'stopped', ended_at = coalesce(j.ended_at, now())
      from found where j.id = found.id returning found.state
    )
    select count(*) filter (where state = 'running')::int as stopped from revoked`;
  return row?.stopped ?? 0;
}

/** The job goes on with the targets that are left. What a resume has changed. Undefined: there is no such job. */
export function resumeJob(database: Sql, id: string, commandId?: string): Promise<JobChange | undefined> {
  const resumed = database`
    update bulk_jobs set state = case when done + refused = matched then 'done' else 'running' end,
      ended_at = case when done + refused = matched then ended_at end
    where id = ${id} and state = 'stopped' and not revoked and not exists (select from first) returning state`;
  return changeJob(database, id, commandId, resumed);
}

/**
 * Changes the job once for each command: its answer is recorded in the same statement, and a repeat gets that one, `first`. Commands of one job come one
 * after the other, as they lock its row first.
 */
async function changeJob(
  database: Sql,
  id: string,
  commandId: string | undefined,
  update: PendingQuery<Row[]>,
): Promise<JobChange | undefined> {
  const command = commandId ?? null;
  const recorded = database`select answer from run_commands where run_id = ${id} and command_id = ${command}`;
  return database.begin(async (sql) => {
    await sql`select from bulk_jobs where id = ${id} for update`;
    const [row] = await sql<{ answer: JobChange }[]>`
      with first as (${recorded}),
      changed as (${update}),
      answered as (
        select json_build_object('state', coalesce((select state from changed), state), 'changed', exists (select from changed)) as answer
        from bulk_jobs where id = ${id}
      ),
      kept as (
        insert into run_commands (run_id, command_id, answer, keep, at)
        select ${id}, ${command}::uuid, answer, false, now() from answered
        where ${command}::uuid is not null and not exists (select from first)
      )
      select coalesce((select answer from first), answer) as answer from answered`;
    return row?.answer;
  });
}

/** The progress of those jobs that exist. */
export async function progressOf(database: Sql, ids: readonly string[]): Promise<readonly BulkProgress[]> {
  return database<BulkProgress[]>`
    select id, state, done, refused from bulk_jobs where id = any(${`{${ids.join(",")}}`}::text::uuid[])`;
}

/** A job as its driver needs it. */
export interface RunningJob {
  readonly id: string;
  readonly action: string;
  readonly params: JsonObject;
  readonly actor: string;
  /** Whose runs its acts may reach. */
  readonly reach: StoredReach;
}

/**
 * The running jobs of these shards, oldest first. A node that had not heard yet that a key was revoked may have created one for it: it is stopped
 * here, before it acts.
 */
export async function runningJobs(
  database: Sql,
  shards: readonly ShardId[],
  limit: number,
): Promise<readonly RunningJob[]> {
  const own = `{${shards.join(",")}}`;
  const jobs = await database<RunningJob[]>`
    with revoked as (
      update bulk_jobs set revoked = true, state = 'stopped', ended_at = now()
      where state = 'running' and shard = any(${own}::text::int2[]) and actor like 'key:%' and exists (
        select from api_keys k where k.id = substr(bulk_jobs.actor, 5) and k.revoked_at is not null)
      returning id
    )
    select id, action, params${asRead(database)} as params, actor, reach from bulk_jobs
    where state = 'running' and shard = any(${own}::text::int2[]) and id not in (select id from revoked)
    order by started_at limit ${limit}`;
  // One whose parameters cannot be read acts on nothing.
  return readableRows(database, jobs, (job) => ({
    ...job,
    params: readColumn(database, job.params, `bulk_jobs.params/${job.id}`),
  }));
}

export interface Target {
  readonly nth: number;
  readonly runId: RunId;
}

/** The next targets that nothing is known of. Empty, too, when the job is no longer running. */
export async function openTargets(database: Sql, id: string, after: number, limit: number): Promise<readonly Target[]> {
  return database<Target[]>`
    select nth, run_id as "runId" from bulk_targets
    where bulk_id = ${id} and state = 'open' and nth > ${after}
      and exists (select from bulk_jobs where id = ${id} and state = 'running')
    order by nth limit ${limit}`;
}

export interface Outcome {
  /** Why it was refused. Absent: it is done. */
  readonly message?: string;
  /** It was as the act wants it. It counts as done, but the job has not changed it. */
  readonly unchanged?: boolean;
}

export interface Settled extends Outcome {
  readonly nth: number;
}

/**
 * Settles targets, each once, whichever nodes do; the job counts them in the same statement, and is done with its last one. A job that was stopped
 * counts what was on its way. Resolves with the state of the job; undefined if it is gone. Targets are looked up one by one: every other statement was
 * planned as a reading of all targets of the job, of which the planner knows nothing: 120 to 650 ms for 50 of 100,000.
 */
export async function settleTargets(
  database: Sql,
  id: string,
  outcomes: readonly Settled[],
): Promise<BulkState | undefined> {
  const messages = Object.fromEntries(
    outcomes.flatMap(({ nth, message }) => (message === undefined ? [] : [[nth, message]])),
  );
  const unchanged = outcomes.flatMap((outcome) => (outcome.unchanged ? [outcome.nth] : []));
  const [row] = await database<{ state: BulkState }[]>`
    with refusals as materialized (select ${JSON.stringify(messages)}::text::jsonb as messages
    ), settled as (
      update bulk_targets set message = (select messages from refusals)->>nth::text,
        state = case when (select messages from refusals)->>nth::text is not null then 'refused'
          when nth = any(${`{${unchanged.join(",")}}`}::text::int4[]) then 'unchanged' else 'done' end
      where state = 'open' and ctid = any(array(
        select found.ctid from unnest(${`{${outcomes.map(({ nth }) => nth).join(",")}}`}::text::int4[]) as o (nth)
        cross join lateral (
          select t.ctid from bulk_targets t where t.bulk_id = ${id} and t.nth = o.nth limit 1
        ) found))
      returning state
    ), counted as materialized (
      select count(*) filter (where state <> 'refused')::int as done, count(*) filter (where state = 'refused')::int as refused
      from settled
    )
    update bulk_jobs j set done = j.done + c.done, refused = j.refused + c.refused,
      state = case when j.state = 'running' and j.done + c.done + j.refused + c.refused = j.matched then 'done' else j.state end,
      ended_at = case when j.state = 'running' and j.done + c.done + j.refused + c.refused = j.matched then now() else j.ended_at end
    from counted c where j.id = ${id} returning j.state`;
  return row?.state;
}
