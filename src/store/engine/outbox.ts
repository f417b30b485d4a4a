// Rows of the outbox, by their ids: a webhook is claimed for an attempt, postponed, or removed, and the row of a dispatch goes when it is
// resolved. Whether something was delivered, the courier and the carriers know (src/dispatch); poll.ts finds the rows that are due.
import { eq, inArray, sql } from "drizzle-orm";
import type { Sql } from "postgres";
import type { JsonObject, RunId } from "../../../machines/index.js";
import { outbox } from "../schema.js";
import { readColumn, sealingOf } from "../sealed/sealing.js";
import { query } from "./query.js";

/** How long an attempt may take before the row is due again. */
const CLAIM_SECONDS = 30;

export interface OwedWebhook {
  readonly runId: RunId;
  readonly payload: JsonObject;
  /** How often the poll found it due. */
  readonly tries: number;
}

export interface ClaimedWebhook {
  readonly id: string;
  readonly url: string;
  readonly tries: number;
}

/** Claims those that are still owed, and reads where they go; not what they carry, which may be large. */
export async function claimWebhooks(database: Sql, ids: readonly string[]): Promise<readonly ClaimedWebhook[]> {
  return query(database)
    .update(outbox)
    .set({ dueAt: inSeconds(CLAIM_SECONDS) })
    .where(inArray(outbox.id, [...ids]))
    .returning({ id: outbox.id, url: sql<string>`coalesce(${outbox.payload} ->> 'url', '')`, tries: outbox.tries });
}

/** Claims it for an attempt; undefined: it is no longer owed. */
export async function claimWebhook(database: Sql, id: string): Promise<OwedWebhook | undefined> {
  const [row] = await query(database)
    .update(outbox)
    .set({ dueAt: inSeconds(CLAIM_SECONDS) })
    .where(eq(outbox.id, id))
    .returning({
      ...{ runId: outbox.runId, tries: outbox.tries },
      payload: sealingOf(database) ? sql<JsonObject>`${outbox.payload}::text` : outbox.payload,
    });
  return row && { ...row, payload: readColumn(database, row.payload as JsonObject, `outbox.payload/${id}`) };
}

/** Each for its own time. */
export async function postponeWebhooks(
  database: Sql,
  webhooks: readonly { readonly id: string; readonly ms: number }[],
): Promise<void> {
  const ids = webhooks.map(({ id }) => id);
  const times = webhooks.map(({ ms }) => ms);
  await database`
    update outbox set due_at = now() + make_interval(secs => postponed.ms / 1000)
    from unnest(${ids}::uuid[], ${times}::float8[]) as postponed (id, ms) where outbox.id = any (array[postponed.id])`;
}

export async function removeWebhook(database: Sql, id: string): Promise<void> {
  await query(database).delete(outbox).where(eq(outbox.id, id));
}

/** Which of these are still owed. */
export async function owedEffects<Id extends string>(database: Sql, ids: readonly Id[]): Promise<readonly Id[]> {
  const rows = await database<{ id: Id }[]>`select id from outbox where id = any(${[...ids]}::uuid[])`;
  return rows.map(({ id }) => id);
}

/**
 * Removes the rows of dispatches that workers have accepted, in key order, as a commit takes them, so that the two never wait for each other in a circle.
 * Only a run that has dispatched its call has a wake row that watches it: a standby that took over may not know of the dispatch, and then its row is all
 * that moves the run.
 */
export async function removeAccepted(database: Sql, ids: readonly string[]): Promise<void> {
  await database`
    delete from outbox where id = any (array(
      select o.id from outbox o join runs r on r.id = any (array[o.run_id])
      where o.id = any(${[...ids]}::uuid[]) and r.record -> 'wait' ->> 'kind' = 'dispatched' order by o.id for update of o
    ))`;
}

/** The time in so many seconds, by the database's clock. */
const inSeconds = (seconds: number) => sql`now() + make_interval(secs => ${seconds})`;
