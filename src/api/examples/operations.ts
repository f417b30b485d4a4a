// An example of each request body, and of each answer that is neither a resource nor a page of one: by operation, as the OpenAPI document names
// it. A test holds each against its schema.
import { ACTION, NEXT_TICK, RULE, TRIGGER, WORKFLOW } from "./documents.js";
import {
  BULK_ID,
  DEFINITION_ID,
  ENDED_AT,
  ENDED_RUN,
  FIRE_ID,
  LATER,
  RESOURCE_EXAMPLES,
  RUN_ID,
  SIGNAL_ID,
  STARTED_AT,
  TASK_ID,
} from "./resources.js";

type ByOperation = Readonly<Record<string, unknown>>;

const SAGA = "/api/v1/sagas/{id}";
const OF_RUN = "/api/v1/sagas/{run_id}";
const VERSION_1 = { version: 1 };

export const REQUESTS: ByOperation = {
  "POST /auth/session": { api_key: "saga_…" },
  "POST /auth/logout": {},
  "POST /api/v1/sagas/start": {
    ...{ workflow_id: "order", inputs: { sku: "lamp", amount: 40 }, business_key: "order-1081" },
    ...{ labels: { region: "eu" }, idempotency_key: "order-1081" },
  },
  "POST /api/v1/sagas/signal_with_start": {
    ...{ workflow_id: "order", business_key: "order-1081", inputs: { sku: "lamp", amount: 40 } },
    signal: { name: "delivered", payload: { at: "the door" }, idempotency_key: "parcel-77-delivered" },
  },
  [`POST ${SAGA}/cancel`]: { reason: "the customer asked for it" },
  [`POST ${OF_RUN}/signal/{name}`]: { payload: { at: "the door" }, idempotency_key: "parcel-77-delivered" },
  [`POST ${SAGA}/query`]: { expression: "has(vars.lines) ? vars.lines.size() : 0" },
  [`POST ${SAGA}/pause`]: { reason: "to look at it" },
  [`POST ${SAGA}/resume`]: { reason: "looked at" },
  [`POST ${SAGA}/retry_step`]: { variables: { address: { street: "Main Street", number: 7 } } },
  [`POST ${SAGA}/skip_step`]: { output: { receipt: "by hand" } },
  [`POST ${SAGA}/fail`]: { reason: "the lamp is no longer made" },
  [`POST ${SAGA}/compensations/retry`]: {},
  [`POST ${SAGA}/compensations/skip`]: { ordinal: 1 },
  [`POST ${SAGA}/terminate`]: { reason: "stuck, and refunded by hand" },
  [`POST ${SAGA}/release`]: {},
  [`POST ${SAGA}/rerun`]: { labels: { again: "yes" } },
  [`POST ${SAGA}/fork`]: { step: "delivery", version: 2 },
  [`POST ${SAGA}/migrate`]: { version: 2, steps: { delivery: "handover" }, check: true },
  "POST /api/v1/workflows/{wf_id}/migrations/check": { version: 2, from_version: 1, limit: 1_000 },
  "POST /api/v1/bulk": { filter: { workflow_id: "order", incident: true }, action: "retry_step", limit: 1_000 },
  "POST /api/v1/bulk/{id}/stop": {},
  "POST /api/v1/bulk/{id}/resume": {},
  [`POST ${OF_RUN}/actions/{step_id}/result`]: { attempt: 1, result: { receipt: "r-1081" } },
  [`POST ${OF_RUN}/actions/{step_id}/heartbeat`]: { attempt: 1 },
  [`POST ${OF_RUN}/user_task/{task_id}/submit`]: { result: { approved: true }, submitted_by: "ann" },
  "POST /api/v1/events": {
    ...{ topic: "parcel.delivered", headers: { carrier: "post" }, payload: { parcel: 77 } },
    idempotency_key: "parcel-77",
  },
  "POST /api/v1/triggers": TRIGGER,
  "POST /api/v1/api_keys": {
    name: "shop",
    roles: ["operator"],
    tenant_id: "0190a000-0000-7000-8000-0000000000f1",
    workflows: ["order.*"],
    expires_at: "2027-11-24T00:00:00Z",
  },
  "PATCH /api/v1/triggers/{id}": { enabled: false, reason: "the warehouse counts its stock" },
  "POST /api/v1/triggers/{id}/fire": {},
  "POST /api/v1/triggers/{id}/backfill": { from: "2026-11-16T00:00:00Z", to: "2026-11-17T23:59:59Z" },
  "POST /api/v1/workflows": { ...WORKFLOW, published: true },
  "POST /api/v1/workflows/validate": WORKFLOW,
  "POST /api/v1/workflows/{wf_id}/versions/{version}/publish": {},
  "POST /api/v1/workflows/{wf_id}/versions/{version}/unpublish": {},
  "POST /api/v1/workflows/{wf_id}/test": {
    inputs: { sku: "lamp", amount: 40 },
    mocks: { charge: [{ error: { code: "busy" } }, { output: { receipt: "r-1081" } }], delivery: [{ output: {} }] },
  },
  "POST /api/v1/rules": { ...RULE, published: true },
  "POST /api/v1/rules/{rule_id}/versions/{version}/publish": {},
  "POST /api/v1/rules/{rule_id}/versions/{version}/unpublish": {},
  "POST /api/v1/rules/{rule_id}/evaluate": { inputs: { weight: 2, country: "AT" } },
  "POST /api/v1/registry/register": { service: "shop", service_version: "4.2.0", actions: [ACTION] },
};

const STARTED = {
  ...{ run_id: RUN_ID, workflow_id: "order", ...VERSION_1, definition_id: DEFINITION_ID },
  ...{ state: "pending", deduplicated: false },
};
const SIGNALLED = { ...STARTED, signal_id: SIGNAL_ID, matched: false };
const acted = (state: string) => ({ run_id: RUN_ID, state, changed: true });
const HEALTHY = { status: "ok" };

/** The chart of a workflow with one step: that of the order fills a screen. */
const CHART = {
  ...{ id: "approval", version: "1", description: "An approval", initial: "pending" },
  states: {
    pending: { on: { "begin.default": { target: "active.approve" } } },
    active: {
      initial: "approve",
      states: {
        approve: {
          tags: ["manual_approval"],
          on: { "run.succeeded": { target: "#approval.succeeded", description: "the last step is done" } },
        },
      },
    },
    succeeded: { type: "final", description: "The run has succeeded." },
  },
};

/** Example answers by operation and status. */
export const ANSWERS: ByOperation = {
  ...Object.fromEntries(["healthz", "livez", "health", "health/live"].map((path) => [`GET /${path} 200`, HEALTHY])),
  ...Object.fromEntries(["readyz", "health/ready"].map((path) => [`GET /${path} 200`, { status: "ready" }])),
  "POST /api/v1/sagas/start 200": { ...STARTED, state: "succeeded", run: ENDED_RUN },
  "POST /api/v1/sagas/start 202": STARTED,
  "POST /api/v1/sagas/signal_with_start 200": { ...SIGNALLED, state: "succeeded", matched: true, run: ENDED_RUN },
  "POST /api/v1/sagas/signal_with_start 202": SIGNALLED,
  [`POST ${SAGA}/cancel 202`]: { run_id: RUN_ID, state: "compensating", already_terminal: false },
  [`POST ${OF_RUN}/signal/{name} 200`]: { signal_id: SIGNAL_ID, matched: true, run: ENDED_RUN },
  [`POST ${OF_RUN}/signal/{name} 202`]: { signal_id: SIGNAL_ID, matched: true },
  [`POST ${SAGA}/query 200`]: { run_id: RUN_ID, state: "paused", last_seq: 12, value: 2 },
  [`POST ${SAGA}/pause 202`]: acted("paused"),
  [`POST ${SAGA}/resume 202`]: acted("running"),
  [`POST ${SAGA}/retry_step 202`]: acted("running"),
  [`POST ${SAGA}/skip_step 202`]: acted("running"),
  [`POST ${SAGA}/fail 202`]: acted("compensating"),
  [`POST ${SAGA}/compensations/retry 202`]: acted("compensating"),
  [`POST ${SAGA}/compensations/skip 202`]: acted("compensating"),
  [`POST ${SAGA}/terminate 202`]: acted("cancelled"),
  [`POST ${SAGA}/release 202`]: acted("running"),
  [`POST ${SAGA}/rerun 202`]: acted("pending"),
  [`POST ${SAGA}/fork 202`]: acted("pending"),
  [`POST ${SAGA}/migrate 200`]: { allowed: true, reasons: [] },
  [`POST ${SAGA}/migrate 202`]: acted("paused"),
  [`GET ${SAGA}/explain 200`]: {
    ...{ run_id: RUN_ID, state: "paused", because: "waits for the signal delivered (since 2026-11-24 09:30:00 UTC)" },
    waiting_for: [{ kind: "signal", step_id: "delivery", name: "delivered", since: LATER }],
    ...{ since: LATER, can: ["pause", "migrate", "fork", "cancel", "terminate"] },
  },
  "POST /api/v1/workflows/{wf_id}/migrations/check 200": {
    ...{ matched: 3, movable: 2, refused: 1 },
    reasons: [{ path: "$.steps", message: 'version 2 has no step "delivery"', count: 1, run_ids: [RUN_ID] }],
  },
  "POST /api/v1/bulk 202": { bulk_id: BULK_ID, matched: 120 },
  "POST /api/v1/bulk/{id}/stop 202": { bulk_id: BULK_ID, state: "stopped", changed: true },
  "POST /api/v1/bulk/{id}/resume 202": { bulk_id: BULK_ID, state: "running", changed: true },
  [`POST ${OF_RUN}/actions/{step_id}/result 202`]: { accepted: true, stale: false },
  [`POST ${OF_RUN}/actions/{step_id}/heartbeat 202`]: { accepted: true, stale: false },
  [`POST ${OF_RUN}/user_task/{task_id}/submit 200`]: {
    ...{ task_id: TASK_ID, submitted_at: ENDED_AT, matched: true, run: ENDED_RUN },
  },
  [`POST ${OF_RUN}/user_task/{task_id}/submit 202`]: { task_id: TASK_ID, submitted_at: ENDED_AT, matched: true },
  "POST /api/v1/events 202": { event_id: SIGNAL_ID },
  "POST /api/v1/triggers/{id}/fire 202": { fire_id: FIRE_ID, run_id: RUN_ID },
  "POST /api/v1/triggers/{id}/backfill 202": {
    ...{ ticks: 2, fired: 1 },
    items: [{ fire_id: FIRE_ID, scheduled_at: "2026-11-17T02:30:00.000Z" }],
  },
  "GET /api/v1/triggers/{id}/next 200": { items: [NEXT_TICK] },
  "POST /api/v1/workflows/validate 200": {
    ...{ valid: true, errors: [] },
    warnings: [{ path: "$.steps[0].action", message: "the action shop.reserve is not registered" }],
  },
  "GET /api/v1/workflows/{wf_id}/machine 200": CHART,
  "GET /api/v1/workflows/{wf_id}/stats 200": {
    ...{ success_rate_24h: 0.984, last_run_at: STARTED_AT, in_flight: 3 },
  },
  "POST /api/v1/workflows/{wf_id}/test 200": {
    ...{
      state: "succeeded",
      output: "r-1081",
      variables: { charge: { receipt: "r-1081" } },
      requires_manual_review: false,
    },
    events: [
      {
        ...{ seq: 1, run_id: RUN_ID, workflow_id: "order", attempt: 0, event_type: "saga.started" },
        ...{ from_state: "pending", to_state: "running", actor: "coordinator", recorded_at: STARTED_AT },
      },
    ],
  },
  "POST /api/v1/rules/{rule_id}/evaluate 200": {
    output: { carrier: "letter", price: 2.5 },
    audit: {
      ...{ rule_id: "shipping", version: 1, matched_row: 1, used_default: false },
      ...{
        rows: [
          { index: 0, matched: false },
          { index: 1, matched: true },
        ],
        duration_ms: 0.2,
      },
    },
  },
  "POST /api/v1/registry/register 200": {
    ...{ registered: 1, actions: [RESOURCE_EXAMPLES.ActionRegistration] },
    changed: [RESOURCE_EXAMPLES.ChangedRegistration],
  },
};
