// The variables of a run, and the limits of what a step may store.

import type { StepError } from "../../state/entry.js";
import type { Failure, StepPlan } from "../../steps/step.js";
import { givenCode } from "../../values/error-code.js";
import { beginningOf, type Json, type JsonObject, measure } from "../../values/json.js";
import { firstCharacters } from "../../values/text.js";
import type { Draft } from "../draft.js";

/** Stores the error of a failed step as its output. An error over the limits of an output is replaced by the error that says so. */
export function storeError(draft: Draft, plan: StepPlan, variable: string | null, error: StepError): StepError {
  const output: JsonObject = { error: { ...error } };
  const fault =
    outputFault(draft, output) ?? (variable === null ? undefined : storeVariables(draft, { [variable]: output }));
  if (!fault) return error;
  const bounded = { ...fault, step_id: plan.id };
  if (variable !== null) storeVariables(draft, { [variable]: { error: bounded } });
  return bounded;
}

/** Why `output` cannot be a step's output, if it cannot. */
export function outputFault(draft: Draft, output: Json | undefined): Failure | undefined {
  const size = measure(output ?? null);
  if (typeof size !== "number") return { code: "expression_error", message: `the output${size.path} ${size.message}` };
  const { output: limit } = draft.facts.limits;
  if (size <= limit) return undefined;
  return { code: "limit_exceeded", message: `the output is over ${limit} characters of JSON` };
}

/** Stores variables, or returns why they cannot be stored. */
export function storeVariables(draft: Draft, variables: JsonObject | undefined): Failure | undefined {
  if (!variables) return undefined;
  let growth = 0;
  for (const [name, value] of Object.entries(variables)) {
    const size = measure(value);
    if (typeof size !== "number")
      return { code: "expression_error", message: `the variable ${name}${size.path} ${size.message}` };
    growth += size - previousSize(draft, name);
  }
  const { variables: limit } = draft.facts.limits;
  if (draft.context.variablesSize + growth > limit)
    return { code: "limit_exceeded", message: `the run's variables are over ${limit} characters of JSON` };
  draft.storeVariables(variables, growth);
  return undefined;
}

function previousSize(draft: Draft, name: string): number {
  const { variables } = draft.context;
  if (!Object.hasOwn(variables, name)) return -name.length - 4;
  const size = measure(variables[name]);
  return typeof size === "number" ? size : 0;
}

/** Stores the error that a catch receives, cut to the limits of a variable, and returns it as stored. */
export function storeCaughtError(draft: Draft, name: string, error: StepError): StepError {
  const { code, message, step_id } = error;
  const fits = measure(error as unknown as Json);
  if (
    typeof fits === "number" &&
    fits <= draft.facts.limits.metadata &&
    !storeVariables(draft, { [name]: { ...error } as JsonObject })
  )
    return error;
  const short: StepError = {
    code: givenCode(firstCharacters(code, 256)),
    message: beginningOf(message, 4096),
    step_id,
  };
  return storeVariables(draft, { [name]: { ...short } as JsonObject })
    ? { code, message: "the error is too large", step_id }
    : short;
}
