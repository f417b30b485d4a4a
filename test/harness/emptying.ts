// Makes a used test database as new for the next file, unless its schema was changed. Only the planner's statistics of columns stay.
import type { Sql } from "postgres";
import { putKeysBack } from "./access.js";

/** The same for two databases whose tables, indexes, constraints, triggers, functions and settings are the same. */
export async function schemaOf(sql: Sql): Promise<string> {
  const [row] = await sql<[{ hash: string }]>`
    with spaces as (select oid from pg_namespace where nspname !~ '^(pg_|information_schema$)'),
    relations as (select * from pg_class where relnamespace in (select oid from spaces)),
    parts (part) as (
      select concat_ws(' ', 'relation', relname, relkind, reloptions::text) from relations
      union all select concat_ws(' ', 'column', relname, attname, atttypid::regtype, attnotnull, pg_get_expr(adbin, adrelid))
        from relations join pg_attribute on attrelid = relations.oid left join pg_attrdef on adrelid = attrelid and adnum = attnum
        where attnum > 0
      union all select concat_ws(' ', 'index', indexdef) from pg_indexes where schemaname !~ '^(pg_|information_schema$)'
      union all select concat_ws(' ', 'constraint', conname, pg_get_constraintdef(oid)) from pg_constraint
        where connamespace in (select oid from spaces)
      union all select concat_ws(' ', 'trigger', relname, tgname, tgenabled) from relations join pg_trigger on tgrelid = relations.oid
      union all select concat_ws(' ', 'function', proname, prosrc) from pg_proc where pronamespace in (select oid from spaces)
      union all select concat_ws(' ', 'setting', setrole, setconfig) from pg_db_role_setting join pg_database on pg_database.oid = setdatabase
        where datname = current_database())
    select md5(string_agg(part, ',' order by part)) as hash from parts`;
  return row.hash;
}

/** False: it has another schema than `schema`, and nothing was done. */
export async function makeAsNew(sql: Sql, schema: string): Promise<boolean> {
  if ((await schemaOf(sql)) !== schema) return false;
  const tables = await sql<{ name: string }[]>`
    select relname as name from pg_class
    where relnamespace = 'public'::regnamespace and relkind = 'r' and (reltuples >= 0 or pg_relation_size(oid) > 0)`;
  // Unlike DELETE it leaves no dead rows, and the planner knows as little as of a new table.
  if (tables.length > 0) await sql.unsafe(`truncate ${tables.map(({ name }) => `"${name}"`).join(", ")}`);
  // As the baseline has it.
  await sql`insert into end_horizon (id, since, until) values (1, '-infinity', '-infinity')`;
  await putKeysBack(sql);
  await sql`select setval(format('%I.%I', schemaname, sequencename), start_value, false)
    from pg_sequences where schemaname = 'public' and last_value is not null`;
  return true;
}
