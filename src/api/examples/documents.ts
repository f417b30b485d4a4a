// The documents of the examples, as a client sends them: a workflow, a rule, a trigger, an action. What the service makes of them is in
// resources.ts.
const charge = {
  ...{ id: "charge", type: "action", action: "shop.charge", inputs: { amount: "${inputs.amount}" } },
  ...{ compensation: { action: "shop.refund", inputs: { receipt: "${output.receipt}" } }, next: "delivery" },
};

export const WORKFLOW = {
  ...{ id: "order", name: "An order", start: "reserve" },
  input_schema: {
    ...{ type: "object", required: ["sku", "amount"] },
    properties: { sku: { type: "string" }, amount: { type: "number" } },
  },
  steps: [
    { id: "reserve", type: "action", action: "shop.reserve", inputs: { sku: "${inputs.sku}" }, next: "charge" },
    charge,
    { id: "delivery", type: "wait_for_signal", signal_name: "delivered", next: "done" },
    { id: "done", type: "end", output: "${vars.charge.receipt}" },
  ],
};

export const RULE = {
  ...{ rule_id: "shipping", name: "How to ship", rule_type: "decision_table" as const },
  spec: {
    hit_policy: "first" as const,
    rows: [
      { when: "inputs.weight > 30", then: { carrier: "freight" } },
      { when: "inputs.country in ['DE', 'AT']", then: { carrier: "letter", price: 2.5 } },
    ],
    default_output: { carrier: "parcel" },
  },
};

export const NEXT_TICK = "2026-11-25T02:30:00.000Z";
export const TRIGGER = {
  ...{ trigger_type: "cron" as const, workflow_id: "order" },
  config: { schedule: "30 2 * * 1-5", inputs: { sku: "lamp", amount: 40 } },
};

export const ACTION = {
  ...{ action_name: "charge", version: 1, compensable: true, dry_run_supported: false, transport: "grpc" as const },
  input_schema: { type: "object", required: ["amount"], properties: { amount: { type: "number" } } },
  output_schema: { type: "object", required: ["receipt"], properties: { receipt: { type: "string" } } },
  default_timeout_ms: 10_000,
};
