// The roles that clients' reads run as where access is on: they read what row-level security shows them, and nothing else. What a read of tenants
// sees of a table is a policy in migrations/; the role of the platform's reads sees all of each table that has one.
import type { Sql } from "postgres";
import { type Config, isAccessOn } from "../../config/index.js";
import { sqlStateOf } from "../engine/failure.js";
import { UnusableDatabase } from "../engine/session.js";

/** Reads what some tenants see. These names must never change: releases that run side by side have to agree on them, and operators have made the roles. */
export const READER_ROLE = "saga_reader";
/** Reads everything, for the platform. */
export const PLATFORM_READER_ROLE = "saga_platform_reader";
const ROLES = [READER_ROLE, PLATFORM_READER_ROLE];

const REFUSED = "42501";
/** Another database of the server makes the same role, or another service the same policy, at this moment. */
const MADE_MEANWHILE: ReadonlySet<string | undefined> = new Set(["42710", "23505", "XX000"]);

export interface ReaderRights {
  /** The login of the service itself reads as the roles. False: another login reads (`SAGA_READ_DATABASE_URL`). */
  readonly ownLogin: boolean;
}

/** Undefined: access is off, and clients' reads need no roles. */
export function readerRights(config: Pick<Config, "auth" | "readDatabaseUrl">): ReaderRights | undefined {
  return isAccessOn(config) ? { ownLogin: config.readDatabaseUrl === undefined } : undefined;
}

/**
 * Makes the roles and gives them what they lack. Safe to repeat, and writes nothing where nothing is missing. Throws UnusableDatabase, with the
 * statements that are left for an administrator, if the login may not; errors of Postgres, among them that a table is locked.
 */
export async function prepareReader(sql: Sql, { ownLogin }: ReaderRights): Promise<void> {
  const roles = await sql<{ role: string; made: boolean; joined: boolean; login: string }[]>`
    select role, to_regrole(role) is not null as made, quote_ident(current_user) as login,
      rolsuper or coalesce(pg_has_role(current_user, to_regrole(role), 'member'), false) as joined
    from unnest(${ROLES}::text[]) role, pg_roles where rolname = current_user`;
  const makes = roles.filter(({ made }) => !made).map(({ role }) => `create role ${role} nologin`);
  const joins = roles.filter(({ joined }) => ownLogin && !joined).map(({ role, login }) => `grant ${role} to ${login}`);
  for (const make of makes) await tryTo(sql, make, [...makes, ...joins]);
  for (const join of joins) await tryTo(sql, join, joins);
  for (const statement of await lacking(sql)) await tryTo(sql, statement);
}

/**
 * Statements for the rights that the roles have not got yet, and for the policies of the one that reads everything. Postgres joins the policies of
 * a table with `or`, the last name first: this one is asked before the others look up a row's run.
 */
async function lacking(sql: Sql): Promise<readonly string[]> {
  const rows = await sql<{ statement: string }[]>`
    with policed as (
      select oid, quote_ident(relname) as name from pg_class
      where relnamespace = current_schema()::regnamespace and oid in (select polrelid from pg_policy where polname = 'readers')
    ), roles as (select role from unnest(${ROLES}::text[]) role)
    select format('grant usage on schema %I to %s', current_schema(), role) as statement from roles
      where not has_schema_privilege(role, current_schema(), 'usage')
    union all select format('grant select on %s to %s', string_agg(name, ', '), role) from roles, policed
      where not has_table_privilege(role, oid, 'select') group by role
    union all select format('create policy readers_of_all on %s for select to %s using ((select reads_all()))', name, ${PLATFORM_READER_ROLE}::text)
      from policed where oid not in (select polrelid from pg_policy where polname = 'readers_of_all')`;
  return rows.map(({ statement }) => statement);
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
      `With access on, what clients read is read as the database roles ${ROLES.join(" and ")}, and the login of DATABASE_URL may not prepare them. Let an administrator of the database run\n${rows}\nand start the service again`,
    );
  }
}

interface Found {
  readonly name: string;
  readonly above: boolean;
  /** A role that it may not become. */
  readonly denied: string | null;
  readonly owned: string | null;
  readonly written: string | null;
  readonly open: string | null;
  readonly closed: string | null;
}

/**
 * Throws UnusableDatabase if the sessions of clients' reads may do more, or less, than read what the policies show them. `reading`: such a session.
 * What it begins as is examined, and what each read becomes.
 */
export async function refuseUnfitReader(reading: Sql): Promise<void> {
  const found = await reading<Found[]>`
    with tables as (
      select oid, relname, relowner, exists (select from pg_policy where polrelid = pg_class.oid) as policed from pg_class
      where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p', 'v', 'm')
    ), readers as (
      select oid as reader, rolname, rolsuper or rolbypassrls as above from pg_roles where rolname = current_user or rolname = any(${ROLES})
    )
    select rolname as name, above,
      (select min(role) from unnest(${ROLES}::text[]) role
        where rolname = current_user and not coalesce(pg_has_role(session_user, to_regrole(role), 'member'), false)) as denied,
      min(relname) filter (where pg_has_role(reader, relowner, 'usage')) as owned,
      min(relname) filter (where has_table_privilege(reader, oid, 'insert, update, delete, truncate')
        or has_any_column_privilege(reader, oid, 'insert, update')) as written,
      min(relname) filter (where not policed and has_any_column_privilege(reader, oid, 'select')) as open,
      min(relname) filter (where policed and not has_table_privilege(reader, oid, 'select')) as closed
    from readers, tables group by reader, rolname, above`;
  for (const one of found) {
    const fault = faultOf(one);
    if (fault === undefined) continue;
    throw new UnusableDatabase(
      `With access on, clients' reads need database roles that can do nothing else: ${one.name} ${fault}. SAGA_READ_DATABASE_URL has to name a login with the rights of ${ROLES.join(" and ")} and no others (grant ${ROLES.join(", ")} to it), or to be absent`,
    );
  }
}

function faultOf({ above, denied, owned, written, open, closed }: Found): string | undefined {
  if (above) return "is above row-level security";
  if (owned !== null) return `owns the table ${owned}, and row-level security is not for owners`;
  if (written !== null) return `may write the table ${written}`;
  if (open !== null) return `may read the table ${open}, which is for no client`;
  if (closed !== null) return `may not read the table ${closed}`;
  return denied === null ? undefined : `may not become ${denied}`;
}
