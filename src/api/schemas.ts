// The resources as JSON Schemas, for the OpenAPI document. Documentation of what is sent, not a filter: responses go out as
// they were built. Schemas of bodies stand with their routes.
import { type TSchema, Type } from "typebox";
import { AUDIT_TYPES, RUN_STATES } from "../../machines/index.js";

const Uuid = Type.String({ format: "uuid" });
const Time = Type.String({ format: "date-time" });
const Text = Type.String();
const Int = Type.Integer();
const Bool = Type.Boolean();
const Free = Type.Object({}, { additionalProperties: true });
const opt = Type.Optional;

const named = (name: string, schema: TSchema) => ({ ...schema, $id: name });

export const RESOURCES = [
  named(
    "Error",
    Type.Object({
      error: Type.String({ description: "A stable code." }),
      message: Text,
      details: opt(Type.Array(Type.Object({ path: Type.String({ description: "A JSON path." }), message: Text }))),
      request_id: Text,
    }),
  ),
  named(
    "SagaRun",
    Type.Object({
      id: Uuid,
      workflow_id: Text,
      version: Int,
      definition_id: Uuid,
      tenant_id: opt(Uuid),
      state: Type.String({ enum: [...RUN_STATES] }),
      paused_reason: opt(Text),
      current_step: opt(Text),
      inputs: Free,
      variables: Free,
      output: opt(Type.Unknown()),
      business_key: opt(Text),
      started_at: Time,
      last_event_at: Time,
      terminal_at: opt(Time),
      requires_manual_review: Bool,
      trigger_id: opt(Uuid),
      parent_run_id: opt(Uuid),
      parent_step_id: opt(Text),
      parent_branch_id: opt(Text),
      root_run_id: opt(Uuid),
      dry_run: opt(Bool),
      wakeup_at: opt(Time),
      awaited_signal: opt(Text),
      awaited_event_topic: opt(Text),
      awaited_event_headers: opt(Type.Record(Text, Text)),
      awaited_action_dispatch: opt(Text),
      current_attempt: opt(Int),
      feature_overrides: opt(Type.Record(Text, Bool)),
      last_error: opt(Text),
      error: opt(Type.Object({ code: Text, message: Text, step_id: opt(Text) })),
    }),
  ),
  named(
    "SagaRunEvent",
    Type.Object({
      id: Uuid,
      run_id: Uuid,
      seq: Int,
      step_id: opt(Text),
      attempt: Int,
      event_type: Type.String({ enum: [...AUDIT_TYPES] }),
      from_state: Text,
      to_state: Text,
      actor: Text,
      metadata: opt(Free),
      recorded_at: Time,
    }),
  ),
  named(
    "SagaSignal",
    Type.Object({
      id: Uuid,
      run_id: Uuid,
      signal_name: Text,
      payload: opt(Free),
      received_at: Time,
      consumed_at: opt(Time),
    }),
  ),
  named(
    "UndoEntry",
    Type.Object({
      ordinal: Int,
      step_id: Text,
      action: opt(Text),
      child_run_id: opt(Uuid),
      state: Type.String({ enum: ["owed", "done", "failed", "passed"] }),
    }),
  ),
  named(
    "UserTask",
    Type.Object({
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
  ),
  named(
    "WorkflowDefinition",
    Type.Object(
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
  ),
  named(
    "RuleDefinition",
    Type.Object({
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
  ),
  named(
    "ActionRegistration",
    Type.Object({
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
  ),
];

export type Resource =
  | "Error"
  | "SagaRun"
  | "SagaRunEvent"
  | "SagaSignal"
  | "UndoEntry"
  | "UserTask"
  | "WorkflowDefinition"
  | "RuleDefinition"
  | "ActionRegistration";

export const ref = (name: Resource) => ({ $ref: `${name}#` });

export function pageSchema(name: Resource): object {
  return {
    type: "object",
    required: ["items", "total", "limit", "offset"],
    properties: {
      items: { type: "array", items: ref(name) },
      total: { type: "integer" },
      total_is_lower_bound: { type: "boolean", description: "Counting took too long: there are at least this many." },
      limit: { type: "integer" },
      offset: { type: "integer" },
      next_cursor: { type: "string", description: "Only where there is more." },
    },
  };
}

const MEANING: Readonly<Record<number, string>> = {
  400: "Malformed or not valid; `details` says where.",
  404: "There is no such thing.",
  409: "It conflicts with what is stored.",
  413: "The body is too large.",
  415: "The body is not application/json.",
  422: "Well formed, but refused by a schema.",
  500: "An internal error.",
  503: "Load is shed, the store does not answer, or the outcome is not known yet: send it again.",
};

/** The responses of a route: its own, and the errors it may answer with. 500 and 503 may always happen. */
export function responses(own: Readonly<Record<number, object>>, ...errors: readonly number[]) {
  const faults = [...errors, 500, 503].map((status) => [status, { description: MEANING[status], ...ref("Error") }]);
  return { ...Object.fromEntries(faults), ...own };
}
