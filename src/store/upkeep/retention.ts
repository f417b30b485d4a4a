// What retention deletes besides runs (families.ts), each kind in one pass over an index. A pass goes forward only: a row that has to stay is read once a round,
// and deleted rows are not walked through again. Every statement is bounded, and planned when it runs.
//
// The statements leave no choice to the planner, which knows little of a table that nobody has analyzed: a slice of an index is taken by
// order and limit before its rows are compared with the age, and rows are looked up one by one.
import type { Sql } from "postgres";

/** Rows that one statement deletes. */
const ROWS = 5_000;
/** Events, or jobs, whose rows are deleted together. */
const OWNERS = 500;
/** A command is replayed within seconds; a day is generous. */
const COMMANDS_KEPT = "1 day";

/** The rows that a statement has seen, and the key of the last one. */
interface Seen {
  readonly seen: number;
  readonly last: readonly string[] | null;
}

interface Old {
  readonly id: string;
  /** When it ended or was published. */
  readonly at: string;
  /** It has to stay for now. */
  readonly held: boolean;
}

export class Retention {
  private stopped = false;

  constructor(private readonly sql: Sql) {}

  /** The pass in progress ends after its current statement. */
  stop(): void {
    this.stopped = true;
  }

  /** Recorded answers, except those that are kept with their run. */
  async commands(): Promise<void> {
    await this.pass(["-infinity"], ROWS, (after) =>
      this.one(
        `with next as materialized (
           select ctid, at from run_commands where not keep and at >= $1::text::timestamptz order by at limit ${ROWS}
         ), old as (select ctid, at from next where at < now() - interval '${COMMANDS_KEPT}'
         ), gone as (delete from run_commands where ctid = any(array(select ctid from old)))
         select count(*)::int as seen, array[max(at)::text] as last from old`,
        after,
      ),
    );
  }

  /** Fires of triggers, except those that still owe a run. */
  async fires(days: number): Promise<void> {
    await this.pass(["-infinity"], ROWS, (after) =>
      this.one(
        `with next as materialized (
           select ctid, fired_at, due_at from trigger_fires where fired_at >= $1::text::timestamptz order by fired_at limit ${ROWS}
         ), old as (select * from next where fired_at < now() - make_interval(days => ${days})
         ), gone as (delete from trigger_fires where ctid = any(array(select ctid from old where due_at is null)))
         select count(*)::int as seen, array[max(fired_at)::text] as last from old`,
        after,
      ),
    );
  }

  /** Bulk jobs that have ended, with their targets. */
  async bulkJobs(days: number): Promise<void> {
    await this.pass(["-infinity", FIRST_ID], OWNERS, async (after) => {
      const old = await this.many<Old>(
        `select id, ended_at::text as at, false as held from (
           select id, ended_at from bulk_jobs
           where ended_at is not null and (ended_at, id) > ($1::text::timestamptz, $2::text::uuid)
           order by ended_at, id limit ${OWNERS}
         ) next where ended_at < now() - make_interval(days => $3::text::int4) order by ended_at, id`,
        [...after, String(days)],
      );
      // The job goes last: as long as it is there, the next round finds what is left of its targets.
      await this.deleteAll("bulk_targets", "bulk_id", notHeld(old));
      await this.deleteAll("bulk_jobs", "id", notHeld(old));
      const last = old.at(-1);
      return { seen: old.length, last: last ? [last.at, last.id] : null };
    });
  }

  /** API keys that were revoked, or have expired: until then the list shows what became of them. */
  async apiKeys(days: number): Promise<void> {
    await this.pass(["-infinity"], ROWS, (after) =>
      this.one(
        `with next as materialized (
           select ctid, least(revoked_at, expires_at) as ended from api_keys where least(revoked_at, expires_at) >= $1::text::timestamptz
           order by least(revoked_at, expires_at) limit ${ROWS}
         ), old as (select ctid, ended from next where ended < now() - make_interval(days => ${days})
         ), gone as (delete from api_keys where ctid = any(array(select ctid from old)))
         select count(*)::int as seen, array[max(ended)::text] as last from old`,
        after,
      ),
    );
  }

  /** Scopes and their values, of families that have ended: nothing starts from them any more. A run that keeps its history may be forked, and keeps its values. */
  async scopes(): Promise<void> {
    await this.pass([FIRST_ID, "0"], ROWS, (after) =>
      this.one(
        `with slice as materialized (
           select run_id, entry, holder from kept_scopes
           where (run_id, entry) > ($1::text::uuid, $2::text::int4) order by run_id, entry limit ${ROWS}
         ), gone as (
           delete from kept_scopes s using ${ended("slice")}
           where s.run_id = ended.run_id and s.entry = ended.entry
         )
         ${lastOf("slice", "run_id", "entry")}`,
        after,
      ),
    );
    await this.pass([FIRST_ID, FIRST_ID], ROWS, (after) =>
      this.one(
        `with slice as materialized (
           select holder, hash from kept_values
           where (holder, hash) > ($1::text::uuid, $2::text::uuid) order by holder, hash limit ${ROWS}
         ), gone as (
           delete from kept_values v using ${ended("slice")} where v.holder = ended.holder and v.hash = ended.hash
             and not exists (select from kept_entries e where e.run_id = v.holder)
         )
         ${lastOf("slice", "holder", "hash")}`,
        after,
      ),
    );
  }

  /** Published events, with the rows of the runs that took them. One that is still to be announced, or owed to RabbitMQ, stays. */
  async events(days: number): Promise<void> {
    await this.pass(["-infinity", "0"], OWNERS, async (after) => {
      const old = await this.many<Old & { ordinal: string }>(
        `select id, published_at::text as at, ordinal::text,
           due_at is not null or exists (select from outgoing_events o where o.id = next.id) as held from (
           select * from events where (published_at, ordinal) > ($1::text::timestamptz, $2::text::int8)
           order by published_at, ordinal limit ${OWNERS}
         ) next where published_at < now() - make_interval(days => $3::text::int4) order by published_at, ordinal`,
        [...after, String(days)],
      );
      const ids = notHeld(old);
      // The event first: without its take, a run would take it again. Takes that a crash leaves behind go with their runs.
      await this.deleteAll("events", "id", ids);
      await this.deleteAll("event_takes", "event_id", ids);
      const last = old.at(-1);
      return { seen: old.length, last: last ? [last.at, last.ordinal] : null };
    });
  }

  /**
   * All rows of these owners: each may have any number of them. They are looked up owner by owner: `= any` of an array that the planner
   * does not know was planned as a reading of the whole table, 11 s for 500 of 24,000 runs.
   */
  private async deleteAll(table: string, owner: string, ids: string): Promise<void> {
    const rows = `select found.ctid from unnest($1::text::uuid[]) old(owner) cross join lateral (
      select t.ctid from ${table} t where t.${owner} = old.owner limit ${ROWS}) found limit ${ROWS}`;
    const text = `delete from ${table} where ctid = any(array(${rows}))`;
    while ((await this.sql.unsafe(text, [ids])).count === ROWS);
  }

  private async pass(
    first: readonly string[],
    full: number,
    slice: (after: readonly string[]) => Promise<Seen>,
  ): Promise<void> {
    for (let after = first; !this.stopped; ) {
      const { seen, last } = await slice(after);
      if (seen < full || last === null) return;
      after = last;
    }
  }

  private many<Row>(text: string, parameters: readonly string[]): Promise<readonly Row[]> {
    return this.sql.unsafe(text, [...parameters]) as unknown as Promise<readonly Row[]>;
  }

  private async one(text: string, parameters: readonly string[]): Promise<Seen> {
    const [row] = await this.many<Seen>(text, parameters);
    return row ?? { seen: 0, last: null };
  }
}

const FIRST_ID = "00000000-0000-0000-0000-000000000000";

function lastOf(slice: string, first: string, second: string): string {
  return `select (select count(*)::int from ${slice}) as seen, array[${first}::text, ${second}::text] as last
    from ${slice} order by ${first} desc, ${second} desc limit 1`;
}

/** The rows of a slice whose family has ended. */
function ended(slice: string): string {
  return `(select ${slice}.* from ${slice} cross join lateral (
    select terminal_at from runs where id = ${slice}.holder limit 1) top where top.terminal_at is not null) ended`;
}

function notHeld(rows: readonly Old[]): string {
  const ids = rows.filter(({ held }) => !held).map(({ id }) => id);
  return `{${ids.join(",")}}`;
}
