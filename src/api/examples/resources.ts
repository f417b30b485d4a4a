// An example of each resource, for the OpenAPI document: one order of a shop, as it waits for its delivery, and what belongs to it. No client
// gets any of it as an answer.
import type { Static } from "typebox";
import type { RESOURCES, Resource } from "../schemas.js";
import { ACTION, NEXT_TICK, RULE, TRIGGER, WORKFLOW } from "./documents.js";

export const RUN_ID = "0198f2a4-6c1e-7b52-9a37-2f1d5c8e4b10";
export const DEFINITION_ID = "0198f2a0-11d3-7c0a-8e44-90b7a6d5c3f2";
export const TASK_ID = "0198f2a5-07aa-7f3e-b0c9-6d2e18f4a577";
export const SIGNAL_ID = "0198f2a5-8b3c-7d19-a6e2-41c05f9d7e38";
export const TRIGGER_ID = "0198f2a1-5e90-7a6b-93d8-c7f4021be65a";
export const FIRE_ID = "0198f2a6-2f47-7e81-8c15-b39a60d4f2c7";
export const BULK_ID = "0198f2a7-9d05-7b2c-a4f1-5e8370c6d9ab";
const NODE_ID = "0198f29e-3a7c-7d44-b5e9-18f06c2a7d93";
const ACTION_ID = "0198f29f-c2b8-7e0d-9f61-a4d7358e0b1c";
const RULE_VERSION_ID = "0198f2a0-74e6-7c95-8b3a-d20f9e51c648";

export const STARTED_AT = "2026-11-24T09:30:00.000Z";
export const LATER = "2026-11-24T09:30:00.412Z";
export const ENDED_AT = "2026-11-24T09:31:07.250Z";
const DAY_BEFORE = "2026-11-23T09:32:00.000Z";

const RUN = {
  ...{ id: RUN_ID, workflow_id: "order", version: 1, definition_id: DEFINITION_ID },
  ...{ state: "paused", paused_reason: "signal", current_step: "delivery", awaited_signal: "delivered" },
  inputs: { sku: "lamp", amount: 40 },
  variables: { reserve: { shelf: "B7" }, charge: { receipt: "r-1081" } },
  ...{ business_key: "order-1081", labels: { region: "eu" } },
  ...{ started_at: STARTED_AT, last_event_at: LATER, requires_manual_review: false, dry_run: false },
} as const;

export const ENDED_RUN = {
  ...{ id: RUN_ID, workflow_id: "order", version: 1, definition_id: DEFINITION_ID },
  ...{ state: "succeeded", current_step: "done", inputs: RUN.inputs, variables: RUN.variables, output: "r-1081" },
  ...{ started_at: STARTED_AT, last_event_at: ENDED_AT, terminal_at: ENDED_AT },
  ...{ requires_manual_review: false, dry_run: false },
} as const;

type Examples = { readonly [Name in Resource]: Static<(typeof RESOURCES)[Name]> };

const ofRuns = {
  SagaRun: { ...RUN, labels: { region: "eu" } },
  RunCount: { workflow_id: "order", version: 1, state: "paused", paused_reason: "signal", count: 3 },
  ChildCount: { parent_step_id: "each", state: "running", current_step: "pack", count: 9_998 },
  SagaRunEvent: {
    ...{ id: "0198f2a4-6db1-5c3e-8f27-e1049ba6d852", run_id: RUN_ID, seq: 4, step_id: "charge", attempt: 1 },
    ...{ event_type: "step.succeeded", from_state: "running", to_state: "running", actor: "worker:shop-1" },
    ...{ metadata: { output: { receipt: "r-1081" }, duration_ms: 118 }, recorded_at: LATER },
  },
  SagaSignal: {
    ...{ id: SIGNAL_ID, run_id: RUN_ID, signal_name: "delivered", payload: { at: "the door" } },
    ...{ received_at: ENDED_AT, consumed_at: ENDED_AT },
  },
  UndoEntry: { ordinal: 1, step_id: "charge", action: "shop.refund@1", state: "owed" },
  UserTask: {
    ...{ id: TASK_ID, run_id: RUN_ID, step_id: "approve", assignee: "ann", title: "Approve the discount" },
    ...{ status: "open", opened_at: LATER, due_at: "2026-11-25T09:30:00.412Z" },
    form_schema: { type: "object", required: ["approved"], properties: { approved: { type: "boolean" } } },
  },
  BulkJob: {
    ...{ bulk_id: BULK_ID, action: "retry_step", filter: { workflow_id: "order", incident: true }, state: "done" },
    ...{ matched: 120, done: 119, refused: 1 },
    refusals: [{ run_id: RUN_ID, message: "no step of the run stands at an incident or in a backoff" }],
    ...{ started_at: STARTED_AT, ended_at: ENDED_AT },
  },
} satisfies Partial<Examples>;

const ofDefinitions = {
  WorkflowDefinition: { ...WORKFLOW, version: 1, published: true, created_at: DAY_BEFORE, created_by: "ann" },
  RuleDefinition: { ...RULE, id: RULE_VERSION_ID, version: 1, published: true, created_at: DAY_BEFORE },
  SagaTrigger: {
    ...{ id: TRIGGER_ID, ...TRIGGER, enabled: true },
    ...{ created_at: DAY_BEFORE, next_fire_at: NEXT_TICK, last_fired_at: "2026-11-24T02:30:00.018Z" },
    in_words: "At 02:30 on Monday to Friday, UTC",
  },
  TriggerFireRow: {
    ...{ id: FIRE_ID, trigger_id: TRIGGER_ID, workflow_id: "order", resulting_run_id: RUN_ID },
    ...{ scheduled_at: "2026-11-24T02:30:00.000Z", fired_at: "2026-11-24T02:30:00.018Z" },
  },
  Performance: {
    ...{ workflow_id: "order", from: DAY_BEFORE, to: "2026-11-24T09:32:00.000Z", bucket_ms: 1_440_000 },
    buckets: [{ at: DAY_BEFORE, succeeded: 84, failed: 2, cancelled: 1 }],
    run_ms: { count: 499, p50: 67_250, p90: 81_400, p99: 240_030 },
    steps: [
      { step_id: "charge", count: 507, failed: 8, p50_ms: 118, p90_ms: 240, p99_ms: 1_904 },
      { step_id: "reserve", count: 515, failed: 0, p50_ms: 41, p90_ms: 77, p99_ms: 203 },
    ],
    ...{ runs_read: 500, is_sample: true },
  },
} satisfies Partial<Examples>;

const API_KEY = {
  ...{ id: "7Kd2mPq9XtB4vLwZ", name: "shop", roles: ["operator"], workflows: ["order.*"] },
  tenant_id: "0198f29d-51b6-7e3a-8c07-d2f94a1e6b85",
  ...{ created_at: DAY_BEFORE, created_by: "user:ann", expires_at: "2027-11-24T00:00:00.000Z" },
};

const ofService = {
  Error: {
    ...{ error: "bad_request", message: "the body is not valid: $.workflow_id is required" },
    details: [{ path: "$.workflow_id", message: "is required" }],
    request_id: "3f0c1d5e-7a42-4b9c-8d16-e05f2c7b9a38",
  },
  ApiKey: { ...API_KEY, last_used_at: LATER },
  DataKeys: {
    ...{ tenant_id: API_KEY.tenant_id, active: 0, destroyed: 1, destroyed_at: DAY_BEFORE },
    unfinished_runs: 3,
  },
  NewApiKey: { ...API_KEY, key: `saga_${API_KEY.id}_ThisIsAnExampleAndNoSecretAtAll000000000000` },
  Principal: {
    ...{
      kind: "session",
      sub: "ann@shop.example",
      roles: ["operator"],
      tenant_id: "0190a000-0000-7000-8000-0000000000f1",
    },
    expires_at: "2026-11-24T21:32:00.000Z",
  },
  ActionRegistration: { ...ACTION, id: ACTION_ID, service: "shop", deprecated: false, registered_at: DAY_BEFORE },
  ChangedRegistration: { service: "shop", action_name: "charge", version: 1, members: ["default_timeout_ms"] },
  Worker: {
    ...{ worker_id: "shop-1", service: "shop", actions: ["charge", "refund", "reserve"], transport: "grpc" },
    ...{ node_id: NODE_ID, connected_at: DAY_BEFORE, in_flight: 3, max_in_flight: 100 },
  },
  UnservedAction: { action: "shop.wrap@1", transport: "grpc", waiting: 12 },
  Cluster: {
    access: "off",
    nodes: [
      {
        ...{
          node_id: NODE_ID,
          host: "saga-1",
          process_id: 41,
          started_at: DAY_BEFORE,
          heartbeat_at: ENDED_AT,
          alive: true,
        },
        ...{ access: "off", shards: 256, record_format: 4, version: "0.6.0" },
      },
    ],
    shards: { count: 256, unowned: 0 },
    backlog: { wakes_due: 3, oldest_due_ms: 120, inbox: 0, outbox: 1, waiting_for_workers: 12 },
  },
} satisfies Partial<Examples>;

export const RESOURCE_EXAMPLES: Examples = { ...ofRuns, ...ofDefinitions, ...ofService };
