// What a step gets from outside, where it has a JSON Schema for that: a signal's or an event's payload, a form, the response to a request. The schema
// refuses what does not fit, and marks what is secret.
import type { Template } from "../expression/index.js";
import type { Facts } from "../messages/fact.js";
import { hasSecrets, withSecrets } from "../schema/secrets.js";
import type { Json, JsonObject } from "../values/json.js";
import { constantText } from "./named.js";
import type { WorkflowPlan } from "./plan.js";
import type { Failure, StepPlan } from "./step.js";

interface WithSchema {
  readonly form_schema?: JsonObject;
  readonly payload_schema?: JsonObject;
  readonly output_schema?: JsonObject;
  readonly signal_name?: Template;
}

const schemasOf = ({ attributes }: Pick<StepPlan, "attributes">) => attributes as WithSchema;

/** The JSON Schema of what the step gets from outside. */
export function payloadSchemaOf(plan: Pick<StepPlan, "attributes">): JsonObject | undefined {
  const { form_schema, payload_schema, output_schema } = schemasOf(plan);
  return form_schema ?? payload_schema ?? output_schema;
}

/** The payload with its secrets marked, or why the step fails on it. */
export function received(
  plan: Pick<StepPlan, "attributes">,
  payload: Json,
  { conforms }: Pick<Facts, "conforms">,
): { readonly payload: Json } | { readonly error: Failure } {
  const { payload_schema: schema } = schemasOf(plan);
  if (!schema) return { payload };
  const problems = conforms(schema, payload);
  if (problems.length === 0) return { payload: withSecrets(schema, payload) };
  return { error: { code: "schema_mismatch", message: `the payload: ${problems.slice(0, 5).join("; ")}` } };
}

interface SignalSchema {
  /** Undefined: it is computed. */
  readonly name: string | undefined;
  readonly schema: JsonObject;
}

const known = new WeakMap<WorkflowPlan, readonly SignalSchema[]>();

/** A signal's payload as it is recorded: what any step that may take it would mark is marked. */
export function recordedPayload(workflow: WorkflowPlan, signal: string, payload: Json): Json {
  const schemas = known.get(workflow) ?? secretSchemas(workflow);
  known.set(workflow, schemas);
  return schemas
    .filter(({ name }) => name === undefined || name === signal)
    .reduce((marked, { schema }) => withSecrets(schema, marked), payload);
}

function secretSchemas({ steps }: WorkflowPlan): readonly SignalSchema[] {
  return [...steps.values()].flatMap((plan) => {
    const { signal_name: name, payload_schema: schema } = schemasOf(plan);
    return name && schema && hasSecrets(schema) ? [{ name: constantText(name), schema }] : [];
  });
}
