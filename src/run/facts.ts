// The facts of a decision: its knowledge of the world outside the run. Most are in memory; a `need` is read from committed rows, after
// the run's own last commit. What was read of the undo list, and of another version, is kept with the run.

import type { Sql } from "postgres";
import {
  type ActionFact,
  entryStep,
  type Facts,
  type Fetched,
  forkFault,
  type JsonObject,
  MAX_KEPT_SIGNALS,
  type Need,
  Needed,
  type RunIdentity,
  type RunLimits,
  ruleFor,
  type Schemas,
  startKey,
  type TraceSource,
  type VersionFact,
  versionFact,
  type WorkflowFact,
} from "../../machines/index.js";
import { random as randomNumber } from "../ambient.js";
import { type Catalog, isFor } from "../catalog/catalog.js";
import type { Clock } from "../clock.js";
import { derivedUuid, shardOf } from "../ids.js";
import { scanEvents } from "../store/engine/event-scan.js";
import { presentMoment } from "../store/engine/events.js";
import {
  endedChildren,
  keptSignals,
  keyedRun,
  livingChildren,
  namedRun,
  nextWaiter,
  signalFor,
  startupVariables,
  unmatchedSignals,
} from "../store/engine/family.js";
import { inheritanceOf, stepEntries } from "../store/engine/forks.js";
import { UndoReads } from "../store/engine/load.js";
import { replacedSchema } from "../store/lists/registry.js";
import { tenantsOfRun } from "../store/owners.js";
import type { FairScheduler } from "../work/fair-scheduler.js";
import type { LoadedRun } from "./loaded-run.js";

/** A character of an output takes at most this many bytes in the store. */
const BYTES_PER_CHARACTER = 6;

type Reading = Pick<LoadedRun, "owedUndos" | "program" | "next">;

export interface FactOptions {
  readonly sql: Sql;
  readonly clock: Clock;
  readonly catalog: Catalog;
  readonly schemas: Pick<Schemas, "conforms" | "isAtHand" | "readSlices">;
  readonly scheduler: Pick<FairScheduler, "computeSlices">;
  readonly licences: { licensed(tenantId: string | undefined, group: string): boolean };
  readonly limits: RunLimits;
  /** Absent: this service exports no spans. */
  readonly traces?: TraceSource;
  /** An event of no tenant is for runs of no tenant only. Absent: it is for every run. */
  readonly tenantsApart?: boolean;
}

export class FactSource {
  /**
   * The decision that followed the last call of `current` asked for an action that this node does not know, perhaps registered elsewhere a
   * moment ago.
   */
  missedAction = false;
  private readonly undoReads: UndoReads;
  /** The schema that a decision asked for last: it is not asked for again, whether or not it is still kept. */
  private readLast: JsonObject | undefined;
  /** What is looked up in memory, the same for every decision. */
  private readonly lookups: Omit<Facts, "now" | "random">;

  constructor(private readonly options: FactOptions) {
    this.undoReads = new UndoReads(options.sql);
    const { catalog, schemas, licences, limits, traces } = options;
    this.lookups = {
      limits,
      ...(traces && { traces }),
      uuid: (runId, seed) => derivedUuid(seed, shardOf(runId)),
      action: (service, name, version, tenantId): ActionFact | undefined => {
        const found = catalog.action(service, name, version, tenantsOfRun(tenantId));
        this.missedAction ||= found === undefined;
        return found;
      },
      rule: (ruleId, tenantId) => ruleFor(tenantId, catalog.rule(ruleId, tenantsOfRun(tenantId))),
      licensed: (tenantId, group) => licences.licensed(tenantId, group),
      conforms: (schema, value, options) => {
        if (schema !== this.readLast && !schemas.isAtHand(schema)) throw new Needed({ kind: "schema", schema });
        return schemas.conforms(schema, value, options);
      },
    };
  }

  /**
   * Fresh facts for one decision, which follows at once. `notBefore`: the time of the run's last audit event. Another node's clock may have been
   * a little ahead of this one's, and the audit times of a run never go back.
   */
  current(notBefore: number, owed: Fetched, fetched: Fetched): Facts {
    this.missedAction = false;
    const now = Math.max(this.options.clock.now(), notBefore);
    // Written out: on Node 20 each member that is added to a spread costs 2 µs, and a run asks for its facts ten times.
    const { limits, uuid, action, rule, licensed, conforms, traces } = this.lookups;
    const random = randomNumber();
    return { limits, uuid, action, rule, licensed, conforms, traces, now, random, ...owed, ...fetched };
  }

  /** Reads the registrations again. */
  refreshActions(): Promise<void> {
    return this.options.catalog.refresh();
  }

  /** Reads a fact that a decision needs before it can be taken. `loaded` keeps what is read of the run's undo list, and of a version. */
  async read(run: RunIdentity, need: Need, loaded: Reading): Promise<Fetched> {
    const { owedUndos: owed } = loaded;
    const { sql, limits, tenantsApart } = this.options;
    switch (need.kind) {
      case "signal":
        return { signal: await signalFor(sql, run, need.name) };
      case "events":
        return { events: await scanEvents(sql, run, need, { tenantsApart }) };
      case "moment":
        return { moment: await presentMoment(sql) };
      case "undo":
        owed.keep(need.since, await this.undoReads.newestOwed(run.id, need.since));
        return owed.facts;
      case "ended":
        return { ended: await endedChildren(sql, run.id, need, limits.output * BYTES_PER_CHARACTER) };
      case "living":
        return { living: await livingChildren(sql, run.id, need.from) };
      case "workflow":
        return { workflow: await this.workflow(run, need) };
      case "target":
        return { target: await namedRun(sql, need.runId, run.tenantId) };
      case "waiter":
        return { waiter: await nextWaiter(sql, run, need.name) };
      case "unmatched":
        return { unmatched: await unmatchedSignals(sql, run, need.name) };
      case "kept_signals":
        return { keptSignals: await keptSignals(sql, run.id, MAX_KEPT_SIGNALS) };
      case "startup":
        return { startup: await startupVariables(sql, need.runId) };
      case "output_schema":
        return { outputSchema: await replacedSchema(sql, need.hash) };
      case "keyed_run":
        return { keyedRun: await this.keyedRun(run, need) };
      case "version":
        return { version: await this.version(run, need, loaded) };
      case "entries":
        return { entries: await stepEntries(sql, run.id) };
      case "inheritance":
        return { inheritance: await inheritanceOf(sql, run.id, need) };
      case "schema":
        await this.readSchema(run, need);
        return {};
    }
  }

  /** Null: not published, or not for this tenant. */
  private async workflow(
    { tenantId }: RunIdentity,
    { workflowId, version }: Extract<Need, { kind: "workflow" }>,
  ): Promise<WorkflowFact | null> {
    const found = await this.options.catalog.published(workflowId, version);
    if (!found || !isFor(found, tenantId)) return null;
    const { program, definitionId } = found;
    return {
      workflowId,
      definitionId,
      version: program.version,
      timeoutMs: program.timeoutMs,
      inputSchema: program.inputSchema,
      enters: (entrypoint) => entryStep(program, entrypoint) !== undefined,
      forkFault: (step) => forkFault(program, step),
    };
  }

  /** The version must be published, and for this tenant, as for a start. */
  private async version(
    { workflowId, tenantId }: RunIdentity,
    { version }: Extract<Need, { kind: "version" }>,
    loaded: Reading,
  ): Promise<VersionFact | null> {
    const found = await this.options.catalog.published(workflowId, version);
    if (!found || !isFor(found, tenantId)) return null;
    loaded.next = found.program;
    return versionFact(loaded.program, found);
  }

  private async readSchema({ workflowId }: RunIdentity, { schema }: Extract<Need, { kind: "schema" }>): Promise<void> {
    const { schemas, scheduler } = this.options;
    await scheduler.computeSlices(workflowId, schemas.readSlices(schema));
    this.readLast = schema;
  }

  private keyedRun(
    { tenantId }: RunIdentity,
    { workflowId, key: idempotencyKey }: Extract<Need, { kind: "keyed_run" }>,
  ): Promise<Fetched["keyedRun"]> {
    const { scope, key } = startKey({ tenantId, workflowId }, idempotencyKey);
    return keyedRun(this.options.sql, scope, key);
  }
}
