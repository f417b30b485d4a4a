// Erases a run that has ended, with its children of any depth and all rows of them. One transaction writes the tombstones and deletes the row of every
// run of the family: from then on none of them exists for anyone. The other rows go in bounded pieces, and a call that was cut off is taken up by the
// next one, or by the pruner.
//
// Two rows of the run itself stay, with nothing in them: its idempotency key, which is a hash, and its start. Every start inserts such rows, so that
// one with the same key or id meets them in its own commit, and loses.
//
// Not erased: events that the run has published, which belong to those that take them, and are kept as `SAGA_EVENT_RETENTION_DAYS` says.
import type { Sql, TransactionSql } from "postgres";
import { isWithin, type RunId } from "../../../machines/index.js";
import { conflict, notFound } from "../../errors.js";
import { shardOf } from "../../ids.js";
import { Shares } from "../../work/shares.js";
import { channelOfColumn } from "../engine/run-channel.js";
import { hashedKey } from "../engine/start-keys.js";

/** Rows that one statement deletes. */
const ROWS = 5_000;
/** Runs of a family whose own rows one statement deletes. */
const FAMILY = 1_000;
/** Families that a node erases at a time, one of each actor. */
const PLACES = 2;
/** Runs whose other rows are deleted together. */
const RUNS = 200;

/** The tables of a run, and the column with its id. */
const ERASED_TABLES = [
  ["run_labels", "run_id"],
  ["run_variables", "run_id"],
  ["run_events", "run_id"],
  ["run_commands", "run_id"],
  ["signals", "run_id"],
  ["user_tasks", "run_id"],
  ["undo", "owner_run_id"],
  ["event_takes", "run_id"],
  ["event_waits", "run_id"],
  ["concurrency_tickets", "run_id"],
  ["rate_tickets", "run_id"],
  ["kept_scopes", "run_id"],
  ["kept_values", "holder"],
  ["kept_entries", "run_id"],
  ["forks", "origin_id"],
  ["wakes", "run_id"],
  ["suspects", "key"],
  ["held_keys", "run_id"],
] as const;

/** Why a bulk job was refused by a run that is erased: the reason may have had something of the run. */
const NO_REASON = "the run has been erased";

type Reach = Parameters<typeof isWithin>[0];

export interface ErasureRequest {
  /** Who erases it. */
  readonly actor: string;
  /** Whose runs the actor may erase. Others do not exist for it. */
  readonly reach: Reach;
  /** The bulk job that erases it. */
  readonly bulkId?: string;
  /** Called once the run is gone, whatever becomes of its last rows. Must not throw. */
  readonly onGone?: () => void;
}

export interface Owing {
  /** There is a RabbitMQ, which will take what runs owe to it. Without one nothing is owed to it: what is left from a time when there was is erased. */
  readonly hasBroker?: boolean;
}

interface Found {
  readonly tenantId: string | null;
  readonly workflowId: string;
  readonly parentRunId: string | null;
  readonly state: string;
  readonly ended: boolean;
  readonly keyHash: string | null;
}

export interface Erased {
  /** False: it had been erased before. */
  readonly changed: boolean;
  /** The bulk job that has erased it. */
  readonly bulkId: string | null;
}

export class Erasure {
  /** Erasing holds sessions that the node needs for its heartbeat. */
  private readonly places = new Shares(PLACES);

  constructor(
    private readonly sql: Sql,
    private readonly owing: Owing = {},
  ) {}

  /** Resolves when no row of the family is left. Throws 404, and 409 for a run that has not ended or owes something, and for a child. */
  erase(runId: RunId, request: ErasureRequest): Promise<Erased> {
    return this.places.run(request.actor, () => this.eraseNow(runId, request));
  }

  private async eraseNow(runId: RunId, request: ErasureRequest): Promise<Erased> {
    const changed = await this.sql.begin((sql) => bury(sql, runId, request, this.owing));
    if (changed) request.onGone?.();
    const bulkId = changed ? (request.bulkId ?? null) : await this.eraserOf(runId, request.reach);
    await this.finish(runId);
    return { changed, bulkId };
  }

  /** Takes up what was cut off. */
  async finishAll(): Promise<void> {
    const roots = await this.sql<{ id: RunId }[]>`select distinct root_run_id as id from erased_runs where owed`;
    for (const { id } of roots) await this.finish(id);
  }

  /** The bulk job that has erased the run. Throws 404 if the run was not erased, or is outside of the reach. */
  private async eraserOf(runId: RunId, reach: Reach): Promise<string | null> {
    const [tomb] = await this.sql<{ tenantId: string | null; workflowId: string; bulkId: string | null }[]>`
      select tenant_id as "tenantId", workflow_id as "workflowId", bulk_id as "bulkId"
      from erased_runs where run_id = ${runId} and root_run_id = ${runId}`;
    if (!tomb || !isWithin(reach, { ...tomb, tenantId: tomb.tenantId ?? undefined })) throw noRun(runId);
    return tomb.bulkId;
  }

  private async finish(root: RunId): Promise<void> {
    await this.deleteCommands(root);
    while (await this.deletePiece(root));
    await this.sql`update erased_runs set owed = false where run_id = ${root} and owed`;
  }

  /** Those that wait for runs of the family. There is no index by run: its shard is read, once for all of them (400 ms for each piece: measured). */
  private async deleteCommands(root: RunId): Promise<void> {
    await this.sql`
      delete from inbox where id = any(array(
        select i.id from inbox i where i.shard = ${shardOf(root)} and exists (
          select from erased_runs e where e.run_id = i.run_id and e.root_run_id = ${root})))`;
  }

  /** The rows of some runs of the family, and then the tombstones of those that are children. False: nothing is left but the root's tombstone. */
  private async deletePiece(root: RunId): Promise<boolean> {
    const runs = await this.sql<{ id: string }[]>`
      select run_id as id from erased_runs where root_run_id = ${root} and owed order by run_id = ${root}, run_id limit ${RUNS}`;
    const ids = arrayOf(runs.map(({ id }) => id));
    for (const [table, column] of ERASED_TABLES) await this.deleteAll(table, column, ids);
    await this.deleteAll("run_starts", "run_id", arrayOf(runs.flatMap(({ id }) => (id === root ? [] : [id]))));
    await this.forgetRefusals(ids);
    await this.sql`delete from erased_runs where run_id = any(${ids}::text::uuid[]) and run_id <> root_run_id`;
    return runs.length === RUNS;
  }

  /** Looked up run by run, as in retention.ts. */
  private async deleteAll(table: string, column: string, ids: string): Promise<void> {
    const rows = `select found.tableoid, found.ctid from unnest($1::text::uuid[]) old(id) cross join lateral (
      select t.tableoid, t.ctid from ${table} t where t.${column} = old.id limit ${ROWS}) found limit ${ROWS}`;
    const text = `delete from ${table} t using (${rows}) old where t.ctid = old.ctid and t.tableoid = old.tableoid`;
    // Retention may delete some of them at the same time: fewer than a whole slice do not say that none is left.
    while ((await this.sql.unsafe(text, [ids])).count > 0);
  }

  private async forgetRefusals(ids: string): Promise<void> {
    for (let count = 1; count > 0; )
      ({ count } = await this.sql`
        update bulk_targets set message = ${NO_REASON} where ctid = any(array(
          select told.ctid from unnest(${ids}::text::uuid[]) old(id) cross join lateral (
            select t.ctid from bulk_targets t
            where t.run_id = old.id and t.message is not null and t.message <> ${NO_REASON} limit ${ROWS}) told limit ${ROWS}))`);
  }
}

/** No run of the family is there any more, and the tombstones are. False: there is no such run. */
async function bury(
  sql: TransactionSql,
  runId: RunId,
  { actor, reach, bulkId }: ErasureRequest,
  { hasBroker = false }: Owing,
): Promise<boolean> {
  const [run] = await sql<Found[]>`
    select tenant_id as "tenantId", workflow_id as "workflowId", parent_run_id as "parentRunId", state,
      terminal_at is not null as ended,
      (select ${sql.unsafe(hashedKey("identity->>'idempotencyKey'"))} from run_starts where run_id = runs.id) as "keyHash"
    from runs where id = ${runId} for update`;
  if (!run) return false;
  const { tenantId, workflowId, keyHash } = run;
  if (!isWithin(reach, { workflowId, tenantId: tenantId ?? undefined })) throw noRun(runId);
  refuse(run);
  await sql`
    insert into erased_runs (run_id, root_run_id, tenant_id, workflow_id, key_hash, erased_by, bulk_id)
    values (${runId}, ${runId}, ${tenantId}, ${workflowId}, ${keyHash}, ${actor}, ${bulkId ?? null})`;
  // Retention that was cut off may have deleted it.
  await sql`
    insert into run_starts (run_id, identity, request_hash) values (${runId}, '{}', '')
    on conflict (run_id) do update set inputs = null, identity = excluded.identity, request_hash = excluded.request_hash`;
  await sql`delete from runs where id = ${runId}`;
  while (await buryChildren(sql, runId));
  if (!hasBroker) await deleteOutgoing(sql, runId);
  await refuseOwing(sql, runId);
  // Each node looks at those that are watched there, and finds them gone.
  await sql`
    select pg_notify(${sql.unsafe(channelOfColumn("run_id"))}, json_build_object('run_id', run_id)::text)
    from erased_runs where root_run_id = ${runId} and owed`;
  return true;
}

/** Some children of runs that are buried. A run of a family that has ended gets no more of them. False: there are none left. */
async function buryChildren(sql: TransactionSql, root: RunId): Promise<boolean> {
  const [found] = await sql<{ parents: number; running: string | null }[]>`
    with parents as materialized (
      select run_id from erased_runs where root_run_id = ${root} and owed and parent limit ${FAMILY}
    ), slice as materialized (
      select child.* from parents cross join lateral (
        select id, ctid as place, terminal_at is not null as ended from runs where parent_run_id = parents.run_id limit ${FAMILY} for update
      ) child limit ${FAMILY}
    ), gone as (
      delete from runs where ctid = any(array(select place from slice)) returning id, tenant_id, workflow_id
    ), buried as (
      insert into erased_runs (run_id, root_run_id, tenant_id, workflow_id, erased_by)
      select gone.id, ${root}, gone.tenant_id, gone.workflow_id, of.erased_by
      from gone cross join (select erased_by from erased_runs where run_id = ${root}) of
    ), looked as (
      update erased_runs set parent = false where run_id in (select run_id from parents) and not exists (select from slice)
    )
    select (select count(*)::int from parents) as parents, (select id from slice where not ended limit 1) as running`;
  if (found?.running)
    throw conflict(`a child of the run, ${found.running}, has not ended: the run is erased when all of them have`);
  return found !== undefined && found.parents > 0;
}

/** What it owes to others would never be sent. All rows of a family have one shard. */
async function refuseOwing(sql: TransactionSql, root: RunId): Promise<void> {
  const [owed] = await sql<{ posts: number; events: number }[]>`
    select
      (select count(*)::int from outbox o where o.shard = ${shardOf(root)} and exists (
        select from erased_runs e where e.run_id = o.run_id and e.root_run_id = ${root})) as posts,
      (select count(*)::int from outgoing_events o where o.shard = ${shardOf(root)} and exists (
        select from erased_runs e where e.run_id = o.run_id and e.root_run_id = ${root})) as events`;
  const { posts = 0, events = 0 } = owed ?? {};
  if (posts + events === 0) return;
  const webhooks = posts > 0 ? [`${plural(posts, "webhook")} (${WEBHOOKS_END})`] : [];
  const outgoing = events > 0 ? [`${plural(events, "event")} to RabbitMQ (${EVENTS_END})`] : [];
  const owes = [...webhooks, ...outgoing].join(", and ");
  throw conflict(`the run, or a child of it, still owes ${owes}: erase it when they have been delivered`);
}

const WEBHOOKS_END = "given up a day after it was emitted";
const EVENTS_END = "which must be reachable and take them; a service without AMQP_URL erases them with the run";
const plural = (count: number, noun: string) => `${count} ${noun}${count === 1 ? "" : "s"}`;

async function deleteOutgoing(sql: TransactionSql, root: RunId): Promise<void> {
  await sql`
    delete from outgoing_events o where o.shard = ${shardOf(root)} and exists (
      select from erased_runs e where e.run_id = o.run_id and e.root_run_id = ${root})`;
}

function refuse({ parentRunId, ended, state }: Found): void {
  if (parentRunId !== null) throw conflict(`the run belongs to the run ${parentRunId}: it is erased with its root`);
  if (!ended) throw conflict(`the run is ${state}: only a run that has ended is erased`);
}

const arrayOf = (ids: readonly string[]): string => `{${ids.join(",")}}`;

const noRun = (runId: RunId) => notFound(`there is no run ${runId}`);
