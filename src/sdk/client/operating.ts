// What is around the runs: triggers, bulk jobs, tasks, registered actions, workers and keys. One run is in run.ts.
import type {
  ActionRegistration,
  ApiKey,
  BulkJob,
  DataKeys,
  NewApiKey,
  SagaTrigger,
  TriggerFireRow,
  UserTask,
} from "./generated/resources.js";
import type { Answered, Call, List, QueryOf, Sent } from "./operations.js";
import type { Pages } from "./pages.js";
import { afterRound, now } from "./pause.js";
import type { CallOptions } from "./transport.js";

const ROUND_MS = 30_000;

/** `client.triggers` */
export const triggersOf = (call: Call, list: List) => ({
  create: (trigger: object, options?: CallOptions): Promise<SagaTrigger> =>
    call("createTrigger", { body: trigger }, options),
  get: (id: string, options?: CallOptions): Promise<SagaTrigger> => call("getTrigger", { path: { id } }, options),
  list: (query: QueryOf<"listTriggers"> = {}, options?: CallOptions): Pages<SagaTrigger> =>
    list("listTriggers", { query }, options),
  /** `enabled`, `config` or both; a config replaces the whole one. With `enabled: false` a `reason` says why. */
  change: (id: string, body: Sent<"changeTrigger">, options?: CallOptions): Promise<SagaTrigger> =>
    call("changeTrigger", { path: { id }, body }, options),
  delete: (id: string, options?: CallOptions): Promise<undefined> => call("deleteTrigger", { path: { id } }, options),
  /** Fires now, enabled or not. */
  fire: (id: string, body: Sent<"fireTrigger"> = {}, options?: CallOptions): Promise<Answered<"fireTrigger">> =>
    call("fireTrigger", { path: { id }, body }, options),
  /**
   * Fires the ticks of a past range that have started no run, each once, enabled or not: sent again it fires what is left. `from` and `to` are times of
   * RFC 3339, both included. With `dry_run` nothing is fired. Throws Invalid if the range has too many ticks.
   */
  backfill: (id: string, body: Sent<"backfillTrigger">, options?: CallOptions): Promise<Answered<"backfillTrigger">> =>
    call("backfillTrigger", { path: { id }, body }, options),
  fires: (id: string, options?: CallOptions): Pages<TriggerFireRow> =>
    list("listTriggerFires", { path: { id } }, options),
});

/** `client.bulk` */
export const bulkOf = (call: Call, list: List) => {
  const get = (id: string, options?: CallOptions): Promise<BulkJob> => call("getBulkJob", { path: { id } }, options);
  return {
    /** One act to all runs that match now. Throws Invalid if there are more than `limit`. */
    start: (job: Sent<"createBulkJob">, options?: CallOptions): Promise<Answered<"createBulkJob">> =>
      call("createBulkJob", { body: job }, options),
    get,
    list: (options?: CallOptions): Pages<BulkJob> => list("listBulkJobs", undefined, options),
    stop: (id: string, options?: CallOptions): Promise<Answered<"stopBulkJob">> =>
      call("stopBulkJob", { path: { id } }, options),
    resume: (id: string, options?: CallOptions): Promise<Answered<"resumeBulkJob">> =>
      call("resumeBulkJob", { path: { id } }, options),
    /** The job when it has ended: done, or stopped. */
    ended: async (id: string, options?: Pick<CallOptions, "signal">): Promise<BulkJob> => {
      for (;;) {
        const beganAt = now();
        const job = await call("getBulkJob", { path: { id }, query: { wait_ms: ROUND_MS } }, options);
        if (job.state !== "running") return job;
        await afterRound(beganAt, ROUND_MS, options?.signal);
      }
    },
  };
};

/** `client.tasks`: the user tasks of all runs. Those of one run, and how one is submitted, are at its handle. */
export const tasksOf = (call: Call, list: List) => ({
  list: (query: QueryOf<"listUserTasks"> = {}, options?: CallOptions): Pages<UserTask> =>
    list("listUserTasks", { query }, options),
  submit: (
    task: Pick<UserTask, "id" | "run_id">,
    result: object,
    options?: CallOptions,
  ): Promise<Answered<"submitUserTask">> =>
    call("submitUserTask", { path: { run_id: task.run_id, task_id: task.id }, body: { result } }, options),
});

/** `client.actions`: the registry. */
export const actionsOf = (call: Call, list: List) => ({
  list: (query: QueryOf<"listActions"> = {}, options?: CallOptions): Pages<ActionRegistration> =>
    list("listActions", { query }, options),
  /** All of them, or none. */
  register: (body: Sent<"registerActions">, options?: CallOptions): Promise<Answered<"registerActions">> =>
    call("registerActions", { body }, options),
});

/** `client.keys`: API keys. All of it needs the role `admin`. */
export const keysOf = (call: Call, list: List) => ({
  /** Its answer alone has the credential. Without an answer it is not asked again: look at the list, and revoke a key that you do not have. */
  create: (key: Sent<"createApiKey">, options?: CallOptions): Promise<NewApiKey> =>
    call("createApiKey", { body: key }, options),
  list: (query: QueryOf<"listApiKeys"> = {}, options?: CallOptions): Pages<ApiKey> =>
    list("listApiKeys", { query }, options),
  revoke: (id: string, options?: CallOptions): Promise<undefined> => call("revokeApiKey", { path: { id } }, options),
});

/** `client.dataKeys`: those of a tenant, with encryption at rest. All of it needs the role `platform`. */
export const dataKeysOf = (call: Call) => ({
  /** Throws NotFound if the tenant has never had a key. */
  get: (tenantId: string, options?: CallOptions): Promise<DataKeys> =>
    call("getDataKeys", { path: { tenant_id: tenantId } }, options),
  /** Nothing that was sealed for the tenant can ever be read again, and its unfinished runs fail: `unfinished_runs` counts those that have not ended yet. */
  destroy: (tenantId: string, options?: CallOptions): Promise<DataKeys> =>
    call("destroyDataKeys", { path: { tenant_id: tenantId } }, options),
});

export type Triggers = ReturnType<typeof triggersOf>;
export type Bulk = ReturnType<typeof bulkOf>;
export type Tasks = ReturnType<typeof tasksOf>;
export type Actions = ReturnType<typeof actionsOf>;
export type Keys = ReturnType<typeof keysOf>;
export type TenantDataKeys = ReturnType<typeof dataKeysOf>;
