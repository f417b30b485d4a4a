// Whether runs could go on under another version: one run, or all of a workflow. Nothing is changed here; the command `migrate` moves a run,
// and decides it anew (machines/migrate).
import type { Sql } from "postgres";
import {
  decodeRun,
  isWithin,
  type Json,
  type JsonObject,
  type Reason,
  type RunId,
  type Schemas,
  type StoredRun,
  UnreadableRecord,
  versionFact,
} from "../../machines/index.js";
import type { Reach } from "../access/index.js";
import { type Catalog, isFor, type Published } from "../catalog/catalog.js";
import { notFound, overloaded, SagaError } from "../errors.js";
import { loadRun } from "../store/engine/load.js";
import { movableRuns } from "../store/lists/movable-runs.js";
import { isUsable } from "../store/owners.js";
import type { FairScheduler } from "../work/fair-scheduler.js";

/** Different reasons in a report, and runs that are named for each. */
const MAX_REASONS = 100;
const NAMED_RUNS = 5;

export interface Target {
  readonly version: number;
  readonly steps?: Readonly<Record<string, string>>;
  /** Whose runs the asker may see. Others do not exist for it. */
  readonly reach: Reach;
}

export interface MigrationsOptions {
  readonly catalog: Pick<Catalog, "program" | "published">;
  readonly schemas: Pick<Schemas, "conforms" | "readSlices">;
  readonly scheduler: Pick<FairScheduler, "compute" | "computeSlices">;
}

/** One read of the store, on a session that it holds no longer than that. */
export type Look = <T>(read: (sql: Sql) => Promise<T>) => Promise<T>;

export interface ReportedReason extends Reason {
  readonly count: number;
  /** The first of them. */
  readonly run_ids: readonly RunId[];
}

export interface MigrationReport {
  /** Runs that were looked at. */
  readonly matched: number;
  readonly movable: number;
  readonly refused: number;
  /** Most frequent first. */
  readonly reasons: readonly ReportedReason[];
  /** There are more runs than the limit. */
  readonly truncated?: true;
  /** Reasons that did not fit into the report. */
  readonly left_off?: number;
}

export class Migrations {
  constructor(private readonly options: MigrationsOptions) {}

  /** All that is against it. Throws 404 if there is no such run or no such version. */
  async check(look: Look, runId: RunId, { version, steps = {}, reach }: Target): Promise<readonly Reason[]> {
    const stored = (await look((sql) => loadRun(sql, runId)))?.stored;
    if (!stored || !isWithin(reach, stored.identity)) throw notFound(`there is no run ${runId}`);
    const { workflowId, tenantId } = stored.identity;
    const target = await this.published(workflowId, version);
    if (!isFor(target, tenantId)) throw noSuchVersion(workflowId, version);
    return this.reasonsFor(stored, target, steps);
  }

  /** Throws 404 if there is no such version. */
  async report(look: Look, asked: Target & { workflowId: string; fromVersion?: number; limit: number }) {
    const { workflowId, version, steps = {}, limit, reach } = asked;
    const { tenants, workflows } = reach;
    if (workflows?.match(workflowId) === false) throw noSuchVersion(workflowId, version);
    const target = await this.published(workflowId, version);
    const owners = [target.owner, target.program.tenantId];
    if (!owners.every((owner) => isUsable(owner ?? null, tenants))) throw noSuchVersion(workflowId, version);
    const runIds = await look((sql) => movableRuns(sql, { ...asked, tenants, limit: limit + 1 }));
    const tally = new Tally();
    for (const runId of runIds.slice(0, limit)) {
      const stored = (await look((sql) => loadRun(sql, runId)))?.stored;
      // A run that has ended since then is no run to move.
      if (stored && !isOver(stored.state)) tally.count(runId, await this.reportedFor(stored, target, steps));
    }
    return tally.report(runIds.length > limit);
  }

  private async published(workflowId: string, version: number): Promise<Published> {
    const found = await this.options.catalog.published(workflowId, version);
    if (!found) throw noSuchVersion(workflowId, version);
    return found;
  }

  /** A run that a newer node has written does not keep the others out of the report. */
  private async reportedFor(...[stored, target, steps]: Parameters<Migrations["reasonsFor"]>) {
    try {
      return await this.reasonsFor(stored, target, steps);
    } catch (error) {
      if (error instanceof SagaError && error.status === 503) return [{ message: error.message }];
      throw error;
    }
  }

  private async reasonsFor(
    stored: StoredRun,
    target: Published,
    steps: Readonly<Record<string, string>>,
  ): Promise<readonly Reason[]> {
    const { catalog, scheduler, schemas } = this.options;
    const { identity } = stored;
    if (!isFor(target, identity.tenantId)) return [{ message: "the version is for runs of another tenant" }];
    // There already: nothing would change.
    if (identity.version === target.program.version && !isOver(stored.state)) return [];
    const from = await catalog.program(identity.definitionId);
    await scheduler.computeSlices(identity.workflowId, schemas.readSlices(target.program.inputSchema));
    return scheduler.compute(identity.workflowId, () => {
      const conforms = (schema: JsonObject, value: Json) => schemas.conforms(schema, value);
      return versionFact(from, target).move(readable(stored), steps, conforms).reasons;
    });
  }
}

/** The reasons of many runs, each text once. */
class Tally {
  private readonly reasons = new Map<string, { reason: Reason; count: number; runIds: RunId[] }>();
  private matched = 0;
  private movable = 0;
  private leftOff = 0;

  count(runId: RunId, reasons: readonly Reason[]): void {
    this.matched++;
    if (reasons.length === 0) this.movable++;
    for (const reason of reasons) this.add(runId, reason);
  }

  private add(runId: RunId, reason: Reason): void {
    const key = JSON.stringify([reason.path, reason.message]);
    const known = this.reasons.get(key);
    if (!known && this.reasons.size >= MAX_REASONS) {
      this.leftOff++;
      return;
    }
    const entry = known ?? { reason, count: 0, runIds: [] };
    entry.count++;
    if (entry.runIds.length < NAMED_RUNS) entry.runIds.push(runId);
    this.reasons.set(key, entry);
  }

  report(truncated: boolean): MigrationReport {
    const { matched, movable, leftOff } = this;
    const sorted = [...this.reasons.values()].sort((one, other) => other.count - one.count);
    return {
      ...{ matched, movable, refused: matched - movable },
      reasons: sorted.map(({ reason, count, runIds }) => ({ ...reason, count, run_ids: runIds })),
      ...(truncated && { truncated }),
      ...(leftOff > 0 && { left_off: leftOff }),
    };
  }
}

function isOver(state: string): boolean {
  return state === "succeeded" || state === "failed" || state === "cancelled";
}

function readable(stored: StoredRun) {
  try {
    return decodeRun(stored);
  } catch (error) {
    if (error instanceof UnreadableRecord)
      throw overloaded("a newer node of the cluster has to check this run: ask again");
    throw error;
  }
}

const noSuchVersion = (workflowId: string, version: number) =>
  notFound(`there is no published version ${version} of workflow ${workflowId}`);
