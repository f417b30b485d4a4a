// Starts the runs that fires owe. A fire is carried out by the node that decided it, or by any node once its lease is over. The run's id
// follows from the fire, so that the second start of a fire finds the run of the first.

import type { Sql } from "postgres";
import { asRunId, type ExpressionError, firstCharacters, type RunId } from "../../machines/index.js";
import { EVERYTHING } from "../access/index.js";
import type { Catalog } from "../catalog/catalog.js";
import { SagaError } from "../errors.js";
import { derivedUuid } from "../ids.js";
import type { Logger } from "../log.js";
import type { Metrics } from "../metrics/index.js";
import type { RunStarter } from "../run/ports.js";
import { isStoreAway } from "../store/engine/failure.js";
import { awaitTurn, leaseFires, type OwedFire, settleFire, unfinishedRun } from "../store/engine/trigger-fires.js";
import { runExists } from "../store/lists/runs.js";
import { type TriggerRow, triggerById } from "../store/lists/triggers.js";
import { Semaphore } from "../work/semaphore.js";
import { missingLicence } from "./licence.js";

/** Fires that one round leases, and fires carried out at once. */
const BATCH = 100;
const CONCURRENCY = 8;
const MAX_ERROR_CHARS = 1_000;

export interface TriggeredStartsOptions {
  readonly sql: Sql;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, "triggerFires">;
  readonly starter: RunStarter;
  readonly catalog: Pick<Catalog, "published" | "stored" | "action">;
  readonly licences: { licensed(tenantId: string | undefined, group: string): boolean };
}

/** The id of a fire. `cause` is what fired the trigger: a tick, an event, a request. A storage format: it must never change. */
export function fireId(triggerId: string, cause: string): string {
  return derivedUuid(`fire/${triggerId}/${cause}`);
}

/** The id of the fire of a tick (epoch milliseconds), whenever it is fired. A storage format: it must never change. */
export function tickFireId(triggerId: string, tick: number): string {
  return fireId(triggerId, `tick/${new Date(tick).toISOString()}`);
}

/** The id of the run that a fire starts. A storage format: it must never change. */
export function fireRunId(fireId: string): RunId {
  return asRunId(derivedUuid(`fire-run/${fireId}`));
}

export class TriggeredStarts {
  constructor(private readonly options: TriggeredStartsOptions) {}

  /** Carries out what has been left, by whichever node. True: there may be more. */
  async round(): Promise<boolean> {
    const owed = await leaseFires(this.options.sql, BATCH);
    await this.carryOut(owed);
    return owed.length === BATCH;
  }

  /** Never throws. A fire that cannot be carried out now stays owed. */
  async carryOut(owed: readonly OwedFire[]): Promise<void> {
    const atOnce = new Semaphore(CONCURRENCY);
    await Promise.all(owed.map((fire) => atOnce.run(() => this.carryOutOne(fire))));
  }

  private async carryOutOne(fire: OwedFire): Promise<void> {
    const { sql, log, metrics } = this.options;
    try {
      // It is the only one of its trigger that is leased: no other starts between this look and its own start.
      if (fire.inTurn && (await unfinishedRun(sql, fire.triggerId, fireRunId(fire.id))) !== undefined)
        return await awaitTurn(sql, fire.id);
      const outcome = await this.outcomeOf(fire);
      await settleFire(sql, fire, outcome);
      metrics.triggerFires.inc({ outcome: "error" in outcome ? "failed" : "started" });
      if ("error" in outcome) log.warn({ trigger: fire.triggerId, fire: fire.id }, "trigger fired without a run");
    } catch (error) {
      log.warn({ err: error, trigger: fire.triggerId, fire: fire.id }, "fire put off, its run is still owed");
    }
  }

  /**
   * A run that is there counts, whatever has become of the trigger and the workflow since: the node that started it may have died before it could say
   * so. Throws what may pass: the store is away, load is shed.
   */
  private async outcomeOf(fire: OwedFire): Promise<{ readonly runId: RunId } | { readonly error: string }> {
    const outcome = await this.startFor(fire);
    const runId = fireRunId(fire.id);
    return "error" in outcome && (await runExists(this.options.sql, EVERYTHING, runId)) ? { runId } : outcome;
  }

  private async startFor(fire: OwedFire): Promise<{ readonly runId: RunId } | { readonly error: string }> {
    const trigger = await triggerById(this.options.sql, fire.triggerId);
    if (!trigger) return { error: "the trigger was deleted" };
    try {
      return { runId: await this.start(trigger, fire) };
    } catch (error) {
      if (isStoreAway(error) || !(error instanceof SagaError) || error.status >= 500) throw error;
      return { error: failure(error) };
    }
  }

  private async start(trigger: TriggerRow, { id, inputs }: OwedFire): Promise<RunId> {
    const { starter, catalog, licences } = this.options;
    const tenantId = trigger.tenantId ?? undefined;
    const version = trigger.version ?? undefined;
    const { program } = (await catalog.published(trigger.workflowId, version)) ?? {};
    const missing = program && missingLicence(program, tenantId, { catalog, licences });
    if (missing !== undefined) throw new SagaError(403, "forbidden", missing);
    const { runId } = await starter.start({
      ...{ workflowId: trigger.workflowId, version, inputs, tenantId, runId: fireRunId(id) },
      ...{ variables: {}, dryRun: false, features: {}, triggerId: trigger.id, actor: `trigger:${trigger.id}` },
    });
    return runId;
  }
}

/** The sentence that a fire keeps: what went wrong, without the values of the record. */
export function failure(error: SagaError | ExpressionError): string {
  const details =
    error instanceof SagaError ? (error.details ?? []).map(({ path, message }) => `${path} ${message}`) : [];
  return firstCharacters([error.message, ...details].join("; "), MAX_ERROR_CHARS);
}
