// The item of a foreach as an operator has corrected it at an incident. The identity of a run never changes, so the correction is kept among
// the variables of the item's run. The name and its value are a durable format.
import { isObject, type JsonObject } from "../values/json.js";
import type { RunIdentity } from "./identity.js";

/** No step has such an id, and no variable that a step sets has such a name. */
export const CORRECTED_ITEM = "/item";

/** Children inherit variables. They got the corrected item with their own names already, so the correction counts for its own run only. */
export function correctedItem({ id }: Pick<RunIdentity, "id">, variables: JsonObject): JsonObject | undefined {
  const corrected = Object.hasOwn(variables, CORRECTED_ITEM) ? variables[CORRECTED_ITEM] : undefined;
  return isObject(corrected) && corrected.of === id && isObject(corrected.names) ? corrected.names : undefined;
}

/** The variables as expressions and people see them. */
export function withoutCorrection(variables: JsonObject): JsonObject {
  if (!Object.hasOwn(variables, CORRECTED_ITEM)) return variables;
  const { [CORRECTED_ITEM]: _, ...visible } = variables;
  return visible;
}

export const keptCorrection = ({ id }: Pick<RunIdentity, "id">, names: JsonObject): JsonObject => ({
  [CORRECTED_ITEM]: { of: id, names },
});
