// API keys as every node reads them to verify what callers present: by id, whether they have ended, and that they were used. Making, listing
// and revoking them is lists/api-keys.ts. No statement has a key or its secret in it.
import { inArray } from "drizzle-orm";
import type { Sql } from "postgres";
import { apiKeys } from "../schema.js";
import { query } from "./query.js";

/** What a key allows, as it is stored. */
export interface KeyRow {
  readonly id: string;
  readonly secretHash: string;
  readonly tenantId: string | null;
  readonly roles: readonly string[];
  readonly tenants: readonly string[] | null;
  readonly workflows: readonly string[] | null;
  readonly services: readonly string[] | null;
  readonly secrets: readonly string[] | null;
  readonly expiresAt: Date | null;
  readonly revokedAt: Date | null;
}

const columns = {
  id: apiKeys.id,
  secretHash: apiKeys.secretHash,
  tenantId: apiKeys.tenantId,
  roles: apiKeys.roles,
  tenants: apiKeys.tenants,
  workflows: apiKeys.workflows,
  services: apiKeys.services,
  secrets: apiKeys.secrets,
  expiresAt: apiKeys.expiresAt,
  revokedAt: apiKeys.revokedAt,
};

/** Those of these that exist, revoked ones, too. */
export function readKeys(database: Sql, ids: readonly string[]): Promise<readonly KeyRow[]> {
  return query(database)
    .select(columns)
    .from(apiKeys)
    .where(inArray(apiKeys.id, [...ids]));
}

/** Those of these that were revoked, or are gone. */
export async function endedKeys(database: Sql, ids: readonly string[]): Promise<readonly string[]> {
  const rows = await database<{ id: string }[]>`
    select id from unnest(${ids as string[]}::text[]) as asked(id)
    where not exists (select from api_keys where api_keys.id = asked.id and revoked_at is null)`;
  return rows.map(({ id }) => id);
}

/** They are in use. Whichever node writes it first in a minute, the others change nothing. */
export async function noteUse(database: Sql, ids: readonly string[]): Promise<void> {
  await database`
    update api_keys set last_used_at = now() where id = any(${ids as string[]}::text[])
      and (last_used_at is null or last_used_at <= now() - interval '1 minute')`;
}
