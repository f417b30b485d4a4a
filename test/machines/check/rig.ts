// Definitions with one mistake each, in few words, and the registrations that they meet. check.test.ts has the mistakes.
import { checkWorkflow, type JsonObject, knownOf, type Listed, type ListedAction } from "../../../machines/index.js";

export type Step = Record<string, unknown> & { readonly id: string };

const object = (properties: JsonObject, more: JsonObject = {}): JsonObject => ({ type: "object", properties, ...more });
const text = { type: "string" };
const integer = { type: "integer" };

export const ACTIONS: readonly ListedAction[] = [
  {
    ...{ service: "shop", action: "reserve", compensable: true },
    input_schema: object(
      { sku: text, quantity: { type: "integer", minimum: 1 } },
      { required: ["sku", "quantity"], additionalProperties: false },
    ),
    output_schema: object(
      { reservation: text, lines: { type: "array", items: text } },
      { required: ["reservation"], additionalProperties: false },
    ),
  },
  {
    ...{ service: "shop", action: "release" },
    input_schema: object({ reservation: text }, { required: ["reservation"], additionalProperties: false }),
  },
  { service: "shop", action: "undoable", compensable: true, input_schema: {}, output_schema: {} },
  {
    service: "shop",
    action: "notify",
    default_timeout_ms: 5_000,
    input_schema: object({ to: { type: ["string", "null"] }, count: integer, mode: { enum: ["mail", "text"] } }),
  },
  { service: "shop", action: "old", deprecated: true, version: 2 },
];

export const RULES = [
  {
    ...{ rule_id: "route", name: "Route", rule_type: "decision_table" },
    spec: {
      hit_policy: "first",
      rows: [
        { when: "inputs.total > 100", then: { branch: "high" } },
        { when: "inputs.total > 10", then: { branch: "low" } },
      ],
    },
  },
];

export const WORKFLOWS = [
  {
    ...{ id: "child", name: "Child", start: "take" },
    input_schema: object({ sku: text }, { required: ["sku"] }),
    steps: [{ id: "take", type: "action", action: "shop.undoable" }],
  },
  {
    ...{ id: "clean", name: "Clean", start: "take" },
    steps: [
      { id: "take", type: "action", action: "shop.undoable", compensation: { action: "shop.notify", inputs: {} } },
    ],
  },
];

export const LISTED: Listed = {
  actions: ACTIONS,
  rules: RULES,
  workflows: WORKFLOWS,
  signals: { confirmed: object({ by: text }, { required: ["by"], additionalProperties: false }) },
};

export const INPUTS = object(
  {
    sku: text,
    quantity: integer,
    note: { type: ["string", "null"] },
    address: object({ city: text }, { additionalProperties: false }),
  },
  { required: ["sku"], additionalProperties: false },
);

/** The first step is the start. */
export function document(steps: readonly Step[], head: object = {}): object {
  return { id: "order", name: "An order", start: steps[0]?.id, input_schema: INPUTS, steps, ...head };
}

const known = knownOf(LISTED);

export function findings(steps: readonly Step[], head: object = {}): string[] {
  return checkWorkflow(document(steps, head), known).map(({ code, path }) => `${code} ${path}`);
}
