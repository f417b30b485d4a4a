// The attributes of the step types as tables: which there are, in the order in which they are written, and how a value becomes JSON. A test compares
// them with the step types of the service, so that a new attribute cannot be forgotten here.

/**
 * `value`: JSON with expressions inside. `cel`, `cels`: an expression, or a list of them. `plain`: JSON as it is. `schema`: a JSON Schema.
 * `parts`: an object of values. `target`: steps, which the chain writes.
 */
export type AttributeKind = "value" | "cel" | "cels" | "plain" | "schema" | "parts" | "target";

type Table = Readonly<Record<string, AttributeKind>>;

const sagaCall = { workflow_id: "value", version: "value", entrypoint: "value", inputs: "value" } as const;
const due = { due_in_ms: "value", due_at: "value", on_timeout: "target" } as const;

export const ATTRIBUTES = {
  action: {
    ...{ action: "value", inputs: "value", timeout_ms: "value", queue_timeout_ms: "value" },
    ...{ heartbeat_timeout_ms: "value", concurrency: "parts", rate_limit: "parts" },
  },
  http_request: {
    ...{ url: "value", method: "plain", headers: "value", query: "value", body: "value", timeout_ms: "value" },
    ...{ expected_status: "plain", output_schema: "schema", follow_redirects: "plain", secret_ref: "value" },
  },
  webhook_emit: { url: "value", event_type: "value", payload: "value", headers: "value", secret_ref: "value" },
  decision: { expression: "cel", rule_id: "value", rule_inputs: "value", output_key: "value", branches: "target" },
  switch: { cases: "target", default: "target", expression: "cel", branches: "target" },
  noop: {},
  set_var: { variables: "value", name: "plain", value: "value" },
  transform: { expression: "cel", template: "value" },
  merge: { sources: "cels", strategy: "plain" },
  filter: { items: "cel", condition: "cel" },
  map: { items: "cel", expression: "cel", template: "value" },
  log: { message: "value", level: "plain", fields: "value" },
  metric_emit: { name: "value", value: "value", kind: "plain", tags: "value" },
  assert: { condition: "cel", message: "value", code: "value" },
  wait_duration: { duration_ms: "value", duration: "value" },
  wait_until: { until: "value" },
  wait_for_signal: { signal_name: "value", payload_schema: "schema", timeout_ms: "value", on_timeout: "target" },
  wait_for_event: {
    ...{ topic: "value", headers: "value", match: "cel", payload_schema: "schema", lookback: "plain" },
    ...{ timeout_ms: "value", on_timeout: "target" },
  },
  emit_event: { topic: "value", payload: "value", headers: "value" },
  emit_signal: { run_id: "value", signal_name: "value", payload: "value" },
  manual_approval: { assignee: "value", title: "value", form_schema: "schema", branches: "target", ...due },
  collect_input: { assignee: "value", title: "value", form_schema: "schema", ...due },
  parallel: { branches: "target", max_concurrency: "value" },
  join: { mode: "plain", count: "value", on: "plain", cancel_remaining: "plain" },
  foreach: {
    ...{ items: "cel", body: "target", item_var: "plain", index_var: "plain", max_concurrency: "value" },
    ...{ tolerated_failures: "value", max_items: "value" },
  },
  while: { condition: "cel", body: "target", max_iterations: "value", delay_ms: "value", keep_last: "value" },
  try_catch: {
    ...{ try: "target", catch: "target", errors: "plain", error_var: "plain", rollback: "plain", timeout_ms: "value" },
  },
  sub_saga: { ...sagaCall, timeout_ms: "value" },
  spawn_saga: { ...sagaCall, idempotency_key: "value" },
  cancel: { run_id: "value", reason: "value", compensate: "plain" },
  error: { code: "value", message: "value", details: "value" },
  end: { output: "value" },
} as const satisfies Readonly<Record<string, Table>>;

export type StepTypeName = keyof typeof ATTRIBUTES;

/** The attributes of every step. Those of its type are written between `when` and `retry`. */
export const COMMON = {
  before: { title: "plain", description: "plain", when: "cel" },
  after: {
    ...{ retry: "parts", compensation: "parts", on_error: "target", on_failure: "plain", on_undo_failure: "plain" },
    save_as: "plain",
  },
} as const satisfies Readonly<Record<string, Table>>;

/** The step types that take a `retry`. */
export const RETRYING: ReadonlySet<StepTypeName> = new Set(["action", "http_request", "sub_saga"]);

/** The step types that store nothing, so that nothing can be saved under a name. */
export const WITHOUT_OUTPUT: ReadonlySet<StepTypeName> = new Set([
  ...([
    "webhook_emit",
    "decision",
    "switch",
    "noop",
    "set_var",
    "log",
    "metric_emit",
    "assert",
    "wait_duration",
  ] as const),
  ...(["wait_until", "emit_event", "parallel", "try_catch", "cancel", "error", "end"] as const),
]);

/** The attributes of a document, in the order in which they are written. */
export const DOCUMENT = {
  ...{ $schema: "plain", id: "plain", version: "plain", tenant_id: "plain", name: "plain", description: "plain" },
  ...{ published: "plain", created_at: "plain", created_by: "plain", input_schema: "schema", timeout_ms: "plain" },
  ...{ on_failure: "plain", on_undo_failure: "plain", concurrency: "parts", rate_limit: "parts" },
  ...{ migrations: "plain", history: "plain", retention: "parts" },
  ...{ start: "target", entrypoints: "target", steps: "target" },
} as const satisfies Table;

/** The option that an attribute is: `timeout_ms` is `timeoutMs`. */
export const optionName = (attribute: string): string =>
  attribute.replace(/^\$/, "").replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
/** And back. */
export const attributeName = (option: string): string =>
  option.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
