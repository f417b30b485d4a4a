// Gives to a tenant what has none: runs, tombstones of erased runs, triggers, bulk jobs, workflow ids, rule ids and services, in bounded pieces, while nodes run. What is some
// tenant's already is left alone, so that it is safe twice, and a second time takes up what was left.
//
// Invariants
// - Runs come first: a run of no tenant may not be of a workflow that has been given away.
// - A run that has not ended changes its revision and its token with its tenant (law 1): the node that has it in memory loses its next commit, and reads
//   whose it is.
// - Locked rows are passed over, so that nothing here waits for a commit, nor a commit for more than one piece. Later passes take them up.
// - The counts of ended runs follow: what is counted already is moved by notes, as for runs that are gone (end-counts.ts).
import type { Sql, TransactionSql } from "postgres";
import { isStoreAway } from "../engine/failure.js";
import { hashedKey } from "../engine/start-keys.js";
import { lockServices } from "../lists/registry.js";
import { NO_TENANT } from "../statistics/end-counts.js";

/** Rows that one transaction looks at. */
const PIECE = 1_000;
/** Passes over all runs, while each of them still finds some: a run that was at work in one may have started children behind it. */
const PASSES = 5;
/** Of one piece, which a count of ends or a deadlock has cut off. */
const TRIES = 10;

/** How many things were given. `left`: runs without a tenant that were at work, or started meanwhile: another call takes them. */
export interface Adopted {
  readonly runs: number;
  readonly triggers: number;
  readonly jobs: number;
  readonly workflows: number;
  readonly rules: number;
  readonly services: number;
  readonly left: number;
}

/** `tenantId`: a UUID in lower case. */
export async function adopt(sql: Sql, tenantId: string): Promise<Adopted> {
  let runs = await adoptRuns(sql, tenantId);
  const triggers = await adoptRows(sql, "triggers", tenantId);
  const jobs = await adoptRows(sql, "bulk_jobs", tenantId);
  const workflows = await adoptNames(sql, "definitions", "workflow_id", tenantId);
  const rules = await adoptNames(sql, "rules", "rule_id", tenantId);
  const services = await adoptServices(sql, tenantId);
  // What has been started since without a tenant may be of a workflow that is given away now.
  runs += await adoptRuns(sql, tenantId);
  await adoptErased(sql, tenantId);
  return { runs, triggers, jobs, workflows, rules, services, left: await runsLeft(sql) };
}

async function adoptRuns(sql: Sql, tenantId: string): Promise<number> {
  let given = 0;
  for (let pass = 0, more = true; more && pass < PASSES; pass++) {
    const before = given;
    for (let after = FIRST_ID, seen = PIECE; seen === PIECE; ) {
      const from = after;
      const piece = await patiently(() => sql.begin((transaction) => adoptPiece(transaction, tenantId, from)));
      given += piece.given;
      seen = piece.seen;
      after = piece.last ?? after;
    }
    more = given > before;
  }
  return given;
}

interface Piece {
  readonly given: number;
  /** Runs that were looked at, and the last one. */
  readonly seen: number;
  readonly last: string | null;
}

/** An idempotency key goes with its run: a repeat of its start finds it. One that the tenant has used itself is the tenant's. */
async function adoptPiece(sql: TransactionSql, tenantId: string, after: string): Promise<Piece> {
  // Whoever counts ends is done, or has not begun.
  const [horizon] = await sql<{ until: string }[]>`select until::text from end_horizon where id = 1 for share`;
  const [piece] = await sql<Piece[]>`
    with slice as materialized (
      select id from runs where id > ${after}::uuid order by id limit ${PIECE}
    ), free as materialized (
      select runs.id from slice join runs on runs.id = slice.id where tenant_id is null order by runs.id for update of runs skip locked
    ), given as (
      update runs set tenant_id = ${tenantId}::uuid,
        revision = case when terminal_at is null then revision + 1 else revision end,
        fence = case when terminal_at is null then (random() * 9e18)::bigint else fence end
      from free where runs.id = free.id
      returning runs.id, workflow_id, version, parent_run_id is null as root, state, terminal_at
    ), moved as (
      insert into run_end_changes (workflow_id, version, tenant_id, root, ended_as, change, ended_at, run_id)
      select workflow_id, version, of.tenant, root, state, of.change, terminal_at, id
      from given cross join (values (${NO_TENANT}::uuid, -1), (${tenantId}::uuid, 1)) as of (tenant, change)
      where terminal_at < ${horizon?.until ?? "-infinity"}::text::timestamptz
    ), keyed as materialized (
      select k.ctid as place, ${tenantId}::text || k.scope as scope, k.key from given
      cross join lateral (select ${sql.unsafe(hashedKey("identity->>'idempotencyKey'"))} as key from run_starts where run_id = given.id) s
      join start_keys k on k.scope = '/' || given.workflow_id and k.key = s.key and k.run_id = given.id
    ), gone as (
      delete from start_keys using keyed where start_keys.ctid = keyed.place returning keyed.scope, keyed.key, start_keys.run_id
    ), kept as (
      insert into start_keys (scope, key, run_id) select scope, key, run_id from gone on conflict do nothing
    ), released as (
      delete from held_keys using given where held_keys.run_id = given.id
      returning ${tenantId}::text || held_keys.scope as scope, held_keys.key, held_keys.run_id, held_keys.burst_at
    ), held as (
      insert into held_keys (scope, key, run_id, burst_at) select scope, key, run_id, burst_at from released on conflict do nothing
    )
    select (select count(*)::int from given) as given, (select count(*)::int from slice) as seen,
      (select id from slice order by id desc limit 1) as last`;
  return piece ?? { given: 0, seen: 0, last: null };
}

/** Of runs that were erased, who did it is the tenant's to know, and their keys stay taken in its scope. */
async function adoptErased(sql: Sql, tenantId: string): Promise<void> {
  for (let count = PIECE; count === PIECE; )
    ({ count } = await patiently(
      () => sql`
        with slice as materialized (
          select ctid as place, run_id, workflow_id, key_hash from erased_runs where tenant_id is null limit ${PIECE} for update
        ), gone as (
          delete from start_keys using slice
          where start_keys.scope = '/' || slice.workflow_id and start_keys.key = slice.key_hash and start_keys.run_id = slice.run_id
          returning ${tenantId}::text || start_keys.scope as scope, start_keys.key, start_keys.run_id
        ), kept as (
          insert into start_keys (scope, key, run_id) select scope, key, run_id from gone on conflict do nothing
        )
        update erased_runs set tenant_id = ${tenantId}::uuid where ctid = any(array(select place from slice))`,
    ));
}

/** A job acts on runs of its tenant from then on. */
async function adoptRows(sql: Sql, table: "triggers" | "bulk_jobs", tenantId: string): Promise<number> {
  const reach =
    table === "bulk_jobs" ? sql`, reach = json_build_object('tenants', json_build_array(${tenantId}::text))` : sql``;
  let given = 0;
  for (let count = PIECE; count === PIECE; given += count)
    ({ count } = await patiently(
      () => sql`
        update ${sql(table)} set tenant_id = ${tenantId}::uuid ${reach}
        where id in (select id from ${sql(table)} where tenant_id is null order by id limit ${PIECE} for update)`,
    ));
  return given;
}

/** All versions of a name at once, under the lock of those that store one (versions.ts). A name that has a tenant in any version is that tenant's. */
async function adoptNames(
  sql: Sql,
  table: "definitions" | "rules",
  column: "workflow_id" | "rule_id",
  tenantId: string,
): Promise<number> {
  const names = await unowned(sql, table, column);
  let given = 0;
  for (const name of names)
    given += await patiently(() =>
      sql.begin(async (transaction) => {
        await transaction`select pg_advisory_xact_lock(hashtextextended(${`${table}:${name}`}, 0))`;
        return giveAll(transaction, { table, column, name, tenantId });
      }),
    );
  return given;
}

async function adoptServices(sql: Sql, tenantId: string): Promise<number> {
  let given = 0;
  for (const name of await unowned(sql, "actions", "service"))
    given += await patiently(() =>
      sql.begin(async (transaction) => {
        await lockServices(transaction, [name]);
        return giveAll(transaction, { table: "actions", column: "service", name, tenantId });
      }),
    );
  return given;
}

async function unowned(sql: Sql, table: string, column: string): Promise<readonly string[]> {
  const rows = await sql<{ name: string }[]>`
    select ${sql(column)} as name from ${sql(table)} group by 1 having bool_and(tenant_id is null) order by 1`;
  return rows.map(({ name }) => name);
}

interface Name {
  readonly table: string;
  readonly column: string;
  readonly name: string;
  readonly tenantId: string;
}

async function giveAll(sql: TransactionSql, { table, column, name, tenantId }: Name): Promise<number> {
  const { count } = await sql`
    update ${sql(table)} set tenant_id = ${tenantId}::uuid
    where ${sql(column)} = ${name} and not exists (
      select from ${sql(table)} other where other.${sql(column)} = ${name} and other.tenant_id is not null)`;
  return count > 0 ? 1 : 0;
}

/** At most so many are counted. */
const MOST_LEFT = 10_000;

/** Of the unfinished ones, which have an index: ended runs do not come back. */
async function runsLeft(sql: Sql): Promise<number> {
  const [row] = await sql<{ left: number }[]>`
    select count(*)::int as left from (
      select from runs where terminal_at is null and tenant_id is null limit ${MOST_LEFT}) open`;
  return row?.left ?? 0;
}

/** A count of ends may hold the horizon for longer than a session waits, and two orders of locks may meet. */
async function patiently<T>(piece: () => PromiseLike<T>): Promise<T> {
  for (let nth = 1; ; nth++) {
    try {
      return await piece();
    } catch (error) {
      if (nth === TRIES || !isStoreAway(error)) throw error;
    }
  }
}

const FIRST_ID = "00000000-0000-0000-0000-000000000000";
