// Creates and changes triggers, and fires them by hand. What is stored is checked first: the document, the schedule, the workflow, the
// licences of its tenant.

import type { Sql } from "postgres";
import {
  cronInputs,
  detailOf,
  isObject,
  isUuid,
  type Json,
  type JsonObject,
  misfit,
  normalTrigger,
  type Problem,
  type Program,
  RECORD_TRANSITION_TOPIC,
  type Reading,
  type RunId,
  readTrigger,
  readTriggerConfig,
  recordTransition,
  type Schemas,
  type Trigger,
  type TriggerRule,
  type TriggerType,
  UNKNOWN_TEXT,
} from "../../machines/index.js";
import { isThingWithin, ownerFor, type Principal, type Reach, reachOf, refuseNarrowed } from "../access/index.js";
import { randomUUID } from "../ambient.js";
import { type Catalog, isFor } from "../catalog/catalog.js";
import type { Clock } from "../clock.js";
import { badRequest, conflict, forbidden, invalidConfig, notFound, overloaded, SagaError } from "../errors.js";
import { derivedUuid, requestHash, uuidv7 } from "../ids.js";
import { isStoreAway } from "../store/engine/failure.js";
import { type DecidedFire, decidedFire, decideFires, type NewFire } from "../store/engine/trigger-fires.js";
import {
  changeTrigger,
  deleteTrigger,
  insertTrigger,
  type NewTrigger,
  type TriggerChanges,
  type TriggerRow,
  triggerById,
} from "../store/lists/triggers.js";
import type { FairScheduler } from "../work/fair-scheduler.js";
import { type Backfilled, backfill, type PastRange } from "./backfill.js";
import { missingLicence } from "./licence.js";
import { delayOf, Schedule, ScheduleError } from "./schedule.js";
import { transitionFire } from "./transitions.js";
import { fireId, type TriggeredStarts } from "./triggered-starts.js";

export interface RegistrarOptions {
  readonly sql: Sql;
  readonly clock: Clock;
  readonly catalog: Pick<Catalog, "published" | "stored" | "action">;
  readonly licences: { licensed(tenantId: string | undefined, group: string): boolean };
  readonly starts: Pick<TriggeredStarts, "carryOut">;
  readonly schemas: Pick<Schemas, "conforms" | "readSlices">;
  readonly scheduler: Pick<FairScheduler, "computeSlices">;
}

/** A change that meets another one of the same moment is decided again. */
const CHANGE_TRIES = 5;

/** A fire by hand. */
export interface FireAnswer {
  readonly fireId: string;
  /** Absent: the fire has ended with an error, or its run is not durable yet. */
  readonly runId?: RunId;
}

/** What is changed of a trigger. */
export interface Change {
  readonly enabled?: boolean;
  readonly config?: unknown;
  /** Why it is disabled. */
  readonly reason?: string;
}

export class Registrar {
  constructor(private readonly options: RegistrarOptions) {}

  /** With a key, a repeat gets the first trigger, as it was then, and another document is 409. Throws 400, 403, 404, 409. */
  async create(document: unknown, principal: Principal, key?: string): Promise<TriggerRow> {
    const { sql } = this.options;
    const read = this.check(document);
    const tenantId = ownerFor(principal, read.tenantId);
    const trigger = { ...read, ...(tenantId !== undefined && { tenantId }) };
    if (principal.workflows?.match(trigger.workflowId) === false) throw noSuchWorkflow(trigger);
    refuseRecordTrigger(principal, trigger.rule.type);
    // The key is the tenant's own, so whether the document names the tenant makes no difference.
    const hash = hashOf(isObject(document) ? { ...document, tenant_id: null } : document);
    const id = key === undefined ? uuidv7() : derivedUuid(`trigger/${trigger.tenantId ?? ""}/${key}`);
    const repeated = (first: TriggerRow) => {
      if (first.requestHash !== hash) throw conflict(OTHER_BODY);
      return asCreated(first, trigger);
    };
    try {
      await this.refuseUnfit(trigger);
    } catch (error) {
      // A trigger that was created under this key stays created, even if its workflow or the licences have changed since.
      const first = key !== undefined && error instanceof SagaError ? await triggerById(sql, id) : undefined;
      if (!first) throw error;
      return repeated(first);
    }
    const draft = { ...this.rowOf(trigger, id, principal.actor), requestHash: hash };
    const { row, inserted } = await insertTrigger(sql, draft);
    return inserted ? row : repeated(row);
  }

  /** A trigger from a file, under the id that follows from the file's name. `stored` is false if it was there as it is. */
  async seed(name: string, document: unknown): Promise<{ readonly row: TriggerRow; readonly stored: boolean }> {
    const trigger = this.check(document);
    const { sql } = this.options;
    const draft = this.rowOf(trigger, derivedUuid(`trigger-file/${name}`), `file:${name}`);
    const hash = hashOf(document);
    const before = await triggerById(sql, draft.id);
    // It was given to a tenant since, with its workflow, which the file's trigger could not start any more.
    const isGiven = before !== undefined && before.tenantId !== (trigger.tenantId ?? null);
    if (isGiven && before.requestHash === hash) return { row: before, stored: false };
    await this.refuseUnfit(trigger);
    const { row, inserted } = await insertTrigger(sql, { ...draft, requestHash: hash });
    if (inserted || row.requestHash === hash) return { row, stored: inserted };
    const { id, triggerType, workflowId, version = null, config, tenantId = null } = draft;
    const nextFireAt = row.enabled ? fireAfter(row.id, trigger.rule, this.options.clock.now()) : null;
    const changes = { triggerType, workflowId, version, config, tenantId, nextFireAt, requestHash: hash };
    return { row: (await changeTrigger(sql, id, changes)) ?? row, stored: true };
  }

  /** Every problem of a document that can be told without the store. Throws 400. */
  check(document: unknown): Trigger {
    const read = withSchedule(readTrigger(document), ({ rule }) => rule);
    const { value, problems } = read;
    if (!value) throw invalid(problems);
    if (value.tenantId === undefined || isUuid(value.tenantId)) return value;
    throw invalid([{ path: "$.tenant_id", message: misfit.notOfFormat("uuid") }]);
  }

  /** A `reason` is for `enabled: false` alone. Throws 400, 403, 404, 503. */
  async change(principal: Principal, id: string, asked: Change): Promise<TriggerRow> {
    if (asked.reason !== undefined && asked.enabled !== false) throw strayReason();
    for (let nth = 0; nth < CHANGE_TRIES; nth++) {
      const changed = await this.changeOnce(principal, id, asked);
      if (changed) return changed;
    }
    throw overloaded("the trigger is being enabled and disabled by others: send the change again");
  }

  /** Undefined: it was enabled, disabled or deleted meanwhile, and what is said of its next tick and its pause is about another state. */
  private async changeOnce(principal: Principal, id: string, asked: Change): Promise<TriggerRow | undefined> {
    const { enabled, config } = asked;
    const row = await this.mustExist(id, reachOf(principal));
    const type = row.triggerType as TriggerType;
    refuseRecordTrigger(principal, type);
    const { value: rule, problems } = withSchedule(readTriggerConfig(type, config ?? row.config), (each) => each);
    if (!rule) throw invalid(problems);
    const fires = enabled ?? row.enabled;
    // A trigger can be disabled whatever it says.
    if (config !== undefined || (enabled && !row.enabled)) {
      const { program } = (await this.options.catalog.published(row.workflowId, row.version ?? undefined)) ?? {};
      if (program) await this.refuseInputs(rule, program);
    }
    // A tick that is due already stays due, unless the schedule is another one or the trigger was disabled.
    const keeps = fires && row.enabled && config === undefined;
    const nextFireAt = keeps ? row.nextFireAt : fires ? fireAfter(id, rule, this.options.clock.now()) : null;
    const changes = {
      ...{ enabled: fires, nextFireAt, ...(config !== undefined && { config: config as JsonObject }) },
      ...pauseBy(principal.actor, row, asked, new Date(this.options.clock.now())),
    };
    return changeTrigger(this.options.sql, id, changes, row);
  }

  /** Fires the ticks of a past range that have started no run, enabled or not. Throws 400, 404, 422. */
  async backfill(principal: Principal, id: string, range: PastRange, dryRun: boolean): Promise<Backfilled> {
    return backfill(this.options, await this.mustExist(id, reachOf(principal)), range, dryRun);
  }

  /**
   * Fires now, whether the trigger is enabled or not. With a key, a repeat gets the first fire, and another payload is 409. A request
   * that finds the fire still owed carries it out: its run has one id. Throws 400, 404, 409, 503; without a key no 503 once the fire is
   * durable, because the client's next try would be another fire.
   */
  async fire(principal: Principal, id: string, payload: Json | undefined, key?: string): Promise<FireAnswer> {
    const trigger = await this.mustExist(id, reachOf(principal));
    const { sql, clock, starts } = this.options;
    const cause = key === undefined ? randomUUID() : `key/${key}`;
    const hash = key === undefined ? null : requestHash({ payload });
    const { id: fireId, ...decided } = this.byHand(trigger, payload, cause, clock.now());
    await starts.carryOut(
      await decideFires(sql, trigger, [{ id: fireId, ...decided, ...(hash !== null && { requestHash: hash }) }]),
    );
    try {
      return await this.firedOnce(fireId, trigger.id, hash);
    } catch (error) {
      if (key !== undefined || !mayPass(error)) throw error;
      return { fireId };
    }
  }

  /** What has become of a fire that is durable. Throws 409, and 503 if its run is still owed. */
  private async firedOnce(fireId: string, triggerId: string, hash: string | null): Promise<FireAnswer> {
    const first = await decidedFire(this.options.sql, fireId);
    if (first && first.requestHash !== hash) throw conflict(OTHER_BODY);
    const { runId, owed } = first?.owed ? await this.carriedOut(fireId, triggerId, first.owed) : (first ?? {});
    if (owed) throw overloaded(`the fire ${fireId} is durable, but its run is not yet: ${AGAIN}`);
    return { fireId, ...(runId && { runId }) };
  }

  /** Another request has decided the fire, or a node has died of it. */
  private async carriedOut(id: string, triggerId: string, inputs: JsonObject): Promise<Partial<DecidedFire>> {
    const { sql, starts } = this.options;
    await starts.carryOut([{ id, triggerId, inputs }]);
    return (await decidedFire(sql, id)) ?? {};
  }

  /** Throws 404 also for one that is beyond the reach. */
  async mustExist(id: string, reach: Reach): Promise<TriggerRow> {
    const row = await triggerById(this.options.sql, id);
    if (!row || !isThingWithin(reach, row)) throw noSuchTrigger(id);
    return row;
  }

  /** Its fires stay until they are past retention. Throws 403, 404. */
  async delete(principal: Principal, id: string): Promise<void> {
    await this.mustExist(id, reachOf(principal));
    if (!(await deleteTrigger(this.options.sql, id))) throw noSuchTrigger(id);
  }

  private byHand(trigger: TriggerRow, payload: Json | undefined, cause: string, now: number): NewFire {
    const id = fireId(trigger.id, `hand/${cause}`);
    const at = new Date(now);
    if (trigger.triggerType === "cron") {
      if (payload !== undefined) throw badRequest("a cron trigger is fired without a payload");
      const { inputs } = trigger.config as { inputs?: JsonObject };
      const time = at.toISOString();
      const fired = { id: trigger.id, scheduled_at: time, fired_at: time };
      return { id, scheduledAt: at, firedAt: at, inputs: { ...inputs, trigger: fired } };
    }
    const { record_type, from_state, to_state } = trigger.config;
    const seen = payload ?? { record_type: record_type ?? "", from_state: from_state ?? "", to_state: to_state ?? "" };
    const transition = recordTransition(seen);
    if (!transition) throw badRequest("the payload must have record_type, from_state and to_state");
    const event = { id, topic: RECORD_TRANSITION_TOPIC, headers: {}, payload: seen, publishedAt: at };
    return { ...transitionFire(trigger, transition, event, now), id };
  }

  /** Throws if its workflow, its licences or its inputs do not allow it. */
  private async refuseUnfit(trigger: Trigger): Promise<void> {
    const { catalog } = this.options;
    const { workflowId, version, tenantId } = trigger;
    const exists = await catalog.stored(workflowId, version, tenantId);
    const found = await catalog.published(workflowId, version);
    if (!exists || (found && !isFor(found, tenantId))) throw noSuchWorkflow(trigger);
    const { program } = found ?? {};
    const missing = program && missingLicence(program, tenantId, this.options);
    if (missing !== undefined) throw forbidden(missing);
    if (program) await this.refuseInputs(trigger.rule, program);
  }

  /** Inputs of a schedule that no tick could start a run with. Its times and the trigger's id are not known, so what depends on them fits. */
  private async refuseInputs({ type, config }: TriggerRule, { workflowId, inputSchema }: Program): Promise<void> {
    if (type !== "cron" || !inputSchema) return;
    const { schemas, scheduler } = this.options;
    await scheduler.computeSlices(workflowId, schemas.readSlices(inputSchema));
    const inputs = cronInputs(config, { id: UNKNOWN_TEXT, scheduled_at: UNKNOWN_TEXT, fired_at: UNKNOWN_TEXT });
    const problems = schemas.conforms(inputSchema, inputs);
    if (problems.length > 0) throw invalid(problems.map((problem) => detailOf(problem, "$.config.inputs")));
  }

  private rowOf({ rule, config, ...trigger }: Trigger, id: string, createdBy: string): NewTrigger {
    const now = this.options.clock.now();
    const nextFireAt = trigger.enabled ? fireAfter(id, rule, now) : null;
    const createdAt = new Date(now);
    return { ...trigger, id, triggerType: rule.type, config, createdBy, createdAt, ...(nextFireAt && { nextFireAt }) };
  }
}

/** The store is away, or load is shed. */
const mayPass = (error: unknown) => isStoreAway(error) || (error instanceof SagaError && error.status >= 500);

function fireAfter(triggerId: string, { type, config }: TriggerRule, time: number): Date | null {
  if (type !== "cron") return null;
  const delay = delayOf(triggerId, config);
  // Its next tick, and not one that has passed and whose delay has not.
  const next = Schedule.of(config).after(time);
  return next === undefined ? null : new Date(next + delay);
}

/** Disabling what is disabled already says no more than a new reason, and who gave it. */
function pauseBy(actor: string, row: TriggerRow, { enabled, reason }: Change, now: Date): TriggerChanges {
  if (enabled === undefined) return {};
  if (enabled) return { pausedAt: null, pausedBy: null, pausedReason: null };
  if (!row.enabled && reason === undefined) return {};
  const since = row.enabled ? now : (row.pausedAt ?? now);
  return { pausedAt: since, pausedBy: actor, pausedReason: reason ?? null };
}

function strayReason(): SagaError {
  const message = "says why the trigger is disabled: it is for enabled: false";
  return badRequest(`the body is not valid: $.reason ${message}`, [{ path: "$.reason", message }]);
}

const OTHER_BODY = "the idempotency key was used with another body";
const AGAIN = "send it again with the same idempotency key, or look at the trigger's fires";

function hashOf(document: unknown): string {
  return requestHash(isObject(document) ? normalTrigger(document) : document);
}

/** The row as it was inserted, of the same document: it may have been changed since, and has had its ticks. */
function asCreated(row: TriggerRow, { config, enabled, rule }: Trigger): TriggerRow {
  const nextFireAt = enabled ? fireAfter(row.id, rule, row.createdAt.getTime()) : null;
  return { ...row, config, enabled, nextFireAt, lastFiredAt: null, pausedAt: null, pausedBy: null, pausedReason: null };
}

/** The events that fire it may tell of any workflow's records. Throws 403. */
function refuseRecordTrigger(principal: Principal, type: TriggerType): void {
  if (type === "record_transition") refuseNarrowed(principal, "make or change triggers on records");
}

function noSuchWorkflow({ workflowId, version }: Pick<Trigger, "workflowId" | "version">): SagaError {
  return notFound(`there is no workflow ${workflowId}${version === undefined ? "" : ` version ${version}`}`);
}

export const noSuchTrigger = (id: string) => notFound(`there is no trigger ${id}`);

function invalid(problems: readonly Problem[]): SagaError {
  const [first] = problems;
  return invalidConfig(`the trigger is not valid: ${first?.path} ${first?.message}`, problems);
}

/** Adds what is wrong with the schedule to the other problems. */
function withSchedule<T>(read: Reading<T>, ruleOf: (value: T) => TriggerRule): Reading<T> {
  const rule = read.value && ruleOf(read.value);
  if (rule?.type !== "cron") return read;
  try {
    Schedule.of(rule.config);
    return read;
  } catch (error) {
    if (!(error instanceof ScheduleError)) throw error;
    const problem = { path: `$.config.${error.member}`, message: `must ${error.message}` };
    return { problems: [...read.problems, problem], warnings: read.warnings };
  }
}
