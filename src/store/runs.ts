// Reads of runs: one, and lists of them, as the interface's SagaRun. Nothing here writes, and nothing here is on the hot path: the
// commit (commit/) and the load of an actor (load.ts) are elsewhere.
import { and, between, eq, gt, isNull, lt, or, type SQL, sql } from "drizzle-orm";
import type { PgColumn } from "drizzle-orm/pg-core";
import type { Sql } from "postgres";
import { asRunId, type JsonObject, type RunId } from "../../machines/index.js";
import { isUuid } from "../ids.js";
import { inRange, type Page, type PageQuery, readPage } from "./page.js";
import { builtOnce, query } from "./query.js";
import { runItem } from "./run-item.js";
import { pickedRuns, wholeRuns } from "./run-row.js";
import { runLabels, runs } from "./schema.js";

export interface RunFilter {
  readonly workflowId?: string;
  readonly version?: number;
  readonly states?: readonly string[];
  readonly tenantId?: string;
  readonly triggerId?: string;
  readonly parentRunId?: RunId;
  readonly rootOnly?: boolean;
  readonly businessKey?: string;
  readonly requiresManualReview?: boolean;
  readonly awaitedSignal?: string;
  readonly currentStep?: string;
  /** RFC 3339; both bounds are exclusive. */
  readonly startedAfter?: string;
  readonly startedBefore?: string;
  /** The run has all of them. */
  readonly labels?: Readonly<Record<string, string>>;
  /** The beginning of an id or of a business key. */
  readonly q?: string;
}

/** A run as clients see it, and the number of its last audit row. */
export interface RunView {
  readonly run: JsonObject;
  readonly lastSeq: number;
  readonly terminal: boolean;
}

const runById = builtOnce((database) =>
  wholeRuns(database, pickedRuns(database).where(eq(runs.id, sql.placeholder("runId")))).prepare("run"),
);

export async function readRun(database: Sql, runId: RunId): Promise<RunView | undefined> {
  const [row] = await runById(database).execute({ runId });
  return row && { run: runItem(row), lastSeq: row.lastSeq, terminal: row.terminalAt !== null };
}

export async function runExists(database: Sql, runId: RunId): Promise<boolean> {
  const found = await query(database).select({ id: runs.id }).from(runs).where(eq(runs.id, runId));
  return found.length > 0;
}

export function listRuns(
  database: Sql,
  filter: RunFilter,
  page: PageQuery,
  newestFirst: boolean,
): Promise<Page<JsonObject>> {
  const where = conditions(filter);
  return readPage(
    database,
    {
      name: newestFirst ? "-runs" : "runs",
      key: [
        { column: runs.startedAt, kind: "time" },
        { column: runs.id, kind: "uuid" },
      ],
      descending: newestFirst,
      rows: (range) => wholeRuns(database, inRange(pickedRuns(database), where, range)),
      matching: { from: runs, where },
      item: runItem,
      position: ({ startedAt, id }) => [startedAt.toISOString(), id],
    },
    page,
  );
}

function conditions(filter: RunFilter): SQL | undefined {
  const { states, rootOnly, startedAfter, startedBefore, q } = filter;
  return and(
    equals(runs.workflowId, filter.workflowId),
    equals(runs.version, filter.version),
    states && sql`${runs.state} = any(${sql.param([...states])}::text[])`,
    equals(runs.tenantId, filter.tenantId),
    equals(runs.triggerId, filter.triggerId),
    equals(runs.parentRunId, filter.parentRunId),
    rootOnly ? isNull(runs.parentRunId) : undefined,
    equals(runs.businessKey, filter.businessKey),
    equals(runs.requiresManualReview, filter.requiresManualReview),
    equals(runs.awaitedSignal, filter.awaitedSignal),
    equals(runs.currentStep, filter.currentStep),
    startedAfter === undefined ? undefined : gt(runs.startedAt, sql`${startedAfter}::text::timestamptz`),
    startedBefore === undefined ? undefined : lt(runs.startedAt, sql`${startedBefore}::text::timestamptz`),
    ...Object.entries(filter.labels ?? {}).map(hasLabel),
    q === undefined ? undefined : beginsWith(q),
  );
}

function equals(column: PgColumn, value: string | number | boolean | undefined): SQL | undefined {
  return value === undefined ? undefined : eq(column, value);
}

function hasLabel([name, value]: readonly [string, string]): SQL {
  const { runId, name: label, value: text } = runLabels;
  return sql`${runs.id} in (select ${runId} from ${runLabels} where ${label} = ${name} and ${text} = ${value})`;
}

const NIL = "00000000-0000-0000-0000-000000000000";

/** `starts_with` takes the text as it is: no wildcards to escape. An id's beginning becomes a range of the primary key. */
function beginsWith(q: string): SQL | undefined {
  const byKey = sql`coalesce(starts_with(${runs.businessKey}, ${q}), false)`;
  const low = q.toLowerCase() + NIL.slice(q.length);
  const isBeginning = q.length <= NIL.length && isUuid(low);
  if (!isBeginning) return byKey;
  const high = q.toLowerCase() + NIL.replaceAll("0", "f").slice(q.length);
  return or(between(runs.id, asRunId(low), asRunId(high)), byKey);
}
