// Reads of runs: some by their ids, and lists of them, as the interface's SagaRun. Nothing here writes, and nothing here is on the hot path: the
// commit (commit/) and the load of an actor (load.ts) are elsewhere.
import { and, eq, inArray, sql } from "drizzle-orm";
import type { Sql } from "postgres";
import type { JsonObject, RunContext, RunId } from "../../../machines/index.js";
import { builtOnce, query } from "../engine/query.js";
import { runs } from "../schema.js";
import { allOf, idsInRange, matchingRuns, type RunFilter } from "./matching-runs.js";
import { type Page, type PageQuery, readPage } from "./page.js";
import { OF_RUN, type Reach, shapeOf, valuesOf, within, withinKept } from "./reach.js";
import { runItem } from "./run-item.js";
import { committedRow, type Labels, pickedRuns, type RunViewRow, wholeRuns } from "./run-row.js";

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
function runsByIds(database: Sql, reach: Reach) {
  const ids = Array.from({ length: READ_TOGETHER }, (_, nth) => sql.placeholder(`${nth}`));
  const where = and(inArray(runs.id, ids), withinKept(reach, OF_RUN));
  return wholeRuns(database, pickedRuns(database).where(where)).prepare("runs");
}

/** The statements by the shape of the reach: there are a few. */
const builtStatements = builtOnce(() => new Map<string, ReturnType<typeof runsByIds>>());

/** Those of READ_TOGETHER runs that exist, by their ids. */
export async function readRuns(
  database: Sql,
  reach: Reach,
  runIds: readonly RunId[],
): Promise<ReadonlyMap<RunId, RunView>> {
  const ids = Array.from({ length: READ_TOGETHER }, (_, nth) => runIds[nth] ?? runIds[0]);
  const [statements, shape] = [builtStatements(database), shapeOf(reach, OF_RUN)];
  const statement = statements.get(shape) ?? runsByIds(database, reach);
  statements.set(shape, statement);
  const rows = await statement.execute({ ...ids, ...valuesOf(reach, OF_RUN) });
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

function viewOf(row: RunViewRow): RunView {
  return { run: runItem(row), lastSeq: row.lastSeq, terminal: row.terminalAt !== null };
}

export async function runExists(database: Sql, reach: Reach, runId: RunId): Promise<boolean> {
  const where = and(eq(runs.id, runId), within(reach, OF_RUN));
  const found = await query(database).select({ id: runs.id }).from(runs).where(where);
  return found.length > 0;
}

export async function listRuns(
  database: Sql,
  reach: Reach,
  filter: RunFilter,
  page: PageQuery,
  newestFirst: boolean,
): Promise<Page<JsonObject>> {
  const matching = await matchingRuns(database, reach, filter);
  return readPage(
    database,
    {
      name: newestFirst ? "-runs" : "runs",
      reach,
      key: [
        { column: runs.startedAt, kind: "time" },
        { column: runs.id, kind: "uuid" },
      ],
      descending: newestFirst,
      rows: (range) => {
        const picked = pickedRuns(database).where(sql`${runs.id} in (${idsInRange(matching, range)})`);
        // It cuts nothing off. Without a limit, Postgres would read the call and what a branch inherits once to measure the row and once to send it.
        return wholeRuns(database, picked).limit(range.limit);
      },
      matching: { from: allOf(matching) },
      item: runItem,
      position: ({ startedAt, id }) => [startedAt.toISOString(), id],
    },
    page,
  );
}
