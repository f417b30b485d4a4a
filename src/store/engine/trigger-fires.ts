// Fires of triggers. A fire is decided once, by the row that is inserted under its id; until its run is durable the row owes the run
// (`due_at`). Nothing here starts a run.
import { and, eq, sql } from "drizzle-orm";
import type { Sql } from "postgres";
import type { JsonObject, RunId } from "../../../machines/index.js";
import { present } from "../lists/item.js";
import { inRange, type Page, type PageQuery, readPage } from "../lists/page.js";
import { type Reach, within } from "../lists/reach.js";
import { OF_TRIGGER, type TriggerRow } from "../lists/triggers.js";
import { triggerFires } from "../schema.js";
import { asRead, readableRows, readColumn, sealedText } from "../sealed/sealing.js";
import { query } from "./query.js";

/** Newest first. */
export function listFires(database: Sql, reach: Reach, triggerId: string, page: PageQuery): Promise<Page<JsonObject>> {
  const isWithin = within(reach, OF_TRIGGER);
  const ofTrigger = isWithin && sql`(select true from triggers where triggers.id = ${triggerId} and ${isWithin})`;
  const where = and(eq(triggerFires.triggerId, triggerId), ofTrigger);
  const { id, triggerId: trigger_id, workflowId: workflow_id, scheduledAt: scheduled_at } = triggerFires;
  const { firedAt: fired_at, resultingRunId: resulting_run_id, error, backfilled } = triggerFires;
  const shown = { id, trigger_id, workflow_id, scheduled_at, fired_at, resulting_run_id, error, backfilled };
  return readPage(
    database,
    {
      name: "trigger_fires",
      reach,
      descending: true,
      key: [
        { column: triggerFires.firedAt, kind: "time" },
        { column: triggerFires.id, kind: "uuid" },
      ],
      rows: (range) => inRange(query(database).select(shown).from(triggerFires).$dynamic(), where, range),
      matching: { from: triggerFires, where },
      item: ({ backfilled, ...fire }) => present({ ...fire, backfilled: backfilled || undefined }),
      position: (fire) => [fire.fired_at.toISOString(), fire.id],
    },
    page,
  );
}

/** A fire that is decided. With `inputs` it owes a run, without it has ended with its `error`. */
export interface NewFire {
  readonly id: string;
  readonly scheduledAt: Date;
  readonly firedAt: Date;
  readonly inputs?: JsonObject;
  readonly error?: string;
  /** The hash of what a fire under an idempotency key asked for. */
  readonly requestHash?: string;
}

/** A fire that owes a run. */
export interface OwedFire {
  readonly id: string;
  readonly triggerId: string;
  readonly inputs: JsonObject;
  /** Its run is not started while another one of the trigger goes on. */
  readonly inTurn?: boolean;
}

type FiringTrigger = Pick<TriggerRow, "id" | "workflowId" | "tenantId">;

const inputsText = (database: Sql, { tenantId }: FiringTrigger, id: string, inputs: JsonObject) =>
  sealedText(database, tenantId ?? undefined, inputs, `trigger_fires.inputs/${id}`);

/** The time that a node has to start the run before another one does. */
const LEASE_SECONDS = 10;

/**
 * Decides fires, each once; resolves with those that are new and owe a run. With `move` the trigger goes on to its next tick in the same
 * statement; nothing is written if it is no longer at the tick that the fires are for.
 */
export async function decideFires(
  database: Sql,
  trigger: FiringTrigger,
  fires: readonly NewFire[],
  move?: { readonly from: Date; readonly to: Date | null; readonly fired: boolean },
): Promise<readonly OwedFire[]> {
  const rows = await Promise.all(
    fires.map(async ({ id, scheduledAt, firedAt, inputs, error, requestHash }) => ({
      ...{ id, scheduled_at: scheduledAt, fired_at: firedAt, error, request_hash: requestHash },
      inputs: inputs && (await inputsText(database, trigger, id, inputs)),
    })),
  );
  const added = await database<{ id: string; inputs: JsonObject | null }[]>`
    with moved as (
      update triggers set next_fire_at = ${move?.to ?? null},
        last_fired_at = case when ${move?.fired ?? false} then ${fires.at(-1)?.firedAt ?? null} else last_fired_at end
      where ${move !== undefined} and id = ${trigger.id} and enabled and next_fire_at = ${move?.from ?? null}
      returning id
    )
    insert into trigger_fires (id, trigger_id, workflow_id, scheduled_at, fired_at, error, request_hash, inputs, due_at)
    select fire.id, ${trigger.id}, ${trigger.workflowId}, fire.scheduled_at, fire.fired_at, fire.error, fire.request_hash,
      fire.inputs::json, case when fire.inputs is not null then now() + make_interval(secs => ${LEASE_SECONDS}) end
    from json_to_recordset(${JSON.stringify(rows)}::text::json)
      as fire (id uuid, scheduled_at timestamptz, fired_at timestamptz, error text, request_hash text, inputs text)
    where ${move === undefined} or exists (select from moved)
    on conflict (id) do nothing returning id, inputs`;
  return added.flatMap(({ id, inputs }) => (inputs ? [{ id, triggerId: trigger.id, inputs }] : []));
}

/** Leases fires that still owe their run, of whichever node. Of those that a trigger owes in turn, it leases the one of the earliest tick. */
export async function leaseFires(database: Sql, limit: number): Promise<readonly OwedFire[]> {
  const rows = await database<OwedFire[]>`
    update trigger_fires set due_at = now() + make_interval(secs => ${LEASE_SECONDS})
    where id in (
      select id from trigger_fires where due_at <= now() and (not in_turn or id in (
        select distinct on (trigger_id) id from trigger_fires where due_at is not null and in_turn order by trigger_id, scheduled_at, id
      ))
      order by due_at limit ${limit} for update skip locked
    )
    returning id, trigger_id as "triggerId", inputs${asRead(database)} as inputs, in_turn as "inTurn"`;
  // One that cannot be read stays owed: this node may not have its key yet.
  return readableRows(database, rows, (fire) => ({
    ...fire,
    inputs: readColumn(database, fire.inputs, `trigger_fires.inputs/${fire.id}`),
  }));
}

/** How often a fire looks whether its turn has come. */
const TURN_SECONDS = 2;

/** The fire stays owed, because a run of its trigger goes on. */
export async function awaitTurn(database: Sql, id: string): Promise<void> {
  await database`
    update trigger_fires set due_at = now() + make_interval(secs => ${TURN_SECONDS}) where id = ${id} and due_at is not null`;
}

/** A tick of a past range, to be fired. `id`: that of the fire of the tick when it was due. */
export interface PastTick {
  readonly id: string;
  readonly scheduledAt: Date;
  readonly inputs: JsonObject;
}

/** Of these fires the ids of those that have started a run, or owe one. */
export async function firedAmong(database: Sql, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const rows = await database<{ id: string }[]>`
    select id from trigger_fires where id = any(${`{${ids.join(",")}}`}::text::uuid[])
      and (resulting_run_id is not null or due_at is not null)`;
  return new Set(rows.map(({ id }) => id));
}

/**
 * Decides fires of past ticks, all or none; resolves with the ids of those that are new, which owe a run from now on. A tick that was skipped or missed, or
 * whose fire failed, has a row that started no run: it is fired under that row.
 */
export async function backfillFires(
  database: Sql,
  trigger: FiringTrigger,
  ticks: readonly PastTick[],
  { firedAt, inTurn }: { readonly firedAt: Date; readonly inTurn: boolean },
): Promise<ReadonlySet<string>> {
  const rows = await Promise.all(
    ticks.map(async ({ id, scheduledAt, inputs }) => ({
      ...{ id, scheduled_at: scheduledAt, inputs: await inputsText(database, trigger, id, inputs) },
    })),
  );
  const added = await database<{ id: string }[]>`
    insert into trigger_fires (id, trigger_id, workflow_id, scheduled_at, fired_at, inputs, due_at, backfilled, in_turn)
    select tick.id, ${trigger.id}, ${trigger.workflowId}, tick.scheduled_at, ${firedAt}, tick.inputs::json, now(), true, ${inTurn}
    from json_to_recordset(${JSON.stringify(rows)}::text::json) as tick (id uuid, scheduled_at timestamptz, inputs text)
    order by tick.scheduled_at
    on conflict (id) do update set workflow_id = excluded.workflow_id, fired_at = excluded.fired_at, inputs = excluded.inputs,
      due_at = excluded.due_at, error = null, backfilled = true, in_turn = excluded.in_turn
    where trigger_fires.resulting_run_id is null and trigger_fires.due_at is null
    returning id`;
  return new Set(added.map(({ id }) => id));
}

/** Nothing is owed for the fire any more. An ended fire keeps how it ended. */
export async function settleFire(
  database: Sql,
  { id, triggerId }: OwedFire,
  outcome: { readonly runId: RunId } | { readonly error: string },
): Promise<void> {
  const [runId, error] = "runId" in outcome ? [outcome.runId, null] : [null, outcome.error];
  await database`
    with settled as (
      update trigger_fires set resulting_run_id = ${runId}, error = ${error}, inputs = null, due_at = null
      where id = ${id} and due_at is not null returning id
    )
    update triggers set failing = ${error !== null} where id = ${triggerId} and exists (select from settled)`;
}

export interface DecidedFire {
  /** Once it is durable. */
  readonly runId: RunId | null;
  readonly requestHash: string | null;
  /** The inputs of the run that the fire still owes. */
  readonly owed: JsonObject | null;
}

export async function decidedFire(database: Sql, id: string): Promise<DecidedFire | undefined> {
  const { resultingRunId: runId, requestHash, inputs: owed } = triggerFires;
  const [row] = await query(database)
    .select({ runId, requestHash, owed })
    .from(triggerFires)
    .where(eq(triggerFires.id, id));
  return row as DecidedFire | undefined;
}

/** Runs that are looked at for an unfinished one: with `skip` there is one at most, beside those that were fired by hand. */
const RECENT_RUNS = 20;

/** An unfinished run of the trigger, other than this one. */
export async function unfinishedRun(database: Sql, triggerId: string, but: RunId): Promise<string | undefined> {
  const [row] = await database<{ id: string }[]>`
    select id from (
      select id, terminal_at from runs where trigger_id = ${triggerId} order by started_at desc, id desc limit ${RECENT_RUNS}
    ) recent where terminal_at is null and id <> ${but} limit 1`;
  return row?.id;
}

/**
 * The unfinished run of an earlier fire, or the fire's id if the run is only owed. The trigger's own fires are not read: there is one for every tick
 * that was skipped since. `offset 0` keeps the planner to the index of owed fires: before the first analysis it would read them all.
 */
export async function unfinishedFire(database: Sql, triggerId: string): Promise<string | undefined> {
  const [row] = await database<{ id: string }[]>`
    select id from (
      select id, terminal_at from runs where trigger_id = ${triggerId} order by started_at desc, id desc limit ${RECENT_RUNS}
    ) recent where terminal_at is null
    union all
    select id from (select id, trigger_id from trigger_fires where due_at is not null offset 0) owed where trigger_id = ${triggerId}
    limit 1`;
  return row?.id;
}
