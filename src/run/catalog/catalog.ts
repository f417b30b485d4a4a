// The catalog of a node: compiled definitions, action registrations and rules in memory. A definition never changes under its
// id, so a program is compiled once; registrations, rules and "the published version" are re-read when told, and every few seconds.
import type { Sql } from "postgres";
import {
  type ActionFact,
  compileWorkflow,
  type JsonObject,
  type Program,
  type RetryPolicy,
  type Rule,
} from "../../machines/index.js";
import type { Logger } from "../log.js";
import type { Catalog } from "./ports.js";
import { RuleBook } from "./rule-book.js";

/** Compiled programs kept; the least recently used goes first. About 1 MB each for a graph of 1,000 steps. */
const MAX_PROGRAMS = 1_000;
/** Another node's registration or rule is known here after this at the latest. */
const REFRESH_MS = 2_000;

interface Published {
  readonly definitionId: string;
  readonly program: Program;
}

export class StoreCatalog implements Catalog {
  private readonly programs = new Map<string, Program>();
  private readonly latest = new Map<string, { readonly found: Published; readonly until: number }>();
  private actions = new Map<string, RegisteredAction[]>();
  private readonly rules: RuleBook;
  private timer: NodeJS.Timeout | undefined;
  private refreshing: Promise<void> | undefined;

  constructor(
    private readonly sql: Sql,
    private readonly log: Logger,
  ) {
    this.rules = new RuleBook(sql, log);
  }

  async start(): Promise<void> {
    await this.refresh();
    this.timer ??= setInterval(() => {
      this.refreshAll().catch((error) =>
        this.log.warn({ err: error }, "registrations and rules could not be refreshed"),
      );
    }, REFRESH_MS).unref();
  }

  stop(): void {
    clearInterval(this.timer);
  }

  async program(definitionId: string): Promise<Program> {
    const known = this.programs.get(definitionId);
    if (known) {
      this.programs.delete(definitionId);
      this.programs.set(definitionId, known);
      return known;
    }
    const [row] = await this.sql<DefinitionRow[]>`
      select definition_id, version, document from definitions where definition_id = ${definitionId}`;
    if (!row) throw new Error(`the definition ${definitionId} is not in the store`);
    return this.compiled(row);
  }

  async published(workflowId: string, version?: number): Promise<Published | undefined> {
    const key = `${workflowId}@${version ?? ""}`;
    const known = this.latest.get(key);
    if (known && known.until > performance.now()) return known.found;
    this.latest.delete(key);
    const which = version === undefined ? this.sql`true` : this.sql`version = ${version}`;
    const [row] = await this.sql<DefinitionRow[]>`
      select definition_id, version, document from definitions
      where workflow_id = ${workflowId} and published and ${which} order by version desc limit 1`;
    // Not remembered: another node may publish it in this moment, and its client come here.
    if (!row) return undefined;
    const found = {
      definitionId: row.definition_id,
      program: this.programs.get(row.definition_id) ?? this.compiled(row),
    };
    if (this.latest.size >= MAX_PROGRAMS) this.latest.clear();
    this.latest.set(key, { found, until: performance.now() + REFRESH_MS });
    return found;
  }

  action(service: string, name: string, version?: number): RegisteredAction | undefined {
    const versions = this.actions.get(`${service}.${name}`);
    if (version !== undefined) return versions?.find((action) => action.version === version);
    return versions?.find((action) => !action.deprecated);
  }

  rule(ruleId: string): Rule | undefined {
    return this.rules.rule(ruleId);
  }

  async refresh(): Promise<void> {
    this.latest.clear();
    // One under way may have read before the change that this call is about.
    await this.refreshing?.catch(() => {});
    await this.refreshAll();
  }

  private refreshAll(): Promise<void> {
    this.refreshing ??= Promise.all([this.readActions(), this.rules.refresh()])
      .then(() => {})
      .finally(() => {
        this.refreshing = undefined;
      });
    return this.refreshing;
  }

  private async readActions(): Promise<void> {
    const rows = await this.sql<ActionRow[]>`select * from actions order by service, action_name, version desc`;
    const actions = new Map<string, RegisteredAction[]>();
    for (const row of rows) {
      const key = `${row.service}.${row.action_name}`;
      actions.set(key, [...(actions.get(key) ?? []), registered(row)]);
    }
    this.actions = actions;
  }

  private compiled({ definition_id: definitionId, version, document }: DefinitionRow): Program {
    const { program, problems } = compileWorkflow(document, { version, limits: null });
    if (!program) throw new Error(`the stored definition ${definitionId} no longer compiles: ${problems[0]?.message}`);
    const [oldest] = this.programs.keys();
    if (oldest !== undefined && this.programs.size >= MAX_PROGRAMS) this.programs.delete(oldest);
    this.programs.set(definitionId, program);
    return program;
  }
}

type RegisteredAction = ActionFact & { readonly deprecated: boolean };

interface DefinitionRow {
  readonly definition_id: string;
  readonly version: number;
  readonly document: JsonObject;
}

interface ActionRow {
  readonly service: string;
  readonly action_name: string;
  readonly version: number;
  readonly transport: "grpc" | "http" | "rmq";
  readonly address: string | null;
  readonly compensable: boolean;
  readonly deprecated: boolean;
  readonly dry_run_supported: boolean;
  readonly license_group: string | null;
  readonly input_schema: JsonObject;
  readonly output_schema: JsonObject;
  readonly default_retry: Partial<RetryPolicy> | null;
  readonly default_timeout_ms: number | null;
}

function registered(row: ActionRow): RegisteredAction {
  return {
    service: row.service,
    name: row.action_name,
    version: row.version,
    transport: row.transport,
    address: row.address ?? undefined,
    compensable: row.compensable,
    deprecated: row.deprecated,
    dryRunSupported: row.dry_run_supported,
    licenseGroup: row.license_group ?? undefined,
    inputSchema: row.input_schema,
    outputSchema: row.output_schema,
    defaultRetry: row.default_retry ?? undefined,
    defaultTimeoutMs: row.default_timeout_ms ?? undefined,
  };
}
