// The role that clients' reads run as where access is on: it reads what row-level security shows it, and nothing else. The policies are in
// migrations/; which tables have one is all that is asked here.
import type { Sql } from "postgres";
import { type Config, isAccessOn } from "../../config/index.js";
import { sqlStateOf } from "../engine/failure.js";
import { UnusableDatabase } from "../engine/session.js";

/** Must never change: releases that run side by side have to agree on it, and operators have made it. */
export const READER_ROLE = "saga_reader";

const REFUSED = "42501";
/** Another database of the server makes the same role at this moment. */
const MADE_MEANWHILE: ReadonlySet<string | undefined> = new Set(["42710", "23505", "XX000"]);

export interface ReaderRights {
  /** The login of the service itself reads as the role. False: another login reads (`SAGA_READ_DATABASE_URL`). */
  readonly ownLogin: boolean;
}

/** Undefined: access is off, and clients' reads need no role. */
export function readerRights(config: Pick<Config, "auth" | "readDatabaseUrl">): ReaderRights | undefined {
  return isAccessOn(config) ? { ownLogin: config.readDatabaseUrl === undefined } : undefined;
}

/**
 * Makes the role and gives it what it lacks. Safe to repeat, and writes nothing where nothing is missing. Throws UnusableDatabase, with the
 * statements that are left for an administrator, if the login may not.
 */
export async function prepareReader(sql: Sql, { ownLogin }: ReaderRights): Promise<void> {
  const [login] = await sql<[{ name: string }]>`select quote_ident(current_user) as name`;
  const make = `create role ${READER_ROLE} nologin`;
  const join = `grant ${READER_ROLE} to ${login.name}`;
  const statements = ownLogin ? [make, join] : [make];
  if (!(await exists(sql))) await tryTo(sql, make, statements);
  if (ownLogin && !(await isMember(sql))) await tryTo(sql, join, [join]);
  const [lacking] = await sql<[{ tables: string | null; schema: string | null }]>`
    select (select string_agg(quote_ident(relname), ', ') from pg_class
        where relnamespace = current_schema()::regnamespace and oid in (select polrelid from pg_policy)
          and not has_table_privilege(${READER_ROLE}, oid, 'select')) as tables,
      case when not has_schema_privilege(${READER_ROLE}, current_schema(), 'usage') then quote_ident(current_schema()) end as schema`;
  const { tables, schema } = lacking;
  if (schema !== null) await tryTo(sql, `grant usage on schema ${schema} to ${READER_ROLE}`);
  if (tables !== null) await tryTo(sql, `grant select on ${tables} to ${READER_ROLE}`);
}

async function exists(sql: Sql): Promise<boolean> {
  return (await sql`select from pg_roles where rolname = ${READER_ROLE}`).length > 0;
}

async function isMember(sql: Sql): Promise<boolean> {
  const [row] = await sql<[{ member: boolean }]>`select pg_has_role(current_user, ${READER_ROLE}, 'member') as member`;
  return row.member;
}

async function tryTo(sql: Sql, statement: string, left: readonly string[] = [statement]): Promise<void> {
  try {
    await sql.unsafe(statement);
  } catch (error) {
    const state = sqlStateOf(error);
    if (MADE_MEANWHILE.has(state)) return;
    if (state !== REFUSED) throw error;
    const rows = left.map((text) => `  ${text};`).join("\n");
    throw new UnusableDatabase(
      `With access on, what clients read is read as the database role ${READER_ROLE}, and the login of DATABASE_URL may not prepare it. Let an administrator of the database run\n${rows}\nand start the service again`,
    );
  }
}

interface Found {
  readonly name: string;
  readonly above: boolean;
  readonly owned: string | null;
  readonly written: string | null;
  readonly open: string | null;
  readonly closed: string | null;
}

/** Throws UnusableDatabase if the sessions of clients' reads may do more, or less, than read what the policies show them. `reading`: such a session. */
export async function refuseUnfitReader(reading: Sql): Promise<void> {
  const [found] = await reading<[Found]>`
    with tables as (
      select oid, relname, relowner, exists (select from pg_policy where polrelid = pg_class.oid) as policed from pg_class
      where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p', 'v', 'm')
    )
    select current_user as name, (select rolsuper or rolbypassrls from pg_roles where rolname = current_user) as above,
      min(relname) filter (where pg_has_role(relowner, 'usage')) as owned,
      min(relname) filter (where has_table_privilege(oid, 'insert, update, delete, truncate')
        or has_any_column_privilege(oid, 'insert, update')) as written,
      min(relname) filter (where not policed and has_any_column_privilege(oid, 'select')) as open,
      min(relname) filter (where policed and not has_table_privilege(oid, 'select')) as closed
    from tables`;
  const fault = faultOf(found);
  if (fault === undefined) return;
  throw new UnusableDatabase(
    `With access on, clients' reads need a database role that can do nothing else: ${found.name} ${fault}. SAGA_READ_DATABASE_URL has to name a login with the rights of ${READER_ROLE} and no others (grant ${READER_ROLE} to it), or to be absent`,
  );
}

function faultOf({ above, owned, written, open, closed }: Found): string | undefined {
  if (above) return "is above row-level security";
  if (owned !== null) return `owns the table ${owned}, and row-level security is not for owners`;
  if (written !== null) return `may write the table ${written}`;
  if (open !== null) return `may read the table ${open}, which is for no client`;
  return closed === null ? undefined : `may not read the table ${closed}`;
}
