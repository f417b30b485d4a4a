// Reads of runs: one, and lists of them, as the interface's SagaRun. Nothing here writes, and nothing here is on the hot
// path: the commit and the load of an actor stand elsewhere.

import type { Fragment, Sql } from "postgres";
import type { JsonObject, StepError } from "../../machines/index.js";
import { isUuid } from "../ids.js";
import {
  type Listing,
  type Page,
  type PageQuery,
  parsedText,
  present,
  type Range,
  readPage,
  timeText,
} from "./page.js";

export interface RunFilter {
  readonly workflowId?: string;
  readonly version?: number;
  readonly states?: readonly string[];
  readonly tenantId?: string;
  readonly triggerId?: string;
  readonly parentRunId?: string;
  readonly rootOnly?: boolean;
  readonly businessKey?: string;
  readonly requiresManualReview?: boolean;
  readonly awaitedSignal?: string;
  readonly currentStep?: string;
  /** RFC 3339; both ends are outside. */
  readonly startedAfter?: string;
  readonly startedBefore?: string;
  /** The beginning of an id or of a business key. */
  readonly q?: string;
}

/** A run as clients see it, and the number of its last audit row. */
export interface RunView {
  readonly run: JsonObject;
  readonly lastSeq: number;
  readonly terminal: boolean;
}

interface RunRow {
  readonly id: string;
  readonly workflow_id: string;
  readonly version: number;
  readonly definition_id: string;
  readonly tenant_id: string | null;
  readonly state: string;
  readonly current_step: string | null;
  readonly started_at: string;
  readonly last_event_at: string;
  readonly terminal_at: string | null;
  readonly requires_manual_review: boolean;
  readonly trigger_id: string | null;
  readonly parent_run_id: string | null;
  readonly parent_step_id: string | null;
  readonly parent_branch_id: string | null;
  readonly root_run_id: string | null;
  readonly awaited_signal: string | null;
  readonly paused_reason: string | null;
  readonly business_key: string | null;
  readonly last_seq: number;
  readonly record: string;
  readonly output: string | null;
  readonly inputs: string | null;
  readonly identity: string | null;
  readonly variables: string | null;
  readonly inherited: string | null;
  readonly gone: string[] | null;
  readonly frames: string | null;
}

/** The part of a run's record (machines/record.ts writes it) and of its identity that clients see. Times are epoch ms. */
interface RecordView {
  readonly wait?: {
    readonly kind: string;
    readonly dueAt?: number;
    readonly attempt?: number;
    readonly dispatchId?: string;
    readonly topic?: string;
    readonly headers?: Readonly<Record<string, string>>;
  };
  readonly ending?: { readonly to: string; readonly error?: StepError; readonly reason: string };
}
interface FrameView {
  readonly kind: string;
  readonly step: string;
  readonly catchStep: string;
}
interface IdentityView {
  readonly features?: Readonly<Record<string, boolean>>;
  readonly dryRun?: boolean;
  readonly delayedUntil?: number;
}

export async function readRun(sql: Sql, runId: string): Promise<RunView | undefined> {
  const [row] = await sql<
    RunRow[]
  >`select ${columns(sql)} from ${joined(sql, sql`select * from runs where id = ${runId}`)}`;
  return row && { run: runItem(row), lastSeq: row.last_seq, terminal: row.terminal_at !== null };
}

export async function runExists(sql: Sql, runId: string): Promise<boolean> {
  return (await sql`select 1 from runs where id = ${runId}`).length > 0;
}

export function listRuns(
  sql: Sql,
  filter: RunFilter,
  page: PageQuery,
  newestFirst: boolean,
): Promise<Page<JsonObject>> {
  const where = conditions(sql, filter);
  const listing: Listing<RunRow, JsonObject> = {
    name: newestFirst ? "-runs" : "runs",
    key: [
      { column: "started_at", kind: "time" },
      { column: "id", kind: "uuid" },
    ],
    descending: newestFirst,
    // The page is picked before anything wide is read, so that rows under the offset cost nothing.
    rows: ({ after, order, window }: Range) => {
      const picked = sql`select * from runs where ${where} and ${after} order by ${order} ${window}`;
      return sql`select ${columns(sql)} from ${joined(sql, picked)}`;
    },
    matching: sql`from runs where ${where}`,
    item: runItem,
    position: (row) => [row.started_at, row.id],
  };
  return readPage(sql, listing, page);
}

function columns(sql: Sql): Fragment {
  return sql`r.id, r.workflow_id, r.version, r.definition_id, r.tenant_id, r.state, r.current_step,
    ${timeText(sql, "r.started_at")}, ${timeText(sql, "r.last_event_at")}, ${timeText(sql, "r.terminal_at")},
    r.requires_manual_review, r.trigger_id, r.parent_run_id, r.parent_step_id, r.parent_branch_id, r.root_run_id,
    r.awaited_signal, r.paused_reason, r.business_key, r.last_seq, r.record::text as record, r.output::text as output,
    coalesce(s.inputs, z.inputs)::text as inputs, s.identity::text as identity, r.frames::text as frames,
    z.variables::text as inherited,
    (select json_object_agg(v.name, v.value order by v.name)::text
      from run_variables v where v.run_id = r.id and v.value is not null) as variables,
    (select array_agg(v.name) from run_variables v where v.run_id = r.id and v.value is null) as gone`;
}

function joined(sql: Sql, picked: Fragment): Fragment {
  return sql`(${picked}) r left join run_starts s on s.run_id = r.id
    left join run_scopes z on r.family_run_id is not null and z.run_id = r.parent_run_id and z.entry = r.parent_entry`;
}

function conditions(sql: Sql, filter: RunFilter): Fragment {
  const { rootOnly, requiresManualReview, states, q } = filter;
  const all: Fragment[] = [];
  if (filter.workflowId !== undefined) all.push(sql`workflow_id = ${filter.workflowId}`);
  if (filter.version !== undefined) all.push(sql`version = ${filter.version}`);
  if (states !== undefined) all.push(sql`state = any(${[...states]}::text[])`);
  if (filter.tenantId !== undefined) all.push(sql`tenant_id = ${filter.tenantId}`);
  if (filter.triggerId !== undefined) all.push(sql`trigger_id = ${filter.triggerId}`);
  if (filter.parentRunId !== undefined) all.push(sql`parent_run_id = ${filter.parentRunId}`);
  if (rootOnly !== undefined) all.push(rootOnly ? sql`parent_run_id is null` : sql`true`);
  if (filter.businessKey !== undefined) all.push(sql`business_key = ${filter.businessKey}`);
  if (requiresManualReview !== undefined) all.push(sql`requires_manual_review = ${requiresManualReview}`);
  if (filter.awaitedSignal !== undefined) all.push(sql`awaited_signal = ${filter.awaitedSignal}`);
  if (filter.currentStep !== undefined) all.push(sql`current_step = ${filter.currentStep}`);
  if (filter.startedAfter !== undefined) all.push(sql`started_at > ${filter.startedAfter}::text::timestamptz`);
  if (filter.startedBefore !== undefined) all.push(sql`started_at < ${filter.startedBefore}::text::timestamptz`);
  if (q !== undefined) all.push(beginsWith(sql, q));
  return all.reduce((left, right) => sql`${left} and ${right}`, sql`true`);
}

const NIL = "00000000-0000-0000-0000-000000000000";

/** `starts_with` takes the text as it is: no wildcards to escape. An id's beginning becomes a range of the primary key. */
function beginsWith(sql: Sql, q: string): Fragment {
  const byKey = sql`coalesce(starts_with(business_key, ${q}), false)`;
  const low = q.toLowerCase() + NIL.slice(q.length);
  const isBeginning = q.length <= NIL.length && isUuid(low);
  if (!isBeginning) return byKey;
  const high = q.toLowerCase() + NIL.replaceAll("0", "f").slice(q.length);
  return sql`(id between ${low} and ${high} or ${byKey})`;
}

function runItem(row: RunRow): JsonObject {
  const record = JSON.parse(row.record) as RecordView;
  const identity = JSON.parse(row.identity ?? "{}") as IdentityView;
  return present({
    id: row.id,
    workflow_id: row.workflow_id,
    version: row.version,
    definition_id: row.definition_id,
    tenant_id: row.tenant_id,
    state: row.state,
    paused_reason: row.paused_reason,
    current_step: row.current_step,
    inputs: parsedText(row.inputs) ?? {},
    variables: variablesOf(row),
    output: parsedText(row.output),
    business_key: row.business_key,
    started_at: row.started_at,
    last_event_at: row.last_event_at,
    terminal_at: row.terminal_at,
    requires_manual_review: row.requires_manual_review,
    trigger_id: row.trigger_id,
    parent_run_id: row.parent_run_id,
    parent_step_id: row.parent_step_id,
    parent_branch_id: row.parent_branch_id,
    root_run_id: row.root_run_id,
    dry_run: identity.dryRun ?? false,
    feature_overrides: nonEmpty(identity.features),
    ...(row.terminal_at === null ? waiting(row, record, identity) : ended(row, record)),
  });
}

/** A branch or an item has what was kept for it, but for what it has changed or removed. */
function variablesOf({ inherited, variables, gone }: RunRow): JsonObject {
  const own = (parsedText(variables) ?? {}) as JsonObject;
  if (inherited === null) return own;
  const all = { ...(parsedText(inherited) as JsonObject), ...own };
  return Object.fromEntries(Object.entries(all).filter(([name]) => !gone?.includes(name)));
}

function waiting(row: RunRow, { wait }: RecordView, { delayedUntil }: IdentityView) {
  const due = row.state === "pending" ? delayedUntil : TIMED.has(wait?.kind ?? "") ? wait?.dueAt : undefined;
  return {
    awaited_signal: row.awaited_signal,
    awaited_event_topic: wait?.topic,
    awaited_event_headers: wait?.headers,
    wakeup_at: due === undefined ? null : new Date(due).toISOString(),
    try_catch_stack: tryCatchStack(row),
    awaited_action_dispatch: wait?.kind === "dispatched" ? wait.dispatchId : null,
    current_attempt: wait?.attempt,
  };
}

function tryCatchStack({ frames }: RunRow): JsonObject[] | null {
  const open = (parsedText(frames) ?? []) as unknown as readonly FrameView[];
  const tries = open.filter(({ kind }) => kind === "try");
  return tries.length > 0 ? tries.map(({ step, catchStep }) => ({ step_id: step, catch_step: catchStep })) : null;
}

const TIMED: ReadonlySet<string> = new Set(["timer", "backoff", "signal", "event", "user_task", "children"]);

/** A run that succeeded may have been on its way to another end: that is no error of it. */
function ended(row: RunRow, { ending }: RecordView) {
  if (row.state === "succeeded" || !ending) return {};
  const { error } = ending;
  return {
    last_error: ending.reason,
    error: error && present({ code: error.code, message: error.message, step_id: error.step_id }),
  };
}

function nonEmpty(features: IdentityView["features"]) {
  return features && Object.keys(features).length > 0 ? features : null;
}
