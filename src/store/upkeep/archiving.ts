// Writes what retention is about to delete into the archive: families, as the API answers of them, and audit rows of runs that are kept on while the week
// of the rows falls. The file is on the disk before anything is deleted; what a crash comes between is written once more.
import type { Sql, TransactionSql } from "postgres";
import type { RunId } from "../../../machines/index.js";
import type { ArchiveLine, LineKind } from "../../archive/format.js";
import type { ArchiveFolder, LineSink } from "../../archive/writer.js";
import { eventsAfter, listSignals, listUndo } from "../lists/history.js";
import type { Page, PageQuery } from "../lists/page.js";
import type { Reach } from "../lists/reach.js";
import { READ_TOGETHER, type RunView, readRuns } from "../lists/runs.js";
import { listUserTasks } from "../lists/user-tasks.js";
import { type Archive, arrayOf, deleteStartKeys, type Family } from "./families.js";

/** A file is closed with the family that makes it as large as this. */
const FILE_BYTES = 32 * 1024 * 1024;
/** Runs of a file, unless one family has more: while it is written, its runs cannot be erased. */
const FILE_RUNS = 2_000;
const PAGE = 500;
/** Runs whose early audit rows are looked for at a time. */
const SPANNING = 500;
const FIRST_ID = "00000000-0000-0000-0000-000000000000";

const EVERYTHING: Reach = { tenants: "*" };

/** Which lists of a run have something. */
interface Has {
  readonly id: RunId;
  readonly signals: boolean;
  readonly undo: boolean;
  readonly tasks: boolean;
  readonly branch: boolean;
}

interface Spanning {
  readonly id: RunId;
  readonly root: string;
  readonly tenantId: string | null;
  /** When it began. */
  readonly at: string;
  readonly now: Date;
}

export class FamilyArchive implements Archive {
  readonly atOnce = FILE_RUNS;

  /** The reads have sessions of their own: erasures that wait for a root could hold all others. */
  constructor(
    private readonly sql: Sql,
    private readonly reads: Sql,
    private readonly folder: ArchiveFolder,
    private readonly onArchived: (runs: number) => void = () => {},
  ) {}

  /**
   * One transaction holds the roots, so that none is erased meanwhile, and ends with the deletion of their starts: a root without its start is in the archive. What an
   * earlier round has left of a family is therefore not written again, as if it were all.
   */
  async take(families: readonly Family[]): Promise<{ considered: number; gone: readonly Family[] }> {
    const taken = await this.sql.begin(async (transaction) => {
      await transaction`set local idle_in_transaction_session_timeout = '5min'`;
      const { fresh, begun, at } = await hold(transaction, families);
      const gone = families.filter(({ root }) => begun.has(root));
      let considered = families.length;
      const written: Family[] = [];
      const fill = async (sink: LineSink) => {
        for (const [index, family] of families.entries()) {
          if (!fresh.has(family.root)) continue;
          if (written.length > 0 && sink.bytes >= FILE_BYTES) {
            considered = index;
            break;
          }
          await this.add(sink, family);
          written.push(family);
        }
      };
      const manifest = fresh.size === 0 ? undefined : await this.folder.write({ holds: "runs", at }, fill);
      const roots = arrayOf(written.map(({ root }) => root));
      await deleteStartKeys(transaction, roots);
      await transaction`
        delete from run_starts where ctid = any(array(
          select s.ctid from unnest(${roots}::text::uuid[]) old(id) cross join lateral (
            select ctid from run_starts where run_id = old.id limit 1) s))`;
      const all = [...gone.filter((family) => families.indexOf(family) < considered), ...written];
      return { considered, gone: all, runs: manifest?.runs ?? 0 };
    });
    this.onArchived(taken.runs);
    return taken;
  }

  private async add(sink: LineSink, { root, runs }: Family): Promise<void> {
    for (let from = 0; from < runs.length; from += READ_TOGETHER) {
      const ids = runs.slice(from, from + READ_TOGETHER) as RunId[];
      const views = await readRuns(this.reads, EVERYTHING, ids);
      const has = await this.hasOf(ids);
      for (const id of ids) {
        const [view, of] = [views.get(id), has.get(id)];
        if (view && of) await this.addRun(sink, root, id, { view, has: of, isFamily: id === root && runs.length > 1 });
      }
    }
  }

  private async addRun(
    sink: LineSink,
    root: string,
    id: RunId,
    { view, has, isFamily }: { readonly view: RunView; readonly has: Has; readonly isFamily: boolean },
  ): Promise<void> {
    const tenant_id = typeof view.run.tenant_id === "string" ? view.run.tenant_id : null;
    const line = (kind: LineKind, data: ArchiveLine["data"]): ArchiveLine => ({ kind, run: id, root, tenant_id, data });
    await sink.add(line("run", view.run));
    for await (const event of this.eventsOf(id)) await sink.add(line("event", event));
    const all = async (kind: LineKind, list: (page: PageQuery) => Promise<Page<ArchiveLine["data"]>>) => {
      for await (const item of itemsOf(list)) await sink.add(line(kind, item));
    };
    if (has.signals) await all("signal", (page) => listSignals(this.reads, EVERYTHING, id, page));
    // Of a root the list has what its children have left undone, too.
    if (has.undo || isFamily) await all("undo", (page) => listUndo(this.reads, EVERYTHING, id, page));
    // Those of branches and items are in the list of the run that they are a part of.
    if (!has.branch && (has.tasks || isFamily))
      await all("user_task", (page) => listUserTasks(this.reads, EVERYTHING, { runId: id }, page));
  }

  private async hasOf(ids: readonly RunId[]): Promise<ReadonlyMap<string, Has>> {
    const rows = await this.reads<Has[]>`
      select r.id, r.parent_branch_id is not null as branch,
        exists (select from signals s where s.run_id = r.id) as signals,
        exists (select from undo u where u.owner_run_id = r.id) as undo,
        exists (select from user_tasks t where t.run_id = r.id) or exists (
          select from runs child where child.parent_run_id = r.id and child.parent_branch_id is not null) as tasks
      from unnest(${arrayOf(ids)}::text::uuid[]) old(id) join runs r on r.id = old.id`;
    return new Map(rows.map((row) => [row.id, row]));
  }

  private async *eventsOf(id: RunId) {
    for (let seq = 0; ; ) {
      const events = await eventsAfter(this.reads, EVERYTHING, id, seq);
      yield* events;
      const last = events.at(-1);
      if (last === undefined) return;
      seq = last.seq;
    }
  }

  /** The audit rows in a table, up to a time, of runs that are there still: they are about to be dropped with it. */
  async takeEvents(table: string, before: Date): Promise<void> {
    let after: Spanning | undefined;
    const file = async (transaction: TransactionSql): Promise<boolean> => {
      await transaction`set local idle_in_transaction_session_timeout = '5min'`;
      let runs = await spanning(transaction, table, before, after);
      if (runs.length === 0) return false;
      let isFull = false;
      const fill = async (sink: LineSink) => {
        for (; runs.length > 0; runs = await spanning(transaction, table, before, after))
          for (const run of runs) {
            await this.addEarly(sink, run, before);
            after = run;
            isFull = sink.bytes >= FILE_BYTES;
            if (isFull) return;
          }
      };
      await this.folder.write({ holds: "events", at: runs[0]?.now ?? before }, fill);
      return isFull;
    };
    while (await this.sql.begin(file));
  }

  private async addEarly(sink: LineSink, { id, root, tenantId }: Spanning, before: Date): Promise<void> {
    for await (const event of this.eventsOf(id)) {
      if (Date.parse(event.recorded_at) >= before.getTime()) return;
      await sink.add({ kind: "event", run: id, root, tenant_id: tenantId, data: event });
    }
  }
}

/** The roots that are there, locked. Those that an erasure has are left to it. */
async function hold(sql: TransactionSql, families: readonly Family[]) {
  const rows = await sql<{ id: string; begun: boolean; at: Date }[]>`
    select runs.id, now() as at, not exists (select from run_starts s where s.run_id = runs.id) as begun
    from unnest(${arrayOf(families.map(({ root }) => root))}::text::uuid[]) old(id) join runs on runs.id = old.id
    for update of runs skip locked`;
  const ids = (begun: boolean) => new Set(rows.filter((row) => row.begun === begun).map(({ id }) => id));
  return { fresh: ids(false), begun: ids(true), at: rows[0]?.at ?? new Date(0) };
}

/** Runs that have rows in the table, in the order of their starts. The ended ones are locked: they are not erased meanwhile. */
async function spanning(sql: TransactionSql, table: string, before: Date, after: Spanning | undefined) {
  const runs = await sql<Spanning[]>`
    select r.id, coalesce(r.root_run_id, r.id) as root, r.tenant_id as "tenantId", r.started_at::text as at, now() as now
    from runs r
    where r.started_at < ${before.toISOString()}::text::timestamptz
      and (r.started_at, r.id) > (${after?.at ?? "-infinity"}::text::timestamptz, ${after?.id ?? FIRST_ID}::text::uuid)
      and exists (
        select from ${sql(table)} e where e.run_id = r.id and e.recorded_at < ${before.toISOString()}::text::timestamptz)
    order by r.started_at, r.id limit ${SPANNING}`;
  await sql`
    select from unnest(${arrayOf(runs.map(({ id }) => id))}::text::uuid[]) old(id)
    join runs on runs.id = old.id and runs.terminal_at is not null for key share of runs`;
  return runs;
}

async function* itemsOf<Item>(list: (page: PageQuery) => Promise<Page<Item>>): AsyncGenerator<Item> {
  let cursor: string | undefined;
  do {
    const page = await list({ limit: PAGE, offset: 0, ...(cursor !== undefined && { cursor }) });
    yield* page.items;
    cursor = page.next_cursor;
  } while (cursor !== undefined);
}
