// The rule book: published rules in memory, because a run's `decision` cannot wait for a read. A refresh reads the state of the table, the
// ids of all rules if that has changed, and only new documents. Requests of the API read rules from the store, not from here.
import type { Sql } from "postgres";
import { compileRule, type JsonObject, type Rule, WeightedCache } from "../../machines/index.js";
import type { Logger } from "../log.js";
import { stateOf } from "../store/engine/table-state.js";
import { publishedRules, readRulesById } from "../store/lists/rules.js";
import { isUsable, type Tenants } from "../store/owners.js";

/** Documents read in one statement; a rule may have 2 MiB. */
const READ_BATCH = 50;
/** Characters of the documents whose compiled rules are kept: a compiled rule takes about ten bytes for each of them. */
const MAX_COMPILED_CHARS = 4 * 1024 * 1024;

/** A rule never changes under its id. It may be given to a tenant. */
interface Known {
  readonly id: string;
  readonly version: number;
  readonly tenantId: string | null;
  /** The text, which takes a tenth of what it is as objects: most nodes need few of all rules. */
  readonly document: string;
}

export class RuleBook {
  private tableState = "";
  private known = new Map<string, Known>();
  /** Compiled rules by id. Null: the rule does not compile. */
  private readonly compiled: WeightedCache<string, Rule | null>;

  constructor(
    private readonly sql: Sql,
    private readonly log: Logger,
    maxCompiledChars = MAX_COMPILED_CHARS,
  ) {
    this.compiled = new WeightedCache(maxCompiledChars);
  }

  rule(ruleId: string, tenants: Tenants): Rule | undefined {
    const known = this.known.get(ruleId);
    if (!known || !isUsable(known.tenantId, tenants)) return undefined;
    return this.compiledOf(ruleId, known) ?? undefined;
  }

  /** The size of what is compiled, in characters of its documents. */
  get compiledChars(): number {
    return this.compiled.weight;
  }

  async refresh(): Promise<void> {
    const tableState = await stateOf(this.sql, "rules");
    if (tableState === this.tableState) return;
    const known = new Map<string, Known>();
    const missing: string[] = [];
    for (const { id, key: ruleId, tenantId } of await publishedRules(this.sql)) {
      const before = this.known.get(ruleId);
      if (before?.id === id) known.set(ruleId, { ...before, tenantId });
      else missing.push(id);
    }
    for (let from = 0; from < missing.length; from += READ_BATCH)
      for (const rule of await readRulesById(this.sql, missing.slice(from, from + READ_BATCH))) {
        const { id, key, version, tenantId, item } = rule;
        known.set(key, { id, version, tenantId, document: JSON.stringify(item) });
      }
    this.known = known;
    this.tableState = tableState;
  }

  private compiledOf(ruleId: string, { id, version, document }: Known): Rule | null {
    const compiled = this.compiled.get(id);
    if (compiled !== undefined) return compiled;
    const { rule = null, problems } = compileRule(JSON.parse(document) as JsonObject, { stored: true });
    if (!rule) this.log.error({ ruleId, version, path: problems[0]?.path }, "stored rule no longer compiles");
    this.compiled.set(id, rule, document.length);
    return rule;
  }
}
