// Reads of runs: some by their ids, and lists of them, as the interface's SagaRun. Nothing here writes, and nothing here is on the hot path: the
// commit (commit/) and the load of an actor (load.ts) are elsewhere.
import { eq, inArray, sql } from "drizzle-orm";
import type { Sql } from "postgres";
import type { JsonObject, RunContext, RunId } from "../../../machines/index.js";
import { builtOnce, query } from "../engine/query.js";
import { runs } from "../schema.js";
import { allOf, idsInRange, matchingRuns, type RunFilter } from "./matching-runs.js";
import { type Page, type PageQuery, readPage } from "./page.js";
import { runItem } from "./run-item.js";
import { committedRow, type Labels, pickedRuns, type RunRow, wholeRuns } from "./run-row.js";

export type { Labels };

/** A run as clients see it, and the number of its last audit row. */
export interface RunView {
  readonly run: JsonObject;
  readonly lastSeq: number;
  readonly terminal: boolean;
}

/** Runs that are read in one statement, at most: each may have eight megabytes. */
export const READ_TOGETHER = 8;

/** Always as many parameters: of an array, Postgres would expect fewer rows where it knows its length, and plan each execution again. */
const runsByIds = builtOnce((database) => {
  const ids = Array.from({ length: READ_TOGETHER }, (_, nth) => sql.placeholder(`${nth}`));
  return wholeRuns(database, pickedRuns(database).where(inArray(runs.id, ids))).prepare("runs");
});

/** Those of READ_TOGETHER runs that exist, by their ids. */
export async function readRuns(database: Sql, runIds: readonly RunId[]): Promise<ReadonlyMap<RunId, RunView>> {
  const ids = Array.from({ length: READ_TOGETHER }, (_, nth) => runIds[nth] ?? runIds[0]);
  const rows = await runsByIds(database).execute({ ...ids });
  return new Map(rows.map((row) => [row.id, viewOf(row)]));
}

/** The view that `readRuns` would give of the run as it was committed with audit row `lastSeq`, at that time. */
export function committedView(
  { context, at }: { readonly context: RunContext; readonly at: number },
  lastSeq: number,
  labels?: Labels,
): RunView {
  return viewOf(committedRow(context, { lastSeq, lastEventAt: at, labels }));
}

function viewOf(row: RunRow): RunView {
  return { run: runItem(row), lastSeq: row.lastSeq, terminal: row.terminalAt !== null };
}

export async function runExists(database: Sql, runId: RunId): Promise<boolean> {
  const found = await query(database).select({ id: runs.id }).from(runs).where(eq(runs.id, runId));
  return found.length > 0;
}

export async function listRuns(
  database: Sql,
  filter: RunFilter,
  page: PageQuery,
  newestFirst: boolean,
): Promise<Page<JsonObject>> {
  const matching = await matchingRuns(database, filter);
  return readPage(
    database,
    {
      name: newestFirst ? "-runs" : "runs",
      key: [
        { column: runs.startedAt, kind: "time" },
        { column: runs.id, kind: "uuid" },
      ],
      descending: newestFirst,
      rows: (range) =>
        wholeRuns(database, pickedRuns(database).where(sql`${runs.id} in (${idsInRange(matching, range)})`)),
      matching: { from: allOf(matching) },
      item: runItem,
      position: ({ startedAt, id }) => [startedAt.toISOString(), id],
    },
    page,
  );
}
