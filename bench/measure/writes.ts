// What a load writes: rows and HOT updates as Postgres counts them, and WAL. It reads statistics only.
import type { Sql } from "postgres";
import type { Writes } from "../result.js";

interface TableCount {
  readonly table: string;
  readonly rows: number;
  readonly updates: number;
  readonly hot: number;
}

export interface Counters {
  readonly walBytes: number;
  readonly tables: readonly TableCount[];
}

export async function readCounters(sql: Sql): Promise<Counters> {
  const [wal] = await sql<
    { bytes: string }[]
  >`select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::text as bytes`;
  const tables = await sql<TableCount[]>`
    select relname as table, (n_tup_ins + n_tup_upd + n_tup_del)::float8 as rows, n_tup_upd::float8 as updates,
      n_tup_hot_upd::float8 as hot
    from pg_stat_user_tables order by relname`;
  return { walBytes: Number(wal?.bytes), tables };
}

export function writesBetween(before: Counters, after: Counters, transitions: number | null): Writes {
  const earlier = new Map(before.tables.map((table) => [table.table, table]));
  const grown = after.tables.map((now) => {
    const { rows = 0, updates = 0, hot = 0 } = earlier.get(now.table) ?? {};
    return { table: now.table, rows: now.rows - rows, updates: now.updates - updates, hot: now.hot - hot };
  });
  return {
    transitions,
    rows: grown.reduce((sum, { rows }) => sum + rows, 0),
    wal_bytes: after.walBytes - before.walBytes,
    tables: grown.filter(({ updates }) => updates > 0).map(({ table, updates, hot }) => ({ table, updates, hot })),
  };
}
