// The catalog of a node: compiled definitions, action registrations and rules in memory. A definition never changes under its
// id, so a program is compiled once. Registrations, rules and published versions are read again on request, and every two seconds.

import type { Sql } from "postgres";
import { compileWorkflowSlices, type Program, type Rule, WeightedCache } from "../../machines/index.js";
import { performance } from "../ambient.js";
import { Unreadable } from "../errors.js";
import type { Logger } from "../log.js";
import {
  type DefinitionDocument,
  definitionById,
  publishedDefinition,
  workflowVersions,
} from "../store/lists/definitions.js";
import type { Tenants } from "../store/owners.js";
import type { FairScheduler } from "../work/fair-scheduler.js";
import { WorkLoop } from "../work/loop.js";
import { type RegisteredAction, Registrations } from "./registrations.js";
import { RuleBook } from "./rule-book.js";

/** Compiled programs kept, in KB: a graph of 1,000 steps is about 8 MB, and an edge about 1 KB (measured). */
const MAX_PROGRAMS_KB = 131_072;
const STEP_KB = 6;
/** Published versions remembered until the next refresh. */
const MAX_LATEST = 1_000;
/** This node knows another node's registration or rule at the latest after this. */
const REFRESH_MS = 2_000;

export interface Published {
  readonly definitionId: string;
  readonly program: Program;
  /** The only tenant that it is for besides the one that its document names. Absent: it is the platform's, or access is off. */
  readonly owner?: string;
}

/** Whether runs of the tenant may be of the version. */
export function isFor({ owner, program }: Published, tenantId: string | undefined): boolean {
  return [owner, program.tenantId].every((only) => only === undefined || only === tenantId);
}

/** Definitions, registrations and rules in memory, refreshed from the store. */
export interface Catalog {
  /** The compiled definition by its id: the version that a run is of, published or not. */
  program(definitionId: string): Promise<Program>;
  /** The published version, or the latest published one. */
  published(workflowId: string, version?: number): Promise<Published | undefined>;
  /** Whether it is stored, published or not, and runs of the tenant may be of it. */
  stored(workflowId: string, version: number | undefined, tenantId: string | undefined): Promise<boolean>;
  /** The exact version, or the latest that is not deprecated, of those that exist for these tenants. */
  action(service: string, name: string, version: number | undefined, tenants: Tenants): RegisteredAction | undefined;
  /** Every registered action as `service.name`. */
  actionNames(tenants: Tenants): Iterable<string>;
  /** The latest published version of a rule, if it exists for these tenants. */
  rule(ruleId: string, tenants: Tenants): Rule | undefined;
  /** Reads the store again: called after a publish, an unpublish or a registration. */
  refresh(): Promise<void>;
}

export class StoreCatalog implements Catalog {
  private readonly programs = new WeightedCache<string, Program>(MAX_PROGRAMS_KB);
  /** Programs that are being compiled: many runs may ask for one. */
  private readonly compiling = new Map<string, Promise<Program>>();
  private readonly latest = new Map<string, Omit<Published, "program"> & { readonly until: number }>();
  private readonly registrations: Registrations;
  private readonly rules: RuleBook;
  private readonly loop: WorkLoop;

  constructor(
    private readonly sql: Sql,
    log: Logger,
    private readonly scheduler: FairScheduler,
    /** Whether names belong to who stored them first: access is on. */
    private readonly owned = false,
  ) {
    this.registrations = new Registrations(sql);
    this.rules = new RuleBook(sql, log);
    const polls = { pauseMs: REFRESH_MS, round: () => this.readAgain() };
    this.loop = new WorkLoop({ what: "catalog", log, polls });
  }

  async start(): Promise<void> {
    await this.refresh();
    this.loop.start();
  }

  stop(): Promise<void> {
    return this.loop.stop();
  }

  async program(definitionId: string): Promise<Program> {
    return this.known(definitionId) ?? this.compileOnce(definitionId, () => definitionById(this.sql, definitionId));
  }

  private known(definitionId: string): Program | Promise<Program> | undefined {
    return this.programs.get(definitionId) ?? this.compiling.get(definitionId);
  }

  private compileOnce(definitionId: string, read: () => Promise<DefinitionDocument | undefined>): Promise<Program> {
    const compiling = this.compile(definitionId, read).finally(() => this.compiling.delete(definitionId));
    this.compiling.set(definitionId, compiling);
    return compiling;
  }

  async published(workflowId: string, version?: number): Promise<Published | undefined> {
    const key = `${workflowId}@${version ?? ""}`;
    const known = this.latest.get(key);
    if (known && known.until > performance.now()) {
      const { definitionId, owner } = known;
      return { definitionId, program: await this.program(definitionId), ...(owner !== undefined && { owner }) };
    }
    this.latest.delete(key);
    const definition = await publishedDefinition(this.sql, workflowId, version);
    // An absence is not cached: another node may publish the workflow now, and its client may ask here next.
    if (!definition) return undefined;
    const { id: definitionId, tenantId } = definition;
    const owner = this.owned && tenantId !== null ? { owner: tenantId } : {};
    const found = {
      ...owner,
      definitionId,
      program: await (this.known(definitionId) ?? this.compileOnce(definitionId, async () => definition)),
    };
    if (this.latest.size >= MAX_LATEST) this.latest.clear();
    this.latest.set(key, { ...owner, definitionId, until: performance.now() + REFRESH_MS });
    return found;
  }

  stored(workflowId: string, version: number | undefined, tenantId: string | undefined): Promise<boolean> {
    const usableBy = { tenantId: tenantId ?? null, owned: this.owned };
    return workflowVersions.exists(this.sql, workflowId, { version, usableBy });
  }

  action(service: string, name: string, version: number | undefined, tenants: Tenants): RegisteredAction | undefined {
    return this.registrations.action(service, name, version, this.owned ? tenants : "*");
  }

  actionNames(tenants: Tenants): Iterable<string> {
    return this.registrations.names(this.owned ? tenants : "*");
  }

  rule(ruleId: string, tenants: Tenants): Rule | undefined {
    return this.rules.rule(ruleId, this.owned ? tenants : "*");
  }

  async refresh(): Promise<void> {
    this.latest.clear();
    await this.loop.now();
  }

  private async readAgain(): Promise<void> {
    await Promise.all([this.registrations.refresh(), this.rules.refresh()]);
  }

  private async compile(definitionId: string, read: () => Promise<DefinitionDocument | undefined>): Promise<Program> {
    const definition = await read();
    if (!definition) throw new Error(`definition ${definitionId} is not in the store`);
    const { version, document } = definition;
    const slices = compileWorkflowSlices(document, { version, limits: null });
    const { program, problems } = await this.scheduler.computeSlices("programs", slices);
    if (!program) throw new Unreadable(`this node cannot compile definition ${definitionId}: ${problems[0]?.message}`);
    this.programs.set(definitionId, program, weightOf(program));
    return program;
  }
}

function weightOf({ steps }: Program): number {
  let weight = 1;
  for (const { edges, blocks } of steps.values()) weight += STEP_KB + edges.length + blocks.length;
  return weight;
}
