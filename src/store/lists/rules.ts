// Rule documents: their content, and which rules are published. The rules of versions are in versions.ts; documents arrive validated, and
// are compiled elsewhere.
import { and, desc, eq, sql } from "drizzle-orm";
import type { Sql } from "postgres";
import type { JsonObject } from "../../../machines/index.js";
import { query } from "../engine/query.js";
import { rules } from "../schema.js";
import { present } from "./item.js";
import { type StoredVersion, type VersionDraft, Versions } from "./versions.js";

/** A valid rule on its way into the store; its key is the rule's id. */
export interface RuleDraft extends VersionDraft {
  readonly ruleType: string;
  readonly spec: JsonObject;
}

export const ruleVersions = new Versions<RuleDraft, typeof rules.$inferSelect>({
  noun: "rule",
  table: rules,
  content: ({ ruleType, spec }) => ({ ruleType, spec }),
  equals: ({ forTenant = null, name, ruleType, spec }) =>
    and(
      sql`${rules.forTenant} is not distinct from ${forTenant}::text`,
      eq(rules.name, name),
      eq(rules.ruleType, ruleType),
      sql`${rules.spec}::jsonb = ${JSON.stringify(spec)}::text::jsonb`,
    ),
  item: ({ id, key, version, forTenant, name, ruleType, spec, published, createdAt, createdBy }) =>
    present({
      ...{ id, rule_id: key, version, tenant_id: forTenant, name, rule_type: ruleType, spec },
      ...{ published, created_at: createdAt, created_by: createdBy },
    }),
});

/** The latest published version of every rule, by the id of its content, and whose it is. */
export function publishedRules(database: Sql): Promise<readonly Pick<StoredVersion, "id" | "key" | "tenantId">[]> {
  return query(database)
    .selectDistinctOn([rules.key], { id: rules.id, key: rules.key, tenantId: rules.tenantId })
    .from(rules)
    .where(eq(rules.published, true))
    .orderBy(rules.key, desc(rules.version));
}

export async function readRulesById(database: Sql, ids: readonly string[]): Promise<readonly StoredVersion[]> {
  if (ids.length === 0) return [];
  // One parameter for all ids: the statement is the same for any number of them.
  const named = sql`${rules.id} = any(${sql.param([...ids])}::uuid[])`;
  return (await query(database).select().from(rules).where(named)).map((row) => ruleVersions.stored(row));
}
