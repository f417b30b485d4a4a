// API keys as those who manage them see them: made, listed, revoked. The secret of a key is in no answer and in no row. What a key allows is
// checked by access/.
import { and, eq, inArray, type SQL, sql } from "drizzle-orm";
import type { Sql } from "postgres";
import type { JsonObject } from "../../../machines/index.js";
import { query } from "../engine/query.js";
import { apiKeys } from "../schema.js";
import { revokeJobsOf } from "./bulk-jobs.js";
import { present } from "./item.js";
import { inRange, type Page, type PageQuery, readPage } from "./page.js";

export interface KeyView {
  readonly id: string;
  readonly name: string;
  readonly tenantId: string | null;
  readonly roles: readonly string[];
  readonly tenants: readonly string[] | null;
  readonly workflows: readonly string[] | null;
  readonly services: readonly string[] | null;
  readonly secrets: readonly string[] | null;
  readonly createdAt: Date;
  readonly createdBy: string;
  readonly expiresAt: Date | null;
  readonly revokedAt: Date | null;
  readonly lastUsedAt: Date | null;
}

const columns = {
  id: apiKeys.id,
  name: apiKeys.name,
  tenantId: apiKeys.tenantId,
  roles: apiKeys.roles,
  tenants: apiKeys.tenants,
  workflows: apiKeys.workflows,
  services: apiKeys.services,
  secrets: apiKeys.secrets,
  createdAt: apiKeys.createdAt,
  createdBy: apiKeys.createdBy,
  expiresAt: apiKeys.expiresAt,
  revokedAt: apiKeys.revokedAt,
  lastUsedAt: apiKeys.lastUsedAt,
};

/** The key as clients see it. */
export function keyItem(row: KeyView): JsonObject {
  const { id, name, roles, tenantId, tenants, workflows, services, secrets } = row;
  return present({
    ...{ id, name, roles, tenant_id: tenantId, tenants, workflows, services, secrets },
    ...{ created_at: row.createdAt, created_by: row.createdBy },
    ...{ expires_at: row.expiresAt, revoked_at: row.revokedAt, last_used_at: row.lastUsedAt },
  });
}

export interface NewKey {
  readonly id: string;
  readonly secretHash: string;
  readonly name: string;
  readonly roles: readonly string[];
  readonly tenantId?: string;
  readonly tenants?: readonly string[];
  readonly workflows?: readonly string[];
  readonly services?: readonly string[];
  readonly secrets?: readonly string[];
  readonly createdBy: string;
  readonly expiresAt?: Date;
}

export async function insertKey(database: Sql, key: NewKey): Promise<KeyView> {
  const { roles, tenants, workflows, services, secrets, ...rest } = key;
  const list = (texts: readonly string[] | undefined) => texts && [...texts];
  const lists = {
    tenants: list(tenants),
    workflows: list(workflows),
    services: list(services),
    secrets: list(secrets),
  };
  const [row] = await query(database)
    .insert(apiKeys)
    .values({ ...rest, ...lists, roles: [...roles] })
    .returning(columns);
  if (!row) throw new Error("an insert without a row");
  return row;
}

/** Whose keys someone may see and revoke. */
export interface KeyReach {
  /** `*`: all, with those of no tenant. */
  readonly tenants: readonly string[] | "*";
  /** Only keys that are narrowed to these workflows. Absent: all. */
  readonly workflows?: { readonly texts: readonly string[] };
}

export async function keyById(database: Sql, id: string): Promise<KeyView | undefined> {
  const [row] = await query(database).select(columns).from(apiKeys).where(eq(apiKeys.id, id));
  return row;
}

/** Undefined: there is no such key within reach. Its bulk jobs, and those of its sessions, end with it. A repeat changes nothing. */
export function revokeKey(database: Sql, id: string, reach: KeyReach): Promise<KeyView | undefined> {
  return database.begin(async (transaction) => {
    const [row] = await query(transaction)
      .update(apiKeys)
      .set({ revokedAt: sql`coalesce(${apiKeys.revokedAt}, now())` })
      .where(and(eq(apiKeys.id, id), within(reach)))
      .returning(columns);
    if (row) await revokeJobsOf(transaction, `key:${id}`);
    return row;
  }) as Promise<KeyView | undefined>;
}

/** In the order of creation. */
export function listKeys(
  database: Sql,
  reach: KeyReach,
  { tenantId }: { readonly tenantId?: string },
  page: PageQuery,
): Promise<Page<JsonObject>> {
  const where = and(within(reach), tenantId === undefined ? undefined : eq(apiKeys.tenantId, tenantId));
  return readPage(
    database,
    {
      name: "api_keys",
      reach,
      key: [
        { column: apiKeys.createdAt, kind: "time" },
        { column: apiKeys.id, kind: "text" },
      ],
      rows: (range) => inRange(query(database).select(columns).from(apiKeys).$dynamic(), where, range),
      matching: { from: apiKeys, where },
      item: keyItem,
      position: ({ createdAt, id }) => [createdAt.toISOString(), id],
    },
    page,
  );
}

function within({ tenants, workflows }: KeyReach): SQL | undefined {
  const ofTenants = tenants === "*" ? undefined : inArray(apiKeys.tenantId, [...tenants]);
  return and(ofTenants, workflows && narrowedTo(workflows.texts));
}

/**
 * Each pattern of the key is one of these, or is within a prefix of them, as `Patterns.contain` in access/ has it; and the key has no role that
 * workflows do not narrow.
 */
function narrowedTo(texts: readonly string[]): SQL {
  const own = sql`json_array_elements_text(${JSON.stringify(texts)}::text::json)`;
  return sql`${apiKeys.workflows} is not null
    and not exists (
      select from json_array_elements_text(${apiKeys.workflows}) as pattern
      where not exists (
        select from ${own} as own where own = pattern or (own like '%*' and starts_with(pattern, left(own, -1)))))
    and not exists (
      select from json_array_elements_text(${apiKeys.roles}) as role where role in ('worker', 'scrape', 'platform'))`;
}
