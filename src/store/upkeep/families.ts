// Deletes the runs that are past retention, each family as one: its root says when, by its workflow and the state in which it ended, and its children of
// any depth go with it. Where there is an archive, a family is in it before the first of its rows is deleted.
//
// The root's row goes last, and a parent's after its children's: as long as it is there, the next round finds what is left of the family.
import type { Sql } from "postgres";
import { hashedKey } from "../engine/start-keys.js";
import type { Policies } from "./policies.js";

/** Rows that one statement deletes. */
const ROWS = 5_000;
/** Runs whose rows are deleted together. */
const OWNERS = 500;
/** Runs whose families are in memory at a time, unless one alone has more. */
const MEMBERS = 20_000;
const FIRST_ID = "00000000-0000-0000-0000-000000000000";

/** The tables of a run, and the column with its id. What clients read first goes first: they see all of the run, or nothing. */
const EXPIRED_TABLES = [
  ["run_starts", "run_id"],
  ["kept_scopes", "run_id"],
  ["kept_entries", "run_id"],
  ["kept_values", "holder"],
  ["forks", "origin_id"],
  ["run_variables", "run_id"],
  ["run_commands", "run_id"],
  ["signals", "run_id"],
  ["undo", "owner_run_id"],
  ["event_takes", "run_id"],
  ["user_tasks", "run_id"],
  ["run_labels", "run_id"],
  ["held_keys", "run_id"],
] as const;

/** A root and all runs below it. */
export interface Family {
  readonly root: string;
  /** Each behind its parent; the root is the first. */
  readonly runs: readonly string[];
}

/** What has to have a family before it is deleted. */
export interface Archive {
  /** The most runs that one call is given, unless a family alone has more. */
  readonly atOnce: number;
  /**
   * Takes families from the front: as many as `considered` says, at least one. Those in `gone` are in the archive for good, or were before; the others of the
   * front are not there any more.
   */
  take(families: readonly Family[]): Promise<{ readonly considered: number; readonly gone: readonly Family[] }>;
}

interface Kind {
  readonly workflowId: string;
  readonly endedAs: string;
}

interface Root {
  readonly id: string;
  /** When it ended. */
  readonly at: string;
}

interface Walked {
  readonly ended: readonly Family[];
}

export class Families {
  private stopped = false;

  constructor(
    private readonly sql: Sql,
    private readonly archive?: Archive,
  ) {}

  /** The work in progress ends after its current slice. */
  stop(): void {
    this.stopped = true;
  }

  /** Resolves with whether all that are past their time are gone. False: it was stopped. Throws what the archive throws. */
  async prune(policies: Policies): Promise<boolean> {
    for (const kind of await this.kinds()) {
      const days = policies.daysOf(kind.workflowId, kind.endedAs);
      // The audit rows of those that are kept the longest fall with their partitions.
      if (days !== undefined) await this.pruneKind(kind, days, days < policies.longest);
      if (this.stopped) return false;
    }
    return true;
  }

  /** Workflows with ends, from one to the next in the index, however many runs each has. */
  private kinds(): Promise<readonly Kind[]> {
    return this.sql<Kind[]>`
      with recursive kinds as (
        (select workflow_id, ended_as from runs where terminal_at is not null and parent_run_id is null
         order by workflow_id, ended_as limit 1)
        union all
        select next.* from kinds cross join lateral (
          select workflow_id, ended_as from runs where terminal_at is not null and parent_run_id is null
            and (workflow_id, ended_as) > (kinds.workflow_id, kinds.ended_as)
          order by workflow_id, ended_as limit 1) next
      )
      select workflow_id as "workflowId", ended_as as "endedAs" from kinds`;
  }

  private async pruneKind(kind: Kind, days: number, withEvents: boolean): Promise<void> {
    let after: Root = { at: "-infinity", id: FIRST_ID };
    while (!this.stopped) {
      const roots = await this.expired(kind, days, after);
      if (roots.length === 0) return;
      const taken = await this.pruneFront(roots, withEvents);
      if (taken === roots.length && roots.length < OWNERS) return;
      after = roots[taken - 1] ?? after;
    }
  }

  /** A slice of the index is taken before its rows are compared with the age, so that it is bounded. */
  private expired({ workflowId, endedAs }: Kind, days: number, after: Root): Promise<readonly Root[]> {
    return this.sql<Root[]>`
      select id, terminal_at::text as at from (
        select id, terminal_at from runs
        where workflow_id = ${workflowId} and ended_as = ${endedAs} and terminal_at is not null and parent_run_id is null
          and (terminal_at, id) > (${after.at}::text::timestamptz, ${after.id}::text::uuid)
        order by terminal_at, id limit ${OWNERS}
      ) next where terminal_at < now() - make_interval(days => ${days}::int4) order by terminal_at, id`;
  }

  /** Resolves with the number of roots, from the front, that were looked at. */
  private async pruneFront(roots: readonly Root[], withEvents: boolean): Promise<number> {
    const most = this.archive?.atOnce ?? MEMBERS;
    let front = roots;
    let walked = await this.walk(front, most);
    while (!walked) {
      front = front.slice(0, Math.ceil(front.length / 2));
      walked = await this.walk(front, most);
    }
    const { ended } = walked;
    if (!this.archive || ended.length === 0) {
      await this.deleteFamilies(ended, withEvents);
      return front.length;
    }
    const { considered, gone } = await this.archive.take(ended);
    await this.deleteFamilies(gone, withEvents);
    if (considered >= ended.length) return front.length;
    const last = ended[considered - 1]?.root;
    return front.findIndex(({ id }) => id === last) + 1;
  }

  /** The families in which all runs have ended: a parent reads its children's outputs. Undefined: they have more runs together than there may be. */
  private async walk(roots: readonly Root[], most: number): Promise<Walked | undefined> {
    const families = new Map(roots.map(({ id }) => [id, [id]]));
    const open = new Set<string>();
    let count = roots.length;
    let level = roots.map(({ id }) => ({ id, root: id }));
    while (level.length > 0) {
      const next: { id: string; root: string }[] = [];
      for (let from = 0; from < level.length; from += OWNERS) {
        const children = await this.childrenOf(
          level.slice(from, from + OWNERS),
          roots.length > 1 ? most - count + 1 : null,
        );
        count += children.length;
        if (roots.length > 1 && count > most) return undefined;
        for (const { id, root, ended } of children) {
          families.get(root)?.push(id);
          if (!ended) open.add(root);
          next.push({ id, root });
        }
      }
      level = next;
    }
    const all = [...families].map(([root, runs]) => ({ root, runs }));
    return { ended: all.filter(({ root }) => !open.has(root)) };
  }

  private childrenOf(parents: readonly { readonly id: string; readonly root: string }[], most: number | null) {
    const [ids, roots] = [parents.map(({ id }) => id), parents.map(({ root }) => root)].map(arrayOf);
    return this.sql<{ id: string; root: string; ended: boolean }[]>`
      select child.id, parent.root, child.ended
      from unnest(${ids ?? ""}::text::uuid[], ${roots ?? ""}::text::uuid[]) parent(id, root)
      cross join lateral (
        select id, terminal_at is not null as ended from runs where parent_run_id = parent.id) child limit ${most}`;
  }

  private async deleteFamilies(families: readonly Family[], withEvents: boolean): Promise<void> {
    const roots = families.map(({ root }) => root);
    const children = families.flatMap(({ runs }) => runs.slice(1).reverse());
    for (const runs of [children, roots])
      for (let from = 0; from < runs.length; from += OWNERS)
        await this.deleteRuns(arrayOf(runs.slice(from, from + OWNERS)), withEvents);
  }

  private async deleteRuns(ids: string, withEvents: boolean): Promise<void> {
    await deleteStartKeys(this.sql, ids);
    for (const [table, owner] of EXPIRED_TABLES) await this.deleteAll(table, owner, ids);
    if (withEvents) await this.deleteEvents(ids);
    await this.deleteAll("runs", "id", ids);
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

  /** In the partitions since the start of each run: a run whose clock was set back has begun at most a day later than its first row says. */
  private async deleteEvents(ids: string): Promise<void> {
    const rows = `select found.tableoid, found.ctid from unnest($1::text::uuid[]) old(id)
      cross join lateral (select started_at - interval '1 day' as since from runs where runs.id = old.id limit 1) run
      cross join lateral (
        select t.tableoid, t.ctid from run_events t where t.run_id = old.id and t.recorded_at >= run.since limit ${ROWS}
      ) found limit ${ROWS}`;
    const text = `delete from run_events t using (${rows}) old where t.ctid = old.ctid and t.tableoid = old.tableoid`;
    while ((await this.sql.unsafe(text, [ids])).count > 0);
  }
}

/** Found by scope and key, which the start knows: an index by run would be written with every start. */
export async function deleteStartKeys(sql: Pick<Sql, "unsafe">, ids: string): Promise<void> {
  await sql.unsafe(
    `delete from start_keys where ctid = any(array(
       select k.ctid from unnest($1::text::uuid[]) old(id)
       cross join lateral (
         select coalesce(tenant_id::text, '') || '/' || workflow_id as scope from runs where runs.id = old.id limit 1) r
       cross join lateral (
         select ${hashedKey("identity->>'idempotencyKey'")} as key from run_starts where run_id = old.id limit 1) s
       cross join lateral (
         select ctid from start_keys where scope = r.scope and key = s.key and run_id = old.id limit 1) k))`,
    [ids],
  );
}

export const arrayOf = (ids: readonly string[]): string => `{${ids.join(",")}}`;
