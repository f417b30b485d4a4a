// Runs and their parts as JSON Schemas. Definitions, and what serves them, are in the files beside.

import * as Type from "typebox";
import { AUDIT_TYPES, RUN_STATES } from "../../../machines/index.js";
import { Bool, Free, Int, opt, Text, Time, Uuid } from "./kinds.js";

const Refusal = Type.Object({ run_id: Uuid, message: Text });

export const RUN_RESOURCES = {
  BulkJob: Type.Object({
    bulk_id: Uuid,
    action: Text,
    filter: Free,
    state: Type.String({ enum: ["running", "done", "stopped"] }),
    tenant_id: opt(Uuid),
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
    priority: opt(Type.Integer({ minimum: 1, maximum: 5, description: "Absent: 3." })),
    fairness_key: opt(Text),
    fairness_weight: opt(Type.Number({ description: "Of the fairness key. Absent: 1." })),
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
    forked_from: opt(
      Type.Object(
        { saga_id: Uuid, step: Text, entry: Int },
        { description: "The run that this one goes on from, and where: the nth entry of that step." },
      ),
    ),
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
  ChildCount: Type.Object({
    parent_step_id: Text,
    parent_branch_id: opt(Type.String({ description: "The branch of a parallel. Absent for items and sub-sagas." })),
    state: Type.String({ enum: [...RUN_STATES] }),
    paused_reason: opt(Text),
    current_step: opt(Type.String({ description: "Where the children stand, or ended." })),
    count: Int,
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
    child_run_id: opt({ ...Uuid, description: "The child that handed the entry over, or that has it and ended." }),
    state: Type.String({
      enum: ["owed", "done", "failed", "passed", "abandoned", "not_needed"],
      description:
        "`owed` only while the run may still roll back. `passed`: there was nothing to call. `abandoned`: the run ended without undoing it. `not_needed`: the run succeeded.",
    }),
  }),
  UserTask: Type.Object({
    id: Uuid,
    run_id: Uuid,
    tenant_id: opt(Type.String({ format: "uuid", description: "That of its run." })),
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
};
