// Sessions of browsers, by the hash of their id: opened, read by every node that is asked with one, and closed. No statement has an id in it.
import { lt, or, sql as text } from "drizzle-orm";
import type { Sql } from "postgres";
import { sessions } from "../schema.js";
import { query } from "./query.js";

/** After this long without a request a session ends. */
export const IDLE_MINUTES = 30;
/** Sessions of one actor. The oldest end when there are more. */
const MOST_OF_ACTOR = 100;

export interface NewSession {
  readonly idHash: string;
  readonly actor: string;
  /** Absent: a person has logged in. */
  readonly keyId?: string;
  readonly stated: Readonly<Record<string, unknown>>;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
}

export interface SessionRow {
  readonly idHash: string;
  readonly actor: string;
  readonly stated: Readonly<Record<string, unknown>>;
  readonly expiresAt: Date;
}

export async function insertSession(database: Sql, session: NewSession): Promise<void> {
  const { idHash, actor, keyId, stated, expiresAt } = session;
  await query(database)
    .insert(sessions)
    .values({ idHash, actor, keyId: keyId ?? null, stated, expiresAt: new Date(expiresAt) });
  await database`
    delete from sessions where id_hash = any (array(
      select id_hash from sessions where actor = ${actor} order by created_at desc, id_hash offset ${MOST_OF_ACTOR}))`;
}

/** Those of these that are good: not over, not idle, and with a key, if they came by one, that is good itself. */
export function readSessions(database: Sql, hashes: readonly string[]): Promise<readonly SessionRow[]> {
  return database<SessionRow[]>`
    select id_hash as "idHash", actor, stated, s.expires_at as "expiresAt" from sessions s
    where id_hash = any(${hashes as string[]}::text[]) and s.expires_at > now()
      and seen_at > now() - make_interval(mins => ${IDLE_MINUTES})
      and (key_id is null or exists (
        select from api_keys k where k.id = key_id and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())))`;
}

/** Requests came with them. Whichever node writes it first in a minute, the others change nothing. One that was idle for too long stays so. */
export async function noteSeen(database: Sql, hashes: readonly string[]): Promise<void> {
  await database`
    update sessions set seen_at = now()
    where id_hash = any(${hashes as string[]}::text[]) and seen_at <= now() - interval '1 minute'
      and seen_at > now() - make_interval(mins => ${IDLE_MINUTES})`;
}

export async function deleteSession(database: Sql, idHash: string): Promise<void> {
  await database`delete from sessions where id_hash = ${idHash}`;
}

/** Those that are over. */
export async function deleteEndedSessions(database: Sql): Promise<void> {
  const idle = text`now() - make_interval(mins => ${IDLE_MINUTES})`;
  await query(database)
    .delete(sessions)
    .where(or(lt(sessions.expiresAt, text`now()`), lt(sessions.seenAt, idle)));
}
