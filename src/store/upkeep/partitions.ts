// The weekly partitions of the audit log: created ahead of time, dropped when they are past retention. A row without a partition goes
// to the default one: it is deleted late, but not lost.
import postgres, { type Sql } from "postgres";
import type { Logger } from "../../log.js";

/** This week's partition and the next four: if the pruner fails for a month, every row still has one. */
const WEEKS_AHEAD = 4;
const WEEK_MS = 7 * 24 * 3_600_000;
/** 1970-01-05 was a Monday. */
const FIRST_MONDAY_MS = 4 * 24 * 3_600_000;
/** Rows that one statement of retention deletes: bounded, so that it ends before the statement timeout. */
const DELETE_BATCH = 10_000;

/** The default partition contains rows of the range, or a partition that was created by hand overlaps it. */
const NOT_POSSIBLE = new Set(["23514", "42P17"]);

/** Idempotent. For a week that cannot have its partition there is a warning, and its rows go to the default partition. */
export async function createEventPartitions(sql: Sql, log: Logger): Promise<void> {
  const [row] = await sql<{ now: number }[]>`select (extract(epoch from now()) * 1000)::float8 as now`;
  const thisWeek = weekOf(Number(row?.now));
  for (let week = 0; week <= WEEKS_AHEAD; week++) await createPartition(sql, thisWeek + week * WEEK_MS, log);
}

function weekOf(time: number): number {
  return time - ((time - FIRST_MONDAY_MS) % WEEK_MS);
}

/** Must never change: retention reads the week of a partition from its name. */
function partitionName(week: number): string {
  return `run_events_${new Date(week).toISOString().slice(0, 10).replaceAll("-", "")}`;
}

/** Created aside and then attached: unlike `create table … partition of`, this does not block inserts of other sessions. */
async function createPartition(sql: Sql, week: number, log: Logger): Promise<void> {
  const name = partitionName(week);
  const bound = (time: number) => `'${new Date(time).toISOString()}'`;
  if (await exists(sql, name)) return;
  try {
    await sql.begin(async (transaction) => {
      // While this waits for a long reader of the default partition, every other session waits behind it.
      await transaction`set local lock_timeout = '2s'`;
      await transaction.unsafe(`create table ${name} (like run_events including all)`);
      await transaction.unsafe(
        `alter table run_events attach partition ${name} for values from (${bound(week)}) to (${bound(week + WEEK_MS)})`,
      );
    });
  } catch (error) {
    if (!(error instanceof postgres.PostgresError)) throw error;
    if (await exists(sql, name)) return;
    const reason = NOT_POSSIBLE.has(error.code)
      ? "another partition has rows of the week, or covers it"
      : error.message;
    log.warn(
      { partition: name, code: error.code },
      `audit partition not created, its rows go to the default one: ${reason}`,
    );
  }
}

/** True if another service was faster, too. */
async function exists(sql: Sql, name: string): Promise<boolean> {
  const rows = await sql`select 1 from pg_class where oid = to_regclass(${name}) and relispartition`;
  return rows.length > 0;
}

export interface FallingWeeks {
  /** Weeks that ended at or before it are dropped with all that is in them. Absent: some runs are kept without a limit. */
  readonly before?: Date;
  /** And those that ended at or before this one, once nothing is left in them. */
  readonly emptyBefore: Date;
  /** Called before a week, or what the default partition has of one, is deleted: what it throws keeps that. */
  readonly onFall?: (table: string, before: Date) => Promise<void>;
}

/** Retention of weeks. Resolves with the names of the dropped partitions. */
export async function dropEventPartitions(
  sql: Sql,
  { before, emptyBefore, onFall }: FallingWeeks,
): Promise<readonly string[]> {
  const partitions = await sql<{ name: string }[]>`
    select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'run_events'::regclass and c.relname ~ '^run_events_[0-9]{8}$' order by c.relname`;
  const dropped: string[] = [];
  for (const { name } of partitions) {
    const end = weekFromName(name) + WEEK_MS;
    const isOver = before !== undefined && end <= before.getTime();
    if (!isOver && (end > emptyBefore.getTime() || !(await isEmpty(sql, name)))) continue;
    if (isOver) await onFall?.(name, new Date(end));
    await dropPartition(sql, name);
    dropped.push(name);
  }
  if (before === undefined) return dropped;
  await onFall?.(DEFAULT_PARTITION, before);
  await deleteOlder(sql, before);
  return dropped;
}

const DEFAULT_PARTITION = "run_events_default";

/** By the index: dead rows that a long vacuum has left are not walked through. */
async function isEmpty(sql: Sql, name: string): Promise<boolean> {
  const rows = await sql`select 1 from ${sql(name)} order by run_id, seq limit 1`;
  return rows.length === 0;
}

function weekFromName(name: string): number {
  const [, year, month, day] = /_(\d{4})(\d{2})(\d{2})$/.exec(name) ?? [];
  return Date.parse(`${year}-${month}-${day}T00:00:00Z`);
}

async function dropPartition(sql: Sql, name: string): Promise<void> {
  await sql.begin(async (transaction) => {
    await transaction`set local lock_timeout = '2s'`;
    await transaction`drop table if exists ${sql(name)}`;
  });
}

async function deleteOlder(sql: Sql, date: Date): Promise<void> {
  let deleted: number;
  do {
    const result = await sql`delete from run_events_default where ctid = any (array(
      select ctid from run_events_default where recorded_at < ${date.toISOString()}::timestamptz limit ${DELETE_BATCH}))`;
    deleted = result.count;
  } while (deleted === DELETE_BATCH);
}
