// Rule documents: their columns, and which rules are published. The rules of versions are versions.ts; documents arrive
// validated, and compiling them is not done here.
import type { ISql, Sql } from "postgres";
import type { JsonObject } from "../../machines/index.js";
import { uuidv7 } from "../ids.js";
import { type Page, type PageQuery, present, timeText } from "./page.js";
import { type VersionDraft, type VersionedKind, Versions } from "./versions.js";

/** A valid rule on its way into the store. */
export interface RuleDraft extends VersionDraft {
  readonly ruleId: string;
  readonly tenantId?: string;
  readonly name: string;
  readonly ruleType: string;
  readonly spec: JsonObject;
  readonly createdBy?: string;
}

export interface StoredRule {
  /** Of this version: another content is another id. */
  readonly id: string;
  readonly ruleId: string;
  readonly version: number;
  readonly published: boolean;
  /** As clients see it, and a document that compiles. */
  readonly item: JsonObject;
}

interface RuleRow {
  readonly id: string;
  readonly rule_id: string;
  readonly version: number;
  readonly tenant_id: string | null;
  readonly name: string;
  readonly rule_type: string;
  readonly spec: string;
  readonly published: boolean;
  readonly created_at: string;
  readonly created_by: string | null;
}

const columns = (sql: ISql) =>
  sql`id, rule_id, version, tenant_id, name, rule_type, spec::text as spec, published, ${timeText(sql, "created_at")},
  created_by`;

const kind: VersionedKind<RuleDraft, RuleRow> = {
  what: "rule",
  table: "rules",
  id: "id",
  key: "rule_id",
  columns,
  idOf: ({ id }) => id,
  keyOf: (of) => ("rule_id" in of ? of.rule_id : of.ruleId),
  equals: (sql, { tenantId = null, name, ruleType, spec }) => sql`
    tenant_id is not distinct from ${tenantId}::text and name = ${name} and rule_type = ${ruleType}
    and spec::jsonb = ${JSON.stringify(spec)}::text::jsonb`,
  write,
  item: (row) => rule(row).item,
};

const versions = new Versions(kind);

/** `stored` is false where a version with this content was there already. 409 where the version was published with another. */
export async function storeRule(sql: Sql, draft: RuleDraft): Promise<{ rule: StoredRule; stored: boolean }> {
  const { row, stored } = await versions.store(sql, draft);
  return { rule: rule(row), stored };
}

/** Undefined: no such version. */
export async function publishRule(
  sql: Sql,
  ruleId: string,
  version: number,
  published: boolean,
): Promise<StoredRule | undefined> {
  const row = await versions.publish(sql, ruleId, version, published);
  return row && rule(row);
}

/** The version whether it is published or not; without `version` the latest published one. */
export async function readRule(sql: Sql, ruleId: string, version?: number): Promise<StoredRule | undefined> {
  const row = await versions.read(sql, ruleId, version);
  return row && rule(row);
}

export function ruleExists(sql: Sql, ruleId: string): Promise<boolean> {
  return versions.exists(sql, ruleId);
}

/** One item a rule: its latest published version, or its latest draft. */
export function listRules(sql: Sql, page: PageQuery): Promise<Page<JsonObject>> {
  return versions.list(sql, page);
}

/** Newest first. */
export function listRuleVersions(sql: Sql, ruleId: string, page: PageQuery): Promise<Page<JsonObject>> {
  return versions.versions(sql, ruleId, page);
}

/** The latest published version of every rule, by the id of its content. */
export async function publishedRules(sql: Sql): Promise<readonly { readonly id: string; readonly ruleId: string }[]> {
  return sql<{ id: string; ruleId: string }[]>`
    select distinct on (rule_id) id, rule_id as "ruleId" from rules where published order by rule_id, version desc`;
}

export async function readRulesById(sql: Sql, ids: readonly string[]): Promise<readonly StoredRule[]> {
  if (ids.length === 0) return [];
  return (await sql<RuleRow[]>`select ${columns(sql)} from rules where id = any(${[...ids]}::uuid[])`).map(rule);
}

/** A draft may be replaced, by content with an id of its own: whoever knows the old id never sees other content under it. */
async function write(sql: ISql, draft: RuleDraft & { readonly version: number }): Promise<RuleRow | undefined> {
  const { ruleId, version, tenantId = null, name, ruleType, publish, createdBy = null } = draft;
  const [row] = await sql<RuleRow[]>`
    insert into rules (id, rule_id, version, tenant_id, name, rule_type, spec, published, ever_published, created_by)
    values (${uuidv7()}, ${ruleId}, ${version}, ${tenantId}, ${name}, ${ruleType}, ${JSON.stringify(draft.spec)}::text::json,
      ${publish}, ${publish}, ${createdBy})
    on conflict (rule_id, version) do update set id = excluded.id, tenant_id = excluded.tenant_id, name = excluded.name,
      rule_type = excluded.rule_type, spec = excluded.spec, published = excluded.published,
      ever_published = excluded.ever_published, created_at = excluded.created_at, created_by = excluded.created_by
      where not rules.ever_published
    returning ${columns(sql)}`;
  return row;
}

function rule(row: RuleRow): StoredRule {
  const { id, rule_id, version, tenant_id, name, rule_type, published, created_at, created_by } = row;
  const spec = JSON.parse(row.spec) as JsonObject;
  const item = present({ id, rule_id, version, tenant_id, name, rule_type, spec, published, created_at, created_by });
  return { id, ruleId: rule_id, version, published, item };
}
