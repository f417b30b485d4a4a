// The resources as JSON Schemas, for the OpenAPI document. The schemas of bodies are with their routes.

import { AUDIT_TYPES, RUN_STATES } from "../../machines/index.js";
import { Type } from "./http/type.js";

const Uuid = Type.String({ format: "uuid" });
const Time = Type.String({ format: "date-time" });
const Text = Type.String();
const Int = Type.Integer();
const Bool = Type.Boolean();
const Free = Type.Object({}, { additionalProperties: true });
const opt = Type.Optional;
const Refusal = Type.Object({ run_id: Uuid, message: Text });

/** The components of the OpenAPI document, by name. */
export const RESOURCES = {
  Error: Type.Object({
    error: Type.String({ description: "A stable code." }),
    message: Text,
    details: opt(Type.Array(Type.Object({ path: Type.String({ description: "A JSON path." }), message: Text }))),
    details_truncated: opt(Type.Boolean({ description: "There were more: an answer has at most 64 KiB." })),
    signal_id: opt(Type.String({ format: "uuid", description: "Of a signal that no run awaits." })),
    recorded: opt(Type.Boolean({ description: "The signal is kept for a later wait." })),
    request_id: Text,
  }),
  BulkJob: Type.Object({
    bulk_id: Uuid,
    action: Text,
    filter: Free,
    state: Type.String({ enum: ["running", "done", "stopped"] }),
    matched: Type.Integer({ description: "The runs that matched when the job was created." }),
    done: Type.Integer({ description: "Of them, those that did as they were asked." }),
    refused: Int,
    refusals: opt(Type.Array(Refusal, { description: "The first hundred; absent in lists." })),
    started_at: Time,
    ended_at: opt(Time),
  }),
  SagaRun: Type.Object({
    id: Uuid,
    workflow_id: Text,
    version: Int,
    definition_id: Uuid,
    tenant_id: opt(Uuid),
    state: Type.String({ enum: [...RUN_STATES] }),
    paused_reason: opt(Type.String({ description: "Present while the run is paused." })),
    quarantine: opt(
      Type.Object(
        {
          trials: Type.Integer({ description: "How often the run ended or hung its trial process, alone." }),
          end: Type.String({ enum: ["ended", "hung"] }),
          signal: opt(Text),
          exit_code: opt(Int),
          out_of_memory: opt(Bool),
          heap_mb: Type.Integer({ description: "Its heap at the last report before its end." }),
          ms: Type.Integer({ description: "From the beginning of the trial to the end of the process." }),
        },
        { description: "What a run in quarantine was quarantined on: the last of its trials." },
      ),
    ),
    incident: opt(
      Type.Object(
        {
          code: Text,
          message: Text,
          step_id: opt(Text),
          attempts: Type.Integer({ description: "How often the step, or its undo, was dispatched." }),
          since: Time,
          phase: opt(Type.String({ enum: ["compensation"], description: "An undo failed, not the step itself." })),
        },
        { description: "What waits for a person: a step, or an undo, that failed for good." },
      ),
    ),
    current_step: opt(Type.String({ description: "During a rollback, the step being undone." })),
    inputs: Free,
    variables: Free,
    output: opt(Type.Unknown()),
    business_key: opt(Text),
    labels: opt(Type.Record(Text, Text)),
    started_at: Time,
    last_event_at: Time,
    terminal_at: opt(Time),
    requires_manual_review: Type.Boolean({
      description: "An undo failed, or a compensable action had no compensation.",
    }),
    trigger_id: opt(Uuid),
    parent_run_id: opt(Uuid),
    parent_step_id: opt(Text),
    parent_branch_id: opt(Text),
    root_run_id: opt(Uuid),
    rerun_of: opt(Type.String({ format: "uuid", description: "The run that was started again as this one." })),
    try_catch_stack: opt(Type.Array(Type.Object({ step_id: Text, catch_step: Text }))),
    dry_run: opt(Bool),
    wakeup_at: opt(Type.String({ format: "date-time", description: "When a timer continues the run." })),
    awaited_signal: opt(Text),
    awaited_event_topic: opt(Text),
    awaited_event_headers: opt(Type.Record(Text, Text)),
    awaited_action_dispatch: opt(Text),
    current_attempt: opt(
      Type.Integer({ description: "Absent while the action waits for a worker: nothing was tried yet." }),
    ),
    queued_action: opt(
      Type.Object(
        {
          action: Text,
          transport: Type.String({ enum: ["grpc", "http", "rmq", "request"] }),
          since: Time,
          reason: Type.String({
            enum: ["no_worker", "no_credit"],
            description: "No worker serves it, or all are busy.",
          }),
        },
        { description: "The action that waits for a worker." },
      ),
    ),
    retry: opt(
      Type.Object(
        {
          attempt: opt(
            Type.Integer({
              description:
                "The one that failed, counted as `max_attempts` counts: within this entry of the step. Absent if an earlier release began the backoff.",
            }),
          ),
          max_attempts: opt(Type.Integer({ description: "-1 is unlimited." })),
          next_at: Time,
          error: opt(Type.Object({ code: Text, message: Text })),
        },
        { description: "Present while a backoff runs." },
      ),
    ),
    feature_overrides: opt(Type.Record(Text, Bool)),
    last_error: opt(Type.String({ description: "The first cause, once the run has failed or was cancelled." })),
    error: opt(
      Type.Object({
        code: Text,
        message: Text,
        step_id: opt(Text),
        cause: opt(Type.Unknown({ description: "Of a failed sub-saga: the error of the child." })),
      }),
    ),
  }),
  RunCount: Type.Object({
    workflow_id: Text,
    version: Int,
    state: Type.String({ enum: [...RUN_STATES] }),
    paused_reason: opt(Text),
    count: Int,
    count_is_lower_bound: opt(
      Type.Boolean({ description: "There are at least this many. Then other kinds of runs may be missing." }),
    ),
  }),
  SagaRunEvent: Type.Object({
    id: Uuid,
    run_id: Uuid,
    seq: Int,
    step_id: opt(Text),
    attempt: Type.Integer({ description: "0 if the event belongs to no attempt." }),
    event_type: Type.String({ enum: [...AUDIT_TYPES] }),
    from_state: Text,
    to_state: Text,
    actor: Text,
    metadata: opt(Free),
    recorded_at: Time,
  }),
  SagaSignal: Type.Object({
    id: Uuid,
    run_id: Uuid,
    signal_name: Text,
    payload: opt(Free),
    received_at: Time,
    consumed_at: opt(Time),
  }),
  UndoEntry: Type.Object({
    ordinal: Type.Integer({ description: "Counts from 1 in the list of this run." }),
    step_id: Text,
    action: opt(Type.String({ description: "The compensation, with its version." })),
    child_run_id: opt(Uuid),
    state: Type.String({
      enum: ["owed", "done", "failed", "passed", "abandoned", "not_needed"],
      description:
        "`owed` only while the run may still roll back. `passed`: there was nothing to call. `abandoned`: the run ended without undoing it. `not_needed`: the run succeeded.",
    }),
  }),
  UserTask: Type.Object({
    id: Uuid,
    run_id: Uuid,
    step_id: Text,
    assignee: Text,
    title: opt(Text),
    status: Type.String({ enum: ["open", "submitted", "expired"] }),
    opened_at: Time,
    due_at: opt(Time),
    form_schema: opt(Free),
    submitted_at: opt(Time),
    submitted_by: opt(Text),
    result: opt(Free),
  }),
  WorkflowDefinition: Type.Object(
    {
      id: Text,
      version: Int,
      tenant_id: opt(Text),
      name: Text,
      description: opt(Text),
      start: Text,
      entrypoints: opt(Type.Record(Text, Text)),
      steps: Type.Array(Free),
      published: Bool,
      created_at: opt(Time),
      created_by: opt(Text),
      input_schema: opt(Free),
      timeout_ms: opt(Int),
    },
    { additionalProperties: true },
  ),
  RuleDefinition: Type.Object({
    id: Uuid,
    rule_id: Text,
    version: Int,
    tenant_id: opt(Text),
    name: Text,
    rule_type: Type.String({ enum: ["decision_table"] }),
    spec: Type.Object({
      hit_policy: Type.String({ enum: ["first"] }),
      rows: Type.Array(Type.Object({ when: Text, then: Free })),
      default_output: opt(Free),
    }),
    published: Bool,
    created_at: opt(Time),
    created_by: opt(Text),
  }),
  SagaTrigger: Type.Object({
    id: Uuid,
    trigger_type: Type.String({ enum: ["cron", "record_transition"] }),
    workflow_id: Text,
    version: opt(Int),
    config: Free,
    enabled: Bool,
    tenant_id: opt(Uuid),
    created_at: Time,
    created_by: opt(Text),
    next_fire_at: opt(Time),
    last_fired_at: opt(Time),
  }),
  TriggerFireRow: Type.Object({
    id: Uuid,
    trigger_id: Uuid,
    workflow_id: Text,
    scheduled_at: Time,
    fired_at: Time,
    resulting_run_id: opt(Uuid),
    error: opt(Type.String({ description: "Why the fire started no run: a skip, a missed tick, a failure." })),
  }),
  ActionRegistration: Type.Object({
    id: Uuid,
    service: Text,
    action_name: Text,
    version: Int,
    description: opt(Text),
    category: opt(Text),
    compensable: Bool,
    input_schema: Free,
    output_schema: Free,
    error_codes: opt(Type.Array(Text)),
    default_retry: opt(Free),
    default_timeout_ms: opt(Int),
    deprecated: Bool,
    registered_at: Time,
    service_version: opt(Text),
    dry_run_supported: Bool,
    license_group: opt(Text),
    transport: Type.String({ enum: ["grpc", "http", "rmq"] }),
    address: opt(Text),
  }),
  ChangedRegistration: Type.Object({
    service: Text,
    action_name: Text,
    version: Int,
    members: Type.Array(Text, { description: "The members that differ." }),
  }),
  Worker: Type.Object({
    worker_id: Text,
    service: Text,
    actions: Type.Array(Text, { description: "`name` or `name@version`. Empty: every action of the service." }),
    transport: Type.String({ enum: ["grpc", "http", "rmq"] }),
    node_id: Type.String({ description: "The node that it is connected to." }),
    connected_at: Time,
    in_flight: Type.Integer({ description: "Steps that it holds." }),
    max_in_flight: Type.Integer({ description: "Steps that it may hold at once." }),
    draining: opt(Type.Boolean({ description: "It takes no more steps." })),
  }),
  UnservedAction: Type.Object({
    action: Text,
    transport: Type.String({ enum: ["grpc", "http", "rmq"] }),
    waiting: Type.Integer({ description: "Calls that wait for it." }),
    detail: opt(Text),
  }),
};

export type Resource = keyof typeof RESOURCES;
