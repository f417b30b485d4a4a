// What commits posted to the outside, one row each, apart from actions: taken for an attempt, put off, removed. Whether it was
// delivered is not known here.
import type { Sql } from "postgres";
import type { JsonObject } from "../../machines/index.js";

/** How long an attempt may take before the row is due again. */
const CLAIM_SECONDS = 30;

export interface Post {
  readonly runId: string;
  readonly payload: JsonObject;
  /** How often the poll found it due. */
  readonly tries: number;
}

/** Takes it for an attempt; undefined: it is no longer owed. */
export async function claimPost(sql: Sql, id: string): Promise<Post | undefined> {
  const [row] = await sql<{ run_id: string; payload: JsonObject; tries: number }[]>`
    update outbox set due_at = now() + make_interval(secs => ${CLAIM_SECONDS}) where id = ${id}
    returning run_id, payload, tries`;
  return row && { runId: row.run_id, payload: row.payload, tries: row.tries };
}

export async function putOffPost(sql: Sql, id: string, ms: number): Promise<void> {
  await sql`update outbox set due_at = now() + make_interval(secs => ${ms / 1000}) where id = ${id}`;
}

export async function removePost(sql: Sql, id: string): Promise<void> {
  await sql`delete from outbox where id = ${id}`;
}
