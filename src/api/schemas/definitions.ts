// Definitions and triggers as JSON Schemas, and what is known of how a workflow does. Runs are in the file beside.
import * as Type from "typebox";
import { Bool, Free, Int, opt, orNull, Text, Time, Uuid } from "./kinds.js";

const Warnings = Type.Array(Type.Object({ path: Text, message: Text }), {
  description: "Only in the answer of a post or a publish: what is most likely a mistake.",
});

const Retention = Type.Object(
  { days: orNull(Int), succeeded_days: orNull(Int), failed_days: orNull(Int), cancelled_days: orNull(Int) },
  { description: "For how many days ended runs are kept, by the state in which they ended." },
);

const Bucket = Type.Object({ at: Time, succeeded: Int, failed: Int, cancelled: Int });

const StepPerformance = Type.Object({
  step_id: Text,
  count: Type.Integer({ description: "How often it succeeded or failed for good." }),
  failed: Int,
  p50_ms: opt(Type.Integer({ description: "Of its successes, from its beginning, attempts and waits included." })),
  p90_ms: opt(Int),
  p99_ms: opt(Int),
});

export const DEFINITION_RESOURCES = {
  WorkflowDefinition: Type.Object(
    {
      id: Text,
      version: Int,
      tenant_id: orNull(Text),
      name: Text,
      description: orNull(Text),
      start: Text,
      entrypoints: orNull(Type.Record(Text, Text)),
      steps: Type.Array(Free),
      published: Bool,
      created_at: opt(Time),
      created_by: orNull(Text),
      input_schema: orNull(Free),
      timeout_ms: orNull(Int),
      on_failure: orNull(Type.String({ enum: ["rollback", "incident"] })),
      on_undo_failure: orNull(Type.String({ enum: ["continue", "incident"] })),
      migrations: orNull(Free),
      concurrency: orNull(Free),
      history: orNull(Type.String({ enum: ["full"] })),
      rate_limit: orNull(Free),
      retention: orNull(Retention),
      warnings: opt(Warnings),
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
      default_output: orNull(Free),
    }),
    published: Bool,
    created_at: opt(Time),
    created_by: opt(Text),
    warnings: opt(Warnings),
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
    paused: opt(
      Type.Object(
        { since: Time, by: opt(Text), reason: opt(Text) },
        { description: "Who disabled it, when and why. Absent: it is enabled, or was created disabled." },
      ),
    ),
    in_words: opt(Type.String({ description: "When a cron trigger fires, in English." })),
  }),
  TriggerFireRow: Type.Object({
    id: Uuid,
    trigger_id: Uuid,
    workflow_id: Text,
    scheduled_at: Time,
    fired_at: Time,
    resulting_run_id: opt(Uuid),
    error: opt(Type.String({ description: "Why the fire started no run: a skip, a missed tick, a failure." })),
    backfilled: opt(
      Type.Boolean({ description: "Present and true: the tick was fired later, with others of a range." }),
    ),
  }),
  Performance: Type.Object({
    workflow_id: Text,
    version: opt(Int),
    from: Time,
    to: Type.String({ format: "date-time", description: "The end of the minute that is not over yet." }),
    bucket_ms: Int,
    buckets: Type.Array(Bucket, { description: "One after the other, from `from` to `to`." }),
    count_is_lower_bound: opt(
      Type.Boolean({ description: "More runs ended than were read: some buckets have too few." }),
    ),
    run_ms: Type.Object(
      { count: Int, p50: opt(Int), p90: opt(Int), p99: opt(Int) },
      { description: "From the start to the end, of the runs that succeeded or failed." },
    ),
    steps: Type.Array(StepPerformance),
    runs_read: Type.Integer({ description: "The runs, branches and items that durations and steps were read of." }),
    is_sample: opt(Type.Boolean({ description: "They are the newest of more." })),
  }),
};
