// Operations of the API: what each takes and answers. Generated from docs/openapi.json by `npm run docs`, and never edited.
import type { Page } from "../pages.js";
import type { ChildCount, RunCount, SagaRun, SagaRunEvent, SagaSignal, UndoEntry, UserTask } from "./resources.js";
export interface RunOperations {
  /** Start a run; with wait_ms the answer waits for its end */
  startSaga: {
    query?: { wait_ms?: number | undefined };
    body: {
      readonly workflow_id: string;
      readonly version?: number | undefined;
      /** Empty or `default`: the definition's start. */
      readonly entrypoint?: string | undefined;
      readonly inputs?: object | undefined;
      readonly variables?: object | undefined;
      readonly tenant_id?: string | undefined;
      readonly dry_run?: boolean | undefined;
      readonly feature_overrides?: Readonly<Record<string, boolean>> | undefined;
      readonly run_id?: string | undefined;
      readonly idempotency_key?: string | undefined;
      readonly business_key?: string | undefined;
      /** They stay with the run, and are filters of the list. */
      readonly labels?: Readonly<Record<string, string>> | undefined;
      /** 1 is the highest; default 3. */
      readonly priority?: number | undefined;
      /** Keys share by their weights what their runs wait for, within a tenant and a priority. */
      readonly fairness_key?: string | undefined;
      /** Of the fairness key; default 1. */
      readonly fairness_weight?: number | undefined;
      readonly delay_ms?: number | undefined;
      readonly timeout_ms?: number | undefined;
      /** What happens while another run that was started with this member holds the business key. */
      readonly on_conflict?: "reject" | "return" | "cancel_old" | undefined;
      /** Of starts of a business key, each within the window of the one before, the last one is carried out. */
      readonly debounce?: {
        readonly window_ms: number;
        /** From the first start of the burst. */
        readonly max_ms?: number | undefined;
      } | undefined;
    };
    answer: {
      readonly run_id: string;
      readonly workflow_id: string;
      readonly version: number;
      readonly definition_id: string;
      readonly state: string;
      /** A run with this idempotency key or run id existed, or had the business key; this is that run. */
      readonly deduplicated: boolean;
      readonly run: SagaRun;
    } | {
      readonly run_id: string;
      readonly workflow_id: string;
      readonly version: number;
      readonly definition_id: string;
      readonly state: string;
      /** A run with this idempotency key or run id existed, or had the business key; this is that run. */
      readonly deduplicated: boolean;
    };
  };
  /** Deliver a signal to the run that has the business key, or to one that is started with it */
  signalWithStart: {
    query?: { wait_ms?: number | undefined };
    body: {
      readonly workflow_id: string;
      readonly version?: number | undefined;
      /** Empty or `default`: the definition's start. */
      readonly entrypoint?: string | undefined;
      readonly inputs?: object | undefined;
      readonly variables?: object | undefined;
      readonly tenant_id?: string | undefined;
      readonly dry_run?: boolean | undefined;
      readonly feature_overrides?: Readonly<Record<string, boolean>> | undefined;
      readonly run_id?: string | undefined;
      readonly idempotency_key?: string | undefined;
      readonly business_key: string;
      /** They stay with the run, and are filters of the list. */
      readonly labels?: Readonly<Record<string, string>> | undefined;
      /** 1 is the highest; default 3. */
      readonly priority?: number | undefined;
      /** Keys share by their weights what their runs wait for, within a tenant and a priority. */
      readonly fairness_key?: string | undefined;
      /** Of the fairness key; default 1. */
      readonly fairness_weight?: number | undefined;
      readonly delay_ms?: number | undefined;
      readonly timeout_ms?: number | undefined;
      readonly signal: {
        /** 1 to 128 of A-Z a-z 0-9 _ . : -, and not . or .. */
        readonly name: string;
        readonly payload?: object | undefined;
        readonly idempotency_key?: string | undefined;
      };
    };
    answer: {
      readonly run_id: string;
      readonly workflow_id: string;
      readonly version: number;
      readonly definition_id: string;
      readonly state: string;
      /** A run with this idempotency key or run id existed, or had the business key; this is that run. */
      readonly deduplicated: boolean;
      readonly signal_id: string;
      /** A step awaited the signal and took it. */
      readonly matched: boolean;
      readonly run: SagaRun;
    } | {
      readonly run_id: string;
      readonly workflow_id: string;
      readonly version: number;
      readonly definition_id: string;
      readonly state: string;
      /** A run with this idempotency key or run id existed, or had the business key; this is that run. */
      readonly deduplicated: boolean;
      readonly signal_id: string;
      /** A step awaited the signal and took it. */
      readonly matched: boolean;
    };
  };
  /** List runs */
  listSagas: {
    query?: { workflow_id?: string | undefined; version?: number | undefined; state?: readonly ("pending" | "running" | "paused" | "compensating" | "succeeded" | "failed" | "cancelled")[] | undefined; tenant_id?: string | undefined; trigger_id?: string | undefined; parent_run_id?: string | undefined; root_only?: boolean | undefined; business_key?: string | undefined; requires_manual_review?: boolean | undefined; awaited_signal?: string | undefined; current_step?: string | undefined; paused_reason?: readonly ("signal" | "event" | "user_task" | "timer" | "children" | "retry" | "concurrency" | "rate_limit" | "incident" | "operator" | "quarantine")[] | undefined; incident?: boolean | undefined; incident_in?: readonly string[] | undefined; error_code?: string | undefined; bulk_id?: string | undefined; forked_from?: string | undefined; started_after?: string | undefined; started_before?: string | undefined; [label: `label.${string}`]: string | undefined; q?: string | undefined; sort?: "-started_at" | "started_at" | undefined; limit?: number | undefined; offset?: number | undefined; cursor?: string | undefined; count?: "exact" | undefined };
    answer: Page<SagaRun>;
  };
  /** Count runs by workflow, version, state and reason of a pause */
  countSagas: {
    query?: { workflow_id?: string | undefined; version?: number | undefined; state?: readonly ("pending" | "running" | "paused" | "compensating" | "succeeded" | "failed" | "cancelled")[] | undefined; tenant_id?: string | undefined; trigger_id?: string | undefined; parent_run_id?: string | undefined; root_only?: boolean | undefined; business_key?: string | undefined; requires_manual_review?: boolean | undefined; awaited_signal?: string | undefined; current_step?: string | undefined; paused_reason?: readonly ("signal" | "event" | "user_task" | "timer" | "children" | "retry" | "concurrency" | "rate_limit" | "incident" | "operator" | "quarantine")[] | undefined; incident?: boolean | undefined; incident_in?: readonly string[] | undefined; error_code?: string | undefined; bulk_id?: string | undefined; forked_from?: string | undefined; started_after?: string | undefined; started_before?: string | undefined; [label: `label.${string}`]: string | undefined; q?: string | undefined; count?: "exact" | undefined };
    answer: {
      readonly items: readonly RunCount[];
      /** There are more than 10,000 kinds. */
      readonly truncated?: boolean | undefined;
    };
  };
  /** Get a run; with wait_ms the answer waits for its end, or for an audit row after after_seq */
  getSaga: {
    path: { id: string };
    query?: { wait_ms?: number | undefined; after_seq?: number | undefined };
    answer: SagaRun;
  };
  /** Erase a run that has ended, with its children and everything of them */
  eraseSaga: {
    path: { id: string };
    answer: undefined;
  };
  /** List a run's audit events */
  listSagaEvents: {
    path: { id: string };
    query?: { limit?: number | undefined; offset?: number | undefined; cursor?: string | undefined; count?: "exact" | undefined };
    answer: Page<SagaRunEvent>;
  };
  /** List a run's signals */
  listSagaSignals: {
    path: { id: string };
    query?: { limit?: number | undefined; offset?: number | undefined; cursor?: string | undefined; count?: "exact" | undefined };
    answer: Page<SagaSignal>;
  };
  /** List a run's undo entries */
  listSagaUndo: {
    path: { id: string };
    query?: { limit?: number | undefined; offset?: number | undefined; cursor?: string | undefined; count?: "exact" | undefined };
    answer: Page<UndoEntry>;
  };
  /** List the user tasks of a run, its branches and items */
  listSagaUserTasks: {
    path: { id: string };
    query?: { limit?: number | undefined; offset?: number | undefined; cursor?: string | undefined; count?: "exact" | undefined };
    answer: Page<UserTask>;
  };
  /** List a run's direct children: branches, items and sub-sagas */
  listSagaChildren: {
    path: { id: string };
    query?: { parent_step_id?: string | undefined; state?: readonly ("pending" | "running" | "paused" | "compensating" | "succeeded" | "failed" | "cancelled")[] | undefined; limit?: number | undefined; offset?: number | undefined; cursor?: string | undefined; count?: "exact" | undefined };
    answer: Page<SagaRun>;
  };
  /** Count a run's direct children by step, branch, state and current step */
  countSagaChildren: {
    path: { id: string };
    answer: {
      readonly items: readonly ChildCount[];
      /** There are more than 1,000 groups. */
      readonly truncated?: boolean | undefined;
    };
  };
  /** Cancel a run; the body may be omitted */
  cancelSaga: {
    path: { id: string };
    query?: { reason?: string | undefined };
    body?: {
      readonly reason?: string | undefined;
      /** Undo the completed steps. */
      readonly compensate?: boolean | undefined;
    };
    answer: { readonly run_id: string; readonly state: string; readonly already_terminal: boolean };
  };
  /** Deliver a signal; a body without payload that has other members is the payload itself */
  signalSaga: {
    path: { run_id: string; name: string };
    query?: { wait_ms?: number | undefined };
    body?: { readonly payload?: object | undefined; readonly idempotency_key?: string | undefined };
    answer: {
      readonly signal_id: string;
      /** A step awaited the signal and took it. */
      readonly matched: boolean;
      readonly run: SagaRun;
    } | {
      readonly signal_id: string;
      /** A step awaited the signal and took it. */
      readonly matched: boolean;
    };
  };
  /** Pause a run and its children: nothing new is begun, and answers that come are kept */
  pauseSaga: {
    path: { id: string };
    body?: { readonly reason?: string | undefined };
    answer: {
      readonly run_id: string;
      readonly state: string;
      /** False: the run was as the act wants it. */
      readonly changed: boolean;
    };
  };
  /** Resume a run that an operator paused, with its children */
  resumeSaga: {
    path: { id: string };
    body?: { readonly reason?: string | undefined };
    answer: {
      readonly run_id: string;
      readonly state: string;
      /** False: the run was as the act wants it. */
      readonly changed: boolean;
    };
  };
  /** Retry the step of an incident, or of a backoff, with a new series of attempts */
  retrySagaStep: {
    path: { id: string };
    body?: {
      /** Corrected first; the others stay. */
      readonly variables?: object | undefined;
    };
    answer: {
      readonly run_id: string;
      readonly state: string;
      /** False: the run was as the act wants it. */
      readonly changed: boolean;
    };
  };
  /** Let the step of an incident count as succeeded */
  skipSagaStep: {
    path: { id: string };
    body?: {
      /** The step's output; null if absent. */
      readonly output?: unknown | undefined;
    };
    answer: {
      readonly run_id: string;
      readonly state: string;
      /** False: the run was as the act wants it. */
      readonly changed: boolean;
    };
  };
  /** Let the error of an incident take its course */
  failSaga: {
    path: { id: string };
    body?: { readonly reason?: string | undefined };
    answer: {
      readonly run_id: string;
      readonly state: string;
      /** False: the run was as the act wants it. */
      readonly changed: boolean;
    };
  };
  /** Retry the undo that a rollback stands at */
  retrySagaCompensation: {
    path: { id: string };
    body?: {
      /** As the run's undo list has it; it must be the one that failed. */
      readonly ordinal?: number | undefined;
    };
    answer: {
      readonly run_id: string;
      readonly state: string;
      /** False: the run was as the act wants it. */
      readonly changed: boolean;
    };
  };
  /** Pass over the undo that a rollback stands at; a manual review is required then */
  skipSagaCompensation: {
    path: { id: string };
    body?: {
      /** As the run's undo list has it; it must be the one that failed. */
      readonly ordinal?: number | undefined;
    };
    answer: {
      readonly run_id: string;
      readonly state: string;
      /** False: the run was as the act wants it. */
      readonly changed: boolean;
    };
  };
  /** End a run without waiting for anything, also in a rollback; what is still owed is abandoned */
  terminateSaga: {
    path: { id: string };
    body: { readonly reason: string };
    answer: {
      readonly run_id: string;
      readonly state: string;
      /** False: the run was as the act wants it. */
      readonly changed: boolean;
    };
  };
  /** Release a run from quarantine */
  releaseSaga: {
    path: { id: string };
    body?: object;
    answer: {
      readonly run_id: string;
      readonly state: string;
      /** False: the run was as the act wants it. */
      readonly changed: boolean;
    };
  };
  /** Start a run that has ended again, with the same inputs unless others are given */
  rerunSaga: {
    path: { id: string };
    body?: {
      readonly version?: number | undefined;
      /** Those of the first run if absent. */
      readonly inputs?: object | undefined;
      /** They stay with the run, and are filters of the list. */
      readonly labels?: Readonly<Record<string, string>> | undefined;
    };
    answer: {
      readonly run_id: string;
      readonly state: string;
      /** False: the run was as the act wants it. */
      readonly changed: boolean;
    };
  };
  /** Start a new run that begins at a step of this one; one that waits ends with it */
  forkSaga: {
    path: { id: string };
    body: {
      /** 1 to 128 of A-Z a-z 0-9 _ . : - */
      readonly step: string;
      /** Which entry of the step; the last one if absent. */
      readonly entry?: number | undefined;
      /** All that the new run begins with; those at the entry if absent. */
      readonly variables?: object | undefined;
      /** Those of the original if absent. */
      readonly inputs?: object | undefined;
      readonly version?: number | undefined;
      /** `inherit`: the new run owes the undo of what was done before the step. `assume`: it inherits none. */
      readonly effects?: "inherit" | "assume" | undefined;
    };
    answer: {
      readonly run_id: string;
      readonly state: string;
      /** False: the run was as the act wants it. */
      readonly changed: boolean;
    };
  };
  /** Let a run that waits go on under another published version */
  migrateSaga: {
    path: { id: string };
    body: {
      readonly version: number;
      /** Step id of the run's version to step id of the new one; over the `migrations` of the new version. */
      readonly steps?: Readonly<Record<string, string>> | undefined;
      /** true: nothing is changed, and the answer says what is against it. */
      readonly check?: boolean | undefined;
    };
    answer: {
      readonly allowed: boolean;
      readonly reasons: readonly ({
        /** A place in the definition of the new version, or in `steps` of the request. */
        readonly path?: string | undefined;
        readonly message: string;
      })[];
    } | {
      readonly run_id: string;
      readonly state: string;
      /** False: the run was as the act wants it. */
      readonly changed: boolean;
    };
  };
  /** Explain what a run waits for, and what would make it go on */
  explainSaga: {
    path: { id: string };
    answer: {
      readonly run_id: string;
      readonly state: string;
      /** One sentence about the run, without its subject. */
      readonly because: string;
      /** Empty: the run has ended, or is stepping. */
      readonly waiting_for: readonly {
        readonly kind: string;
        readonly [member: string]: unknown;
      }[];
      readonly since: string;
      /** When time alone makes the run, or a child that it waits for, go on. */
      readonly next_at?: string | undefined;
      /** What an operator may do now, named like the routes. */
      readonly can: readonly string[];
    };
  };
  /** Evaluate a CEL expression about a run; nothing is changed */
  querySaga: {
    path: { id: string };
    body: {
      /** CEL. It sees what the expressions of the run see now, and `output` once there is one. */
      readonly expression: string;
    };
    answer: {
      readonly run_id: string;
      readonly state: string;
      /** The number of the run's last audit event: the value is that after it. */
      readonly last_seq: number;
      /** The value of the expression, as JSON. */
      readonly value: unknown;
    };
  };
  /** Report an action's result or error */
  reportActionResult: {
    path: { run_id: string; step_id: string };
    query?: { attempt?: number | undefined; dispatch_id?: string | undefined };
    body: {
      readonly attempt?: number | undefined;
      readonly dispatch_id?: string | undefined;
      readonly run_id?: string | undefined;
      readonly step_id?: string | undefined;
      readonly result?: object | undefined;
      readonly error?: {
        readonly code: string;
        readonly message: string;
        /** True if absent. */
        readonly retryable?: boolean | undefined;
        /** The effect may have happened. */
        readonly outcome_unknown?: boolean | undefined;
      } | undefined;
    };
    answer: { readonly accepted: boolean; readonly stale: boolean };
  };
  /** Report that an action is still in progress */
  reportActionHeartbeat: {
    path: { run_id: string; step_id: string };
    query?: { attempt?: number | undefined; dispatch_id?: string | undefined };
    body?: {
      readonly attempt?: number | undefined;
      readonly dispatch_id?: string | undefined;
      readonly run_id?: string | undefined;
      readonly step_id?: string | undefined;
    };
    answer: {
      readonly accepted: boolean;
      readonly stale: boolean;
      /** The run asks the worker to stop, and waits for its answer. */
      readonly cancelled?: boolean | undefined;
    };
  };
  /** Submit a user task; a body without result is the result itself */
  submitUserTask: {
    path: { run_id: string; task_id: string };
    query?: { wait_ms?: number | undefined };
    body?: {
      /** If absent, the whole body is the result. */
      readonly result?: object | undefined;
      readonly submitted_by?: string | undefined;
    };
    answer: {
      readonly task_id: string;
      readonly submitted_at: string;
      /** False if the run is in quarantine: it takes the result once it is released. */
      readonly matched: boolean;
      readonly run: SagaRun;
    } | {
      readonly task_id: string;
      readonly submitted_at: string;
      /** False if the run is in quarantine: it takes the result once it is released. */
      readonly matched: boolean;
    };
  };
}
