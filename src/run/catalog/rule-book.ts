// The rule book: published rules in memory, because a run's `decision` cannot wait for a read. A rule never changes under its
// id, so a refresh reads all ids but only new documents. Requests of the API read rules from the store, not from here.
import type { Sql } from "postgres";
import { compileRule, type Rule } from "../../../machines/index.js";
import type { Logger } from "../../log.js";
import { publishedRules, readRulesById } from "../../store/rules.js";
import type { StoredVersion } from "../../store/versions.js";

/** Documents read in one statement; a rule may have 2 MiB. */
const READ_BATCH = 50;

/** Compiled on first use: most nodes need few of all rules. */
interface CachedRule {
  readonly stored: StoredVersion;
  /** Null: the rule does not compile. */
  compiled?: Rule | null;
}

export class RuleBook {
  private cached = new Map<string, CachedRule>();

  constructor(
    private readonly sql: Sql,
    private readonly log: Logger,
  ) {}

  rule(ruleId: string): Rule | undefined {
    const cached = this.cached.get(ruleId);
    return cached && this.compiled(cached);
  }

  async refresh(): Promise<void> {
    const published = await publishedRules(this.sql);
    const cached = new Map<string, CachedRule>();
    const missing: string[] = [];
    for (const { id, key: ruleId } of published) {
      const known = this.cached.get(ruleId);
      if (known?.stored.id === id) cached.set(ruleId, known);
      else missing.push(id);
    }
    for (let from = 0; from < missing.length; from += READ_BATCH) {
      const found = await readRulesById(this.sql, missing.slice(from, from + READ_BATCH));
      for (const stored of found) cached.set(stored.key, { stored });
    }
    this.cached = cached;
  }

  private compiled(cached: CachedRule): Rule | undefined {
    if (cached.compiled === undefined) {
      const { rule, problems } = compileRule(cached.stored.item, { stored: true });
      cached.compiled = rule ?? null;
      const { key: ruleId, version } = cached.stored;
      if (!rule) this.log.error({ ruleId, version, path: problems[0]?.path }, "stored rule no longer compiles");
    }
    return cached.compiled ?? undefined;
  }
}
