// Workflow documents: their columns, and what their runs amount to. The rules of versions are versions.ts; documents arrive
// validated, and compiling them is not done here.
import type { Fragment, ISql, Sql } from "postgres";
import type { JsonObject } from "../../machines/index.js";
import { uuidv7 } from "../ids.js";
import { type Page, type PageQuery, present, timeText } from "./page.js";
import { type VersionDraft, type VersionedKind, Versions } from "./versions.js";

/** A valid document on its way into the store. */
export interface Draft extends VersionDraft {
  readonly workflowId: string;
  readonly tenantId?: string;
  readonly name: string;
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

const kind: VersionedKind<Draft, DefinitionRow> = {
  what: "workflow",
  table: "definitions",
  id: "definition_id",
  key: "workflow_id",
  columns,
  idOf: ({ definition_id }) => definition_id,
  keyOf: (of) => ("workflow_id" in of ? of.workflow_id : of.workflowId),
  equals(sql, { document }) {
    const content = (of: Fragment) => sql`(${of})::jsonb ${sql.unsafe(CONTENT)}`;
    return sql`${content(sql`document`)} = ${content(sql`${JSON.stringify(document)}::text`)}`;
  },
  write,
  item: (row) => definition(row).item,
};

const versions = new Versions(kind);

/** `stored` is false where a version with this content was there already. 409 where the version was published with another. */
export async function storeDefinition(sql: Sql, draft: Draft): Promise<{ definition: Definition; stored: boolean }> {
  const { row, stored } = await versions.store(sql, draft);
  return { definition: definition(row), stored };
}

/** Undefined: no such version. Once published a version is immutable, also after it is unpublished. */
export async function publishDefinition(
  sql: Sql,
  workflowId: string,
  version: number,
  published: boolean,
): Promise<Definition | undefined> {
  const row = await versions.publish(sql, workflowId, version, published);
  return row && definition(row);
}

/** The version whether it is published or not; without `version` the latest published one. */
export async function readDefinition(sql: Sql, workflowId: string, version?: number): Promise<Definition | undefined> {
  const row = await versions.read(sql, workflowId, version);
  return row && definition(row);
}

export function workflowExists(sql: Sql, workflowId: string): Promise<boolean> {
  return versions.exists(sql, workflowId);
}

/** One item a workflow: its latest published version, or its latest draft. */
export function listWorkflows(sql: Sql, page: PageQuery): Promise<Page<JsonObject>> {
  return versions.list(sql, page);
}

/** Newest first. */
export function listVersions(sql: Sql, workflowId: string, page: PageQuery): Promise<Page<JsonObject>> {
  return versions.versions(sql, workflowId, page);
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

/** A draft may be replaced, by a definition with an id of its own: whoever knows the old id never sees other content under it. */
async function write(sql: ISql, draft: Draft & { readonly version: number }): Promise<DefinitionRow | undefined> {
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
  return row;
}

function definition(row: DefinitionRow): Definition {
  const { definition_id: definitionId, workflow_id: workflowId, version, published, created_at, created_by } = row;
  const document = JSON.parse(row.document) as JsonObject;
  const item = { ...document, ...present({ id: workflowId, version, published, created_at, created_by }) };
  return { definitionId, workflowId, version, published, item };
}
