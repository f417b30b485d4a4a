// Workflow documents: storing versions by their rules, publishing, reading, and what their runs amount to. Documents arrive
// validated; compiling them is not done here.
import type { Fragment, ISql, Sql, TransactionSql } from "postgres";
import type { JsonObject } from "../../machines/index.js";
import { conflict } from "../errors.js";
import { uuidv7 } from "../ids.js";
import { type Listing, type Page, type PageQuery, present, readPage, timeText } from "./page.js";

/** A valid document on its way into the store. */
export interface Draft {
  readonly workflowId: string;
  /** Absent: the highest + 1, unless a stored version equals it. */
  readonly version?: number;
  readonly tenantId?: string;
  readonly name: string;
  readonly publish: boolean;
  readonly createdBy?: string;
  readonly document: JsonObject;
}

export interface Definition {
  readonly definitionId: string;
  readonly workflowId: string;
  readonly version: number;
  readonly published: boolean;
  /** As clients see it: the document as it was posted, with what the service says of it. */
  readonly item: JsonObject;
}

interface DefinitionRow {
  readonly definition_id: string;
  readonly workflow_id: string;
  readonly version: number;
  readonly published: boolean;
  readonly created_at: string;
  readonly created_by: string | null;
  readonly document: string;
}

const columns = (
  sql: ISql,
) => sql`definition_id, workflow_id, version, published, ${timeText(sql, "created_at")}, created_by,
  document::text as document`;

/** What a document says of its own storage is no part of its content. */
const CONTENT = `- '{version,published,created_at,created_by}'::text[]`;

/** `stored` is false where a version with this content was there already. 409 where the version was published with another. */
export async function storeDefinition(sql: Sql, draft: Draft): Promise<{ definition: Definition; stored: boolean }> {
  return sql.begin(async (transaction) => {
    await lock(transaction, draft.workflowId);
    const text = JSON.stringify(draft.document);
    const same = await findEqual(transaction, draft, text);
    if (same && (same.published || !draft.publish)) return { definition: same, stored: false };
    if (same) return { definition: await setPublished(transaction, same, true), stored: false };
    const version = draft.version ?? (await highest(transaction, draft.workflowId)) + 1;
    return { definition: await write(transaction, { ...draft, version }), stored: true };
  });
}

/** Undefined: no such version. Once published a version is immutable, also after it is unpublished. */
export async function publishDefinition(
  sql: Sql,
  workflowId: string,
  version: number,
  published: boolean,
): Promise<Definition | undefined> {
  return sql.begin(async (transaction) => {
    await lock(transaction, workflowId);
    const found = await readDefinition(transaction, workflowId, version);
    return found && setPublished(transaction, found, published);
  });
}

/** The version whether it is published or not; without `version` the latest published one. */
export async function readDefinition(sql: ISql, workflowId: string, version?: number): Promise<Definition | undefined> {
  const which = version === undefined ? sql`published` : sql`version = ${version}`;
  const [row] = await sql<DefinitionRow[]>`
    select ${columns(sql)} from definitions where workflow_id = ${workflowId} and ${which} order by version desc limit 1`;
  return row && definition(row);
}

export async function workflowExists(sql: Sql, workflowId: string): Promise<boolean> {
  return (await sql`select 1 from definitions where workflow_id = ${workflowId} limit 1`).length > 0;
}

/** One item a workflow: its latest published version, or its latest draft. */
export function listWorkflows(sql: Sql, page: PageQuery): Promise<Page<JsonObject>> {
  const latest = sql`(select distinct on (workflow_id) * from definitions order by workflow_id, published desc, version desc) d`;
  return readPage(
    sql,
    {
      ...listing("workflows", "workflow_id", (row) => row.workflow_id),
      rows: ({ after, order, window }) =>
        sql`select ${columns(sql)} from ${latest} where ${after} order by ${order} ${window}`,
      matching: sql`from (select distinct workflow_id from definitions) d`,
    },
    page,
  );
}

/** Newest first. */
export function listVersions(sql: Sql, workflowId: string, page: PageQuery): Promise<Page<JsonObject>> {
  const matching = sql`from definitions where workflow_id = ${workflowId}`;
  return readPage(
    sql,
    {
      ...listing("versions", "version", (row) => String(row.version)),
      descending: true,
      rows: ({ after, order, window }) =>
        sql`select ${columns(sql)} ${matching} and ${after} order by ${order} ${window}`,
      matching,
    },
    page,
  );
}

export interface WorkflowStats {
  /** 0 to 1, null where none ended. Cancelled, dry and child runs do not count. */
  readonly success_rate_24h: number | null;
  readonly last_run_at: string | null;
  /** Runs that have not ended. */
  readonly in_flight: number;
}

export async function workflowStats(sql: Sql, workflowId: string): Promise<WorkflowStats> {
  const ended = sql`
    select count(*) filter (where r.state = 'succeeded')::float8 as succeeded, count(*)::float8 as ended
    from runs r left join run_starts s on s.run_id = r.id
    where r.workflow_id = ${workflowId} and r.terminal_at > now() - interval '24 hours' and r.parent_run_id is null
      and r.state in ('succeeded', 'failed') and coalesce((s.identity->>'dryRun')::bool, false) is false`;
  const newest = sql`
    select started_at from runs where workflow_id = ${workflowId} order by started_at desc limit 1`;
  const [row] = await sql<(Omit<WorkflowStats, "success_rate_24h"> & { succeeded: number; ended: number })[]>`
    select ended.*, (select ${timeText(sql, "started_at")} from (${newest}) newest) as last_run_at,
      (select count(*)::float8 from runs where workflow_id = ${workflowId} and terminal_at is null) as in_flight
    from (${ended}) ended`;
  if (!row) return { success_rate_24h: null, last_run_at: null, in_flight: 0 };
  const { succeeded, last_run_at, in_flight } = row;
  return { success_rate_24h: row.ended === 0 ? null : succeeded / row.ended, last_run_at, in_flight };
}

/** Versions of one workflow are given out one at a time; the lock ends with the transaction. */
async function lock(transaction: TransactionSql, workflowId: string): Promise<void> {
  await transaction`select pg_advisory_xact_lock(hashtextextended(${`definitions:${workflowId}`}, 0))`;
}

async function findEqual(sql: ISql, draft: Draft, text: string): Promise<Definition | undefined> {
  const which = draft.version === undefined ? sql`true` : sql`version = ${draft.version}`;
  const content = (of: Fragment) => sql`(${of})::jsonb ${sql.unsafe(CONTENT)}`;
  const [row] = await sql<DefinitionRow[]>`
    select ${columns(sql)} from definitions
    where workflow_id = ${draft.workflowId} and ${which} and ${content(sql`document`)} = ${content(sql`${text}::text`)}
    order by version desc limit 1`;
  return row && definition(row);
}

async function highest(sql: ISql, workflowId: string): Promise<number> {
  const [row] = await sql<{ highest: number | null }[]>`
    select max(version) as highest from definitions where workflow_id = ${workflowId}`;
  return row?.highest ?? 0;
}

/** A draft may be replaced, by a definition with an id of its own: whoever knows the old id never sees other content under it. */
async function write(sql: ISql, draft: Draft & { readonly version: number }): Promise<Definition> {
  const { workflowId, version, tenantId = null, name, publish, createdBy = null } = draft;
  const document = JSON.stringify({ ...draft.document, version });
  const [row] = await sql<DefinitionRow[]>`
    insert into definitions (definition_id, workflow_id, version, tenant_id, name, published, ever_published, document, created_by)
    values (${uuidv7()}, ${workflowId}, ${version}, ${tenantId}, ${name}, ${publish}, ${publish}, ${document}::text::json, ${createdBy})
    on conflict (workflow_id, version) do update set definition_id = excluded.definition_id, tenant_id = excluded.tenant_id,
      name = excluded.name, published = excluded.published, ever_published = excluded.ever_published,
      document = excluded.document, created_at = excluded.created_at, created_by = excluded.created_by
      where not definitions.ever_published
    returning ${columns(sql)}`;
  if (row) return definition(row);
  throw conflict(
    `version ${version} of workflow ${workflowId} was published with other content; post it as a new version`,
  );
}

async function setPublished(sql: ISql, { definitionId }: Definition, published: boolean): Promise<Definition> {
  const [row] = await sql<DefinitionRow[]>`
    update definitions set published = ${published}, ever_published = ever_published or ${published}
    where definition_id = ${definitionId} returning ${columns(sql)}`;
  if (!row) throw new Error("a definition went while its workflow was locked");
  return definition(row);
}

function definition(row: DefinitionRow): Definition {
  const { definition_id: definitionId, workflow_id: workflowId, version, published, created_at, created_by } = row;
  const document = JSON.parse(row.document) as JsonObject;
  const item = { ...document, ...present({ id: workflowId, version, published, created_at, created_by }) };
  return { definitionId, workflowId, version, published, item };
}

function listing(name: string, column: "workflow_id" | "version", position: (row: DefinitionRow) => string) {
  return {
    name,
    key: [{ column, kind: column === "version" ? "integer" : "text" }],
    item: (row) => definition(row).item,
    position: (row) => [position(row)],
  } satisfies Omit<Listing<DefinitionRow, JsonObject>, "rows" | "matching">;
}
