// Operations of the API: what each takes and answers. Generated from docs/openapi.json by `npm run docs`, and never edited.
import type { JsonObject } from "../json.js";
import type { Page } from "../pages.js";
import type { ActionRegistration, ApiKey, BulkJob, ChangedRegistration, Cluster, DataKeys, NewApiKey, Performance, Principal, RuleDefinition, SagaTrigger, TriggerFireRow, UnservedAction, UserTask, Worker, WorkflowDefinition } from "./resources.js";
import type { RunOperations } from "./run-operations.js";

export interface Operations extends RunOperations {
  /** Get who asks, by a session or another credential */
  getSession: {
    answer: Principal;
  };
  /** Check that the process runs */
  isAlive: {
    answer: { readonly status: string };
  };
  /** Check that the node takes requests */
  isReady: {
    answer: { readonly status: string };
  };
  /** Get the metrics of the service */
  getMetrics: {
    answer: string;
  };
  /** Report how many runs could move to a version, and why the others cannot */
  checkWorkflowMigration: {
    path: { wf_id: string };
    body: {
      readonly version: number;
      readonly from_version?: number | undefined;
      /** Step id of the run's version to step id of the new one; over the `migrations` of the new version. */
      readonly steps?: Readonly<Record<string, string>> | undefined;
      readonly limit?: number | undefined;
    };
    answer: {
      /** Runs that were looked at: of the workflow, and neither ended nor of that version. */
      readonly matched: number;
      readonly movable: number;
      readonly refused: number;
      readonly reasons: readonly ({
        /** A place in the definition of the new version, or in `steps` of the request. */
        readonly path?: string | undefined;
        readonly message: string;
        readonly count: number;
        /** The first of them. */
        readonly run_ids: readonly string[];
      })[];
      /** More runs match than the limit. */
      readonly truncated?: boolean | undefined;
      /** Of refusals, whose reasons did not fit. */
      readonly left_off?: number | undefined;
    };
  };
  /** Act on all runs that a filter matches */
  createBulkJob: {
    body: {
      /** As the list's; `label.<name>` is the value of a label. */
      readonly filter: {
        /** 1 to 128 of A-Z a-z 0-9 _ . : - */
        readonly workflow_id?: string | undefined;
        readonly version?: number | undefined;
        readonly state?: readonly ("pending" | "running" | "paused" | "compensating" | "succeeded" | "failed" | "cancelled")[] | undefined;
        readonly tenant_id?: string | undefined;
        readonly trigger_id?: string | undefined;
        readonly parent_run_id?: string | undefined;
        readonly root_only?: boolean | undefined;
        readonly business_key?: string | undefined;
        readonly requires_manual_review?: boolean | undefined;
        readonly awaited_signal?: string | undefined;
        /** 1 to 128 of A-Z a-z 0-9 _ . : - */
        readonly current_step?: string | undefined;
        readonly paused_reason?: readonly ("signal" | "event" | "user_task" | "timer" | "children" | "retry" | "concurrency" | "rate_limit" | "incident" | "operator" | "quarantine")[] | undefined;
        readonly incident?: boolean | undefined;
        readonly incident_in?: readonly string[] | undefined;
        readonly error_code?: string | undefined;
        readonly bulk_id?: string | undefined;
        readonly forked_from?: string | undefined;
        readonly started_after?: string | undefined;
        readonly started_before?: string | undefined;
        readonly q?: string | undefined;
        readonly [member: string]: unknown;
      };
      readonly action: "pause" | "resume" | "retry_step" | "skip_step" | "fail" | "compensations/retry" | "compensations/skip" | "terminate" | "migrate" | "release" | "cancel" | "signal" | "rerun" | "erase";
      /** The body of the act. */
      readonly params?: object | undefined;
      readonly limit?: number | undefined;
      /** The job acts on the runs of this tenant only. */
      readonly tenant_id?: string | undefined;
    };
    answer: { readonly bulk_id: string; readonly matched: number };
  };
  /** List bulk jobs */
  listBulkJobs: {
    query?: { limit?: number | undefined; offset?: number | undefined; cursor?: string | undefined; count?: "exact" | undefined };
    answer: Page<BulkJob>;
  };
  /** Get a bulk job; with wait_ms the answer waits for its end, or until more than after_done are done */
  getBulkJob: {
    path: { id: string };
    query?: { wait_ms?: number | undefined; after_done?: number | undefined };
    answer: BulkJob;
  };
  /** Stop a bulk job: acts that are on their way are finished and counted */
  stopBulkJob: {
    path: { id: string };
    body?: object;
    answer: {
      readonly bulk_id: string;
      readonly state: string;
      /** False: the job was not running. */
      readonly changed: boolean;
    };
  };
  /** Resume a bulk job that was stopped, with the runs that are left */
  resumeBulkJob: {
    path: { id: string };
    body?: object;
    answer: {
      readonly bulk_id: string;
      readonly state: string;
      /** False: the job was not stopped. */
      readonly changed: boolean;
    };
  };
  /** List user tasks */
  listUserTasks: {
    query?: { assignee?: string | undefined; status?: "open" | "submitted" | "expired" | undefined; run_id?: string | undefined; limit?: number | undefined; offset?: number | undefined; cursor?: string | undefined; count?: "exact" | undefined };
    answer: Page<UserTask>;
  };
  /** Publish an event; with the same idempotency_key it is published once */
  publishEvent: {
    body: {
      readonly topic: string;
      readonly headers?: Readonly<Record<string, string>> | undefined;
      /** Only runs and triggers of this tenant see the event. */
      readonly tenant_id?: string | undefined;
      /** Any JSON value; {} if absent or null. */
      readonly payload?: unknown | undefined;
      readonly idempotency_key?: string | undefined;
    };
    answer: { readonly event_id: string };
  };
  /** Create a trigger */
  createTrigger: {
    body: object;
    answer: SagaTrigger;
  };
  /** List triggers */
  listTriggers: {
    query?: { type?: "cron" | "record_transition" | undefined; enabled?: boolean | undefined; workflow_id?: string | undefined; limit?: number | undefined; offset?: number | undefined; cursor?: string | undefined; count?: "exact" | undefined };
    answer: Page<SagaTrigger>;
  };
  /** Get a trigger */
  getTrigger: {
    path: { id: string };
    answer: SagaTrigger;
  };
  /** Enable or disable a trigger, or replace its config */
  changeTrigger: {
    path: { id: string };
    body: {
      readonly enabled?: boolean | undefined;
      /** Replaces the whole config. */
      readonly config?: object | undefined;
      /** Why it is disabled: with `enabled: false` only. */
      readonly reason?: string | undefined;
    };
    answer: SagaTrigger;
  };
  /** Delete a trigger */
  deleteTrigger: {
    path: { id: string };
    answer: undefined;
  };
  /** Fire a trigger now, enabled or not */
  fireTrigger: {
    path: { id: string };
    body?: {
      /** Of a record_transition trigger: the payload of the event. */
      readonly payload?: object | undefined;
    };
    answer: {
      readonly fire_id: string;
      /** Absent: the fire ended with an error, or its run is still owed. */
      readonly run_id?: string | undefined;
    };
  };
  /** Fire the ticks of a past range that have started no run, enabled or not */
  backfillTrigger: {
    path: { id: string };
    body: {
      /** RFC 3339. The first moment of the range. */
      readonly from: string;
      /** RFC 3339. The last one, which is not in the future. Absent: now. */
      readonly to?: string | undefined;
      /** Lists what would be fired, and fires nothing. */
      readonly dry_run?: boolean | undefined;
    };
    answer: {
      /** Of the range, whether they were fired before or not. */
      readonly ticks: number;
      /** Those that had started no run, and are fired now. */
      readonly fired: number;
      /** Present and true: none was fired. */
      readonly dry_run?: boolean | undefined;
      /** What is fired now, in the order of the ticks. */
      readonly items: readonly { readonly fire_id: string; readonly scheduled_at: string }[];
    };
  };
  /** List a trigger's fires, skips and errors */
  listTriggerFires: {
    path: { id: string };
    query?: { limit?: number | undefined; offset?: number | undefined; cursor?: string | undefined; count?: "exact" | undefined };
    answer: Page<TriggerFireRow>;
  };
  /** List when a cron trigger fires next */
  listTriggerTicks: {
    path: { id: string };
    query?: { count?: number | undefined };
    answer: { readonly items: readonly string[] };
  };
  /** Store a version of a workflow */
  createWorkflow: {
    body: object;
    answer: WorkflowDefinition;
  };
  /** List workflows, each by its latest published version */
  listWorkflows: {
    query?: { limit?: number | undefined; offset?: number | undefined; cursor?: string | undefined; count?: "exact" | undefined };
    answer: Page<WorkflowDefinition>;
  };
  /** Publish a version: it can be started */
  publishWorkflow: {
    path: { wf_id: string; version: number };
    body?: object;
    answer: WorkflowDefinition;
  };
  /** Unpublish a version: it can no longer be started */
  unpublishWorkflow: {
    path: { wf_id: string; version: number };
    body?: object;
    answer: WorkflowDefinition;
  };
  /** Get the latest published version of a workflow, or the version asked for */
  getWorkflow: {
    path: { wf_id: string };
    query?: { version?: number | undefined };
    answer: WorkflowDefinition;
  };
  /** List a workflow's versions, newest first */
  listWorkflowVersions: {
    path: { wf_id: string };
    query?: { limit?: number | undefined; offset?: number | undefined; cursor?: string | undefined; count?: "exact" | undefined };
    answer: Page<WorkflowDefinition>;
  };
  /** Validate a workflow without storing it */
  validateWorkflow: {
    body: object;
    answer: {
      readonly valid: boolean;
      readonly errors: readonly { readonly path: string; readonly message: string }[];
      readonly warnings: readonly { readonly path: string; readonly message: string }[];
    };
  };
  /** Get the state chart of a workflow; it opens in Stately Studio, or as a Mermaid diagram */
  getWorkflowMachine: {
    path: { wf_id: string };
    query?: { version?: number | undefined; format?: "json" | "mermaid" | undefined };
    answer: JsonObject | string;
  };
  /** Get aggregate stats of a workflow */
  getWorkflowStats: {
    path: { wf_id: string };
    answer: {
      readonly success_rate_24h: number | null;
      readonly last_run_at: string | null;
      readonly in_flight: number;
      /** Slots that its runs hold, and runs that wait for one, over all keys. Absent: neither. */
      readonly concurrency?: { readonly held: number; readonly waiting: number } | undefined;
      /** Runs that wait for their turn under its rate limit, over all keys. Absent: none. */
      readonly rate_limit?: { readonly waiting: number } | undefined;
    };
  };
  /** Get what ended in each part of the last hours, and how long runs and steps took */
  getWorkflowPerformance: {
    path: { wf_id: string };
    query?: { version?: number | undefined; hours?: number | undefined };
    answer: Performance;
  };
  /** Rehearse a workflow with mocks; nothing is stored or sent */
  rehearseWorkflow: {
    path: { wf_id: string };
    body: {
      readonly inputs?: object | undefined;
      readonly version?: number | undefined;
      /** Step id to a list of {output} or {error: {code, message?, retryable?, outcome_unknown?}}. */
      readonly mocks: object;
    };
    answer: {
      readonly state: "pending" | "running" | "paused" | "compensating" | "succeeded" | "failed" | "cancelled";
      readonly output?: unknown | undefined;
      readonly variables: JsonObject;
      readonly error?: {
        readonly code: string;
        readonly message: string;
        readonly step_id?: string | undefined;
        /** Of a failed sub-saga: the error of the child. */
        readonly cause?: unknown | undefined;
      } | undefined;
      readonly requires_manual_review: boolean;
      /** The events of the run and its children, in the order in which they happened. */
      readonly events: readonly ({
        readonly seq: number;
        readonly run_id: string;
        readonly workflow_id: string;
        readonly step_id?: string | undefined;
        readonly attempt: number;
        readonly event_type: string;
        readonly from_state: string;
        readonly to_state: string;
        readonly actor: string;
        readonly metadata?: JsonObject | undefined;
        readonly recorded_at: string;
      })[];
      /** Present if the rehearsal stopped before the run ended: the reason. */
      readonly left?: string | undefined;
    };
  };
  /** Store a version of a rule */
  createRule: {
    body: object;
    answer: RuleDefinition;
  };
  /** List rules, each by its latest published version */
  listRules: {
    query?: { limit?: number | undefined; offset?: number | undefined; cursor?: string | undefined; count?: "exact" | undefined };
    answer: Page<RuleDefinition>;
  };
  /** Publish a version: it can be evaluated */
  publishRule: {
    path: { rule_id: string; version: number };
    body?: object;
    answer: RuleDefinition;
  };
  /** Unpublish a version: it can no longer be evaluated */
  unpublishRule: {
    path: { rule_id: string; version: number };
    body?: object;
    answer: RuleDefinition;
  };
  /** Get the latest published version of a rule, or the version asked for */
  getRule: {
    path: { rule_id: string };
    query?: { version?: number | undefined };
    answer: RuleDefinition;
  };
  /** List a rule's versions, newest first */
  listRuleVersions: {
    path: { rule_id: string };
    query?: { limit?: number | undefined; offset?: number | undefined; cursor?: string | undefined; count?: "exact" | undefined };
    answer: Page<RuleDefinition>;
  };
  /** Evaluate a rule */
  evaluateRule: {
    path: { rule_id: string };
    body: {
      /** The conditions see it as `inputs`, and each member by its name. */
      readonly inputs: object;
      readonly version?: number | undefined;
      /** A rule with a tenant exists for that tenant only. */
      readonly tenant_id?: string | undefined;
    };
    answer: {
      readonly output: JsonObject;
      readonly audit: {
        readonly rule_id: string;
        readonly version: number;
        readonly matched_row: number | null;
        readonly used_default: boolean;
        /** The rows that were evaluated. */
        readonly rows: readonly { readonly index: number; readonly matched: boolean }[];
        readonly duration_ms: number;
      };
    };
  };
  /** Register actions: all or nothing, by service, action_name and version */
  registerActions: {
    body: {
      readonly service: string;
      readonly service_version?: string | undefined;
      /** Leave registrations that exist as they are. The answer has the new ones only. */
      readonly only_missing?: boolean | undefined;
      readonly actions: readonly ({
        readonly service?: string | undefined;
        /** Without a dot. */
        readonly action_name: string;
        readonly version?: number | undefined;
        readonly description?: string | undefined;
        readonly category?: string | undefined;
        readonly compensable?: boolean | undefined;
        readonly input_schema?: object | undefined;
        readonly output_schema?: object | undefined;
        readonly error_codes?: readonly string[] | undefined;
        readonly default_retry?: {
          /** -1 is unlimited. */
          readonly max_attempts: number;
          readonly initial_backoff_ms: number;
          readonly max_backoff_ms?: number | undefined;
          readonly multiplier?: number | undefined;
          readonly jitter?: boolean | undefined;
          readonly non_retryable_codes?: readonly string[] | undefined;
        } | undefined;
        readonly default_timeout_ms?: number | undefined;
        readonly deprecated?: boolean | undefined;
        readonly service_version?: string | undefined;
        readonly dry_run_supported?: boolean | undefined;
        readonly license_group?: string | undefined;
        /** Empty means grpc. */
        readonly transport?: "" | "grpc" | "http" | "rmq" | undefined;
        readonly address?: string | undefined;
        readonly id?: unknown | undefined;
        readonly registered_at?: unknown | undefined;
      })[];
    } | readonly ({
      readonly service?: string | undefined;
      /** Without a dot. */
      readonly action_name: string;
      readonly version?: number | undefined;
      readonly description?: string | undefined;
      readonly category?: string | undefined;
      readonly compensable?: boolean | undefined;
      readonly input_schema?: object | undefined;
      readonly output_schema?: object | undefined;
      readonly error_codes?: readonly string[] | undefined;
      readonly default_retry?: {
        /** -1 is unlimited. */
        readonly max_attempts: number;
        readonly initial_backoff_ms: number;
        readonly max_backoff_ms?: number | undefined;
        readonly multiplier?: number | undefined;
        readonly jitter?: boolean | undefined;
        readonly non_retryable_codes?: readonly string[] | undefined;
      } | undefined;
      readonly default_timeout_ms?: number | undefined;
      readonly deprecated?: boolean | undefined;
      readonly service_version?: string | undefined;
      readonly dry_run_supported?: boolean | undefined;
      readonly license_group?: string | undefined;
      /** Empty means grpc. */
      readonly transport?: "" | "grpc" | "http" | "rmq" | undefined;
      readonly address?: string | undefined;
      readonly id?: unknown | undefined;
      readonly registered_at?: unknown | undefined;
    })[];
    answer: {
      readonly registered: number;
      readonly actions: readonly ActionRegistration[];
      /** Registrations that were there before and are others now. Dispatches in flight keep what they were sent with. */
      readonly changed: readonly ChangedRegistration[];
    };
  };
  /** List registered actions */
  listActions: {
    query?: { service?: string | undefined; category?: string | undefined; search?: string | undefined; limit?: number | undefined; offset?: number | undefined; cursor?: string | undefined; count?: "exact" | undefined };
    answer: Page<ActionRegistration>;
  };
  /** List the connected workers of all nodes, and the actions that no worker serves */
  listWorkers: {
    query?: { service?: string | undefined; transport?: "grpc" | "http" | "rmq" | undefined; limit?: number | undefined; offset?: number | undefined; cursor?: string | undefined; count?: "exact" | undefined };
    answer: Page<Worker> & {
      /** Actions that runs wait for and no worker serves. */
      readonly unserved?: readonly UnservedAction[] | undefined;
      /** Nodes that did not answer in time. */
      readonly silent_nodes?: readonly string[] | undefined;
      /** Workers that the answers of their nodes had no room for. */
      readonly left_off?: number | undefined;
    };
  };
  /** Get the nodes, their shards and the backlog */
  getCluster: {
    answer: Cluster;
  };
  /** Make an API key; its text is in this answer only */
  createApiKey: {
    body: {
      readonly name: string;
      readonly roles: readonly ("viewer" | "operator" | "author" | "admin" | "worker" | "scrape" | "platform")[];
      readonly tenant_id?: string | undefined;
      /** The only tenants that a key of the platform serves. */
      readonly tenants?: readonly string[] | undefined;
      /** Ids, or the beginnings of ids and `*`. Absent: all workflows that the maker has. */
      readonly workflows?: readonly string[] | undefined;
      /** Likewise, of the services that a worker may serve. Absent: none. */
      readonly services?: readonly string[] | undefined;
      /** Likewise, of the secrets that definitions may name. Absent: none. */
      readonly secrets?: readonly string[] | undefined;
      /** RFC 3339. Absent: when the key ends that made it, if it does. */
      readonly expires_at?: string | undefined;
    };
    answer: NewApiKey;
  };
  /** List API keys, without their secrets; revoked and expired ones for 90 days */
  listApiKeys: {
    query?: { tenant_id?: string | undefined; limit?: number | undefined; offset?: number | undefined; cursor?: string | undefined; count?: "exact" | undefined };
    answer: Page<ApiKey>;
  };
  /** Revoke an API key: it is refused on every node within 5 s */
  revokeApiKey: {
    path: { id: string };
    answer: undefined;
  };
  /** Get how many data keys a tenant has, and how far their destruction is */
  getDataKeys: {
    path: { tenant_id: string };
    answer: DataKeys;
  };
  /** Destroy the data keys of a tenant: nothing that was sealed under them can ever be read again */
  destroyDataKeys: {
    path: { tenant_id: string };
    answer: DataKeys;
  };
}
