// The published rules of a node, in memory: a run's `decision` cannot wait for a read. What a rule holds never changes under
// its id, so a refresh reads the ids, and only what is new among them. Not where a request reads: that asks the store.
import type { Sql } from "postgres";
import { compileRule, type Rule } from "../../machines/index.js";
import type { Logger } from "../log.js";
import { publishedRules, readRulesById, type StoredRule } from "../store/rules.js";

/** Documents read in one statement; a rule may have 2 MiB. */
const SLICE = 50;

/** Compiled when it is first asked for: most nodes need few of the rules there are. */
interface Held {
  readonly stored: StoredRule;
  /** Null: it does not compile. */
  compiled?: Rule | null;
}

export class RuleBook {
  private held = new Map<string, Held>();

  constructor(
    private readonly sql: Sql,
    private readonly log: Logger,
  ) {}

  rule(ruleId: string): Rule | undefined {
    const held = this.held.get(ruleId);
    return held && this.compiled(held);
  }

  async refresh(): Promise<void> {
    const published = await publishedRules(this.sql);
    const held = new Map<string, Held>();
    const missing: string[] = [];
    for (const { id, ruleId } of published) {
      const known = this.held.get(ruleId);
      if (known?.stored.id === id) held.set(ruleId, known);
      else missing.push(id);
    }
    for (let from = 0; from < missing.length; from += SLICE) {
      const found = await readRulesById(this.sql, missing.slice(from, from + SLICE));
      for (const stored of found) held.set(stored.ruleId, { stored });
    }
    this.held = held;
  }

  private compiled(held: Held): Rule | undefined {
    if (held.compiled === undefined) {
      const { rule, problems } = compileRule(held.stored.item);
      held.compiled = rule ?? null;
      const { ruleId, version } = held.stored;
      if (!rule) this.log.error({ ruleId, version, path: problems[0]?.path }, "a stored rule no longer compiles");
    }
    return held.compiled ?? undefined;
  }
}
