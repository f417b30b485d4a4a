// Every row of one tenant, by its table, so that a test can say that nothing of it was touched, whatever others did meanwhile.
import type { Sql } from "postgres";

/** They belong to no tenant, or a node counts in them by itself. */
const OF_NO_TENANT = [
  ...["nodes", "shards", "service_keys", "sessions", "suspects", "replaced_schemas"],
  ...["end_horizon", "run_end_changes", "run_end_counts"],
];

/** Beside it a node writes when a key was used last. */
const OF_A_KEY = "id, secret_hash, name, roles, tenant_id, workflows, expires_at, revoked_at";

/** Commands are those of a run or of a bulk job. */
const RUNS = "select id from runs where tenant_id = $1 union all select id from bulk_jobs where tenant_id = $1";
/** How a row says whose it is: the first of these columns that its table has. */
const OWNER: readonly (readonly [column: string, condition: string])[] = [
  ["tenant_id", "tenant_id = $1"],
  ["run_id", `run_id in (${RUNS})`],
  ["origin_id", `origin_id in (${RUNS})`],
  ["owner_run_id", `owner_run_id in (${RUNS})`],
  ["holder", `holder in (${RUNS})`],
  ["bulk_id", "bulk_id in (select id from bulk_jobs where tenant_id = $1)"],
  ["trigger_id", "trigger_id in (select id from triggers where tenant_id = $1)"],
  ["scope", "scope like $1 || '/%'"],
];

export type TenantRows = Readonly<Record<string, readonly string[]>>;

export async function rowsOfTenant(sql: Sql, tenant: string): Promise<TenantRows> {
  const tables = await sql<{ name: string; columns: readonly string[] }[]>`
    select relname as name, array_agg(attname::text) as columns
    from pg_class join pg_attribute on attrelid = pg_class.oid and attnum > 0 and not attisdropped
    where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p') and not relispartition
      and relname <> all(${OF_NO_TENANT})
    group by relname order by relname`;
  const parts = tables.map(({ name, columns }) => {
    const [, condition] = OWNER.find(([column]) => columns.includes(column)) ?? [];
    if (condition === undefined) throw new Error(`the table ${name} is new here: say whose its rows are`);
    const shown = name === "api_keys" ? OF_A_KEY : "*";
    const whose = condition.replaceAll("$1", `'${tenant}'`);
    return `select '${name}' as name, row::text as text from (select ${shown} from "${name}" where ${whose}) row`;
  });
  const rows = await sql.unsafe<{ name: string; texts: readonly string[] }[]>(
    `select name, array_agg(text order by text) as texts from (${parts.join(" union all ")}) rows group by name`,
  );
  return Object.fromEntries(rows.map(({ name, texts }) => [name, texts]));
}
