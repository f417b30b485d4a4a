// Triggers: what starts runs besides clients. Their fires are in trigger-fires.ts. Nothing here knows a schedule.
import { and, eq, isNull, sql } from "drizzle-orm";
import type { Sql } from "postgres";
import { type JsonObject, scheduleInWords, type TriggerType } from "../../../machines/index.js";
import { type ShardId, shardOf } from "../../ids.js";
import { query } from "../engine/query.js";
import { triggers } from "../schema.js";
import { present } from "./item.js";
import { inRange, type Page, type PageQuery, readPage } from "./page.js";
import { type Reach, type ReachColumns, within } from "./reach.js";

export interface TriggerRow {
  readonly id: string;
  readonly triggerType: string;
  readonly workflowId: string;
  readonly version: number | null;
  readonly config: JsonObject;
  readonly enabled: boolean;
  readonly tenantId: string | null;
  readonly createdAt: Date;
  readonly createdBy: string | null;
  readonly nextFireAt: Date | null;
  readonly lastFiredAt: Date | null;
  readonly requestHash: string | null;
  /** When it was disabled, by whom, and why. Null of an enabled trigger, and of one that was created disabled. */
  readonly pausedAt: Date | null;
  readonly pausedBy: string | null;
  readonly pausedReason: string | null;
}

const columns = {
  id: triggers.id,
  triggerType: triggers.triggerType,
  workflowId: triggers.workflowId,
  version: triggers.version,
  config: triggers.config,
  enabled: triggers.enabled,
  tenantId: triggers.tenantId,
  createdAt: triggers.createdAt,
  createdBy: triggers.createdBy,
  nextFireAt: triggers.nextFireAt,
  lastFiredAt: triggers.lastFiredAt,
  requestHash: triggers.requestHash,
  pausedAt: triggers.pausedAt,
  pausedBy: triggers.pausedBy,
  pausedReason: triggers.pausedReason,
};

/** The trigger as clients see it. */
export function triggerItem(row: TriggerRow): JsonObject {
  const { id, triggerType, workflowId, version, config, enabled, tenantId, createdAt, createdBy } = row;
  return present({
    ...{ id, trigger_type: triggerType, workflow_id: workflowId, version, config, enabled, tenant_id: tenantId },
    ...{ created_at: createdAt, created_by: createdBy },
    ...{ next_fire_at: row.nextFireAt, last_fired_at: row.lastFiredAt },
    paused: pauseOf(row),
    in_words: triggerType === "cron" ? scheduleInWords(config) : undefined,
  });
}

function pauseOf({ enabled, pausedAt, pausedBy, pausedReason }: TriggerRow): JsonObject | undefined {
  if (enabled || !pausedAt) return undefined;
  return present({ since: pausedAt, by: pausedBy, reason: pausedReason });
}

export interface NewTrigger {
  readonly id: string;
  readonly triggerType: TriggerType;
  readonly workflowId: string;
  readonly version?: number;
  readonly config: JsonObject;
  readonly enabled: boolean;
  readonly tenantId?: string;
  readonly createdBy: string;
  readonly createdAt: Date;
  readonly nextFireAt?: Date;
  readonly requestHash?: string;
}

export interface Inserted {
  /** The row as it is stored, by this insert or by an earlier one. */
  readonly row: TriggerRow;
  readonly inserted: boolean;
}

/** A repeat of the id changes nothing. */
export async function insertTrigger(database: Sql, trigger: NewTrigger): Promise<Inserted> {
  const values = { ...trigger, shard: shardOf(trigger.id) };
  const [row] = await query(database).insert(triggers).values(values).onConflictDoNothing().returning(columns);
  if (row) return { row, inserted: true };
  const known = await triggerById(database, trigger.id);
  return known ? { row: known, inserted: false } : insertTrigger(database, trigger);
}

export async function triggerById(database: Sql, id: string): Promise<TriggerRow | undefined> {
  const [row] = await query(database).select(columns).from(triggers).where(eq(triggers.id, id));
  return row;
}

export type TriggerChanges = Partial<
  Pick<
    TriggerRow,
    | "config"
    | "enabled"
    | "nextFireAt"
    | "triggerType"
    | "workflowId"
    | "version"
    | "tenantId"
    | "requestHash"
    | "pausedAt"
    | "pausedBy"
    | "pausedReason"
  >
>;

/** Undefined: there is no such trigger, or none that is `enabled` as it was when the changes were decided. */
export async function changeTrigger(
  database: Sql,
  id: string,
  changes: TriggerChanges,
  was?: Pick<TriggerRow, "enabled">,
): Promise<TriggerRow | undefined> {
  const where = and(eq(triggers.id, id), was && eq(triggers.enabled, was.enabled));
  const [row] = await query(database).update(triggers).set(changes).where(where).returning(columns);
  return row;
}

/** False: there was none. Its fires stay until they are past retention. */
export async function deleteTrigger(database: Sql, id: string): Promise<boolean> {
  const deleted = await query(database).delete(triggers).where(eq(triggers.id, id)).returning({ id: triggers.id });
  return deleted.length > 0;
}

export interface TriggerFilter {
  readonly type?: TriggerType;
  readonly enabled?: boolean;
  readonly workflowId?: string;
}

export const OF_TRIGGER: ReachColumns = { tenant: "triggers.tenant_id", workflow: "triggers.workflow_id" };

/** A trigger that is read by a client. Undefined: there is none within the reach. */
export async function readTrigger(database: Sql, reach: Reach, id: string): Promise<TriggerRow | undefined> {
  const where = and(eq(triggers.id, id), within(reach, OF_TRIGGER));
  const [row] = await query(database).select(columns).from(triggers).where(where);
  return row;
}

/** The triggers in the order of creation. */
export function listTriggers(
  database: Sql,
  reach: Reach,
  filter: TriggerFilter,
  page: PageQuery,
): Promise<Page<JsonObject>> {
  const { type, enabled, workflowId } = filter;
  const where = and(
    within(reach, OF_TRIGGER),
    type && eq(triggers.triggerType, type),
    enabled === undefined ? undefined : eq(triggers.enabled, enabled),
    workflowId === undefined ? undefined : eq(triggers.workflowId, workflowId),
  );
  return readPage(
    database,
    {
      name: "triggers",
      reach,
      key: [
        { column: triggers.createdAt, kind: "time" },
        { column: triggers.id, kind: "uuid" },
      ],
      rows: (range) => inRange(query(database).select(columns).from(triggers).$dynamic(), where, range),
      matching: { from: triggers, where },
      item: triggerItem,
      position: ({ createdAt, id }) => [createdAt.toISOString(), id],
    },
    page,
  );
}

/** Cron triggers of these shards whose next tick has come, the longest due first. */
export async function dueTriggers(
  database: Sql,
  shards: readonly ShardId[],
  now: Date,
  limit: number,
): Promise<readonly TriggerRow[]> {
  return query(database)
    .select(columns)
    .from(triggers)
    .where(
      and(
        sql`${triggers.shard} = any(${`{${shards.join(",")}}`}::text::int2[])`,
        eq(triggers.enabled, true),
        sql`${triggers.nextFireAt} <= ${now.toISOString()}::timestamptz`,
      ),
    )
    .orderBy(triggers.nextFireAt)
    .limit(limit);
}

export interface Transition {
  readonly recordType: string;
  readonly fromState: string;
  readonly toState: string;
  /** The tenant of the event. Absent: triggers of every tenant see it. */
  readonly tenantId?: string;
  /** Triggers of no tenant alone see an event of none. */
  readonly tenantsApart?: boolean;
}

/** Enabled triggers that match the transition, in the order of their ids. */
export async function matchingTriggers(
  database: Sql,
  { recordType, fromState, toState, tenantId, tenantsApart = false }: Transition,
  after: string | undefined,
  limit: number,
): Promise<readonly TriggerRow[]> {
  return query(database)
    .select(columns)
    .from(triggers)
    .where(
      and(
        sql`trigger_type = 'record_transition' and enabled and config->>'record_type' = ${recordType}
          and config->>'from_state' = ${fromState} and config->>'to_state' = ${toState}`,
        tenantId === undefined
          ? tenantsApart
            ? isNull(triggers.tenantId)
            : undefined
          : eq(triggers.tenantId, tenantId),
        after === undefined ? undefined : sql`${triggers.id} > ${after}::uuid`,
      ),
    )
    .orderBy(triggers.id)
    .limit(limit);
}

/** Its latest fire ended with an error, before it owed a run. */
export async function markFailing(database: Sql, id: string): Promise<void> {
  await query(database).update(triggers).set({ failing: true }).where(eq(triggers.id, id));
}

/** Enabled triggers whose latest fire ended with an error. */
export async function countFailing(database: Sql): Promise<number> {
  const [row] = await database<{ count: number }[]>`
    select count(*)::int as count from triggers where failing and enabled`;
  return row?.count ?? 0;
}
