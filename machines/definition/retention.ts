// `retention`: for how long the service keeps runs of a workflow after they have ended, by the state in which they ended. It deletes nothing itself:
// the service reads it from the version that is in force when it looks for what is past its time.
import { shape } from "../attribute/composite.js";
import { type Kind, optional, type Parsed, plainNumber } from "../attribute/kinds.js";
import { isObject, type Json } from "../values/json.js";

/** A hundred years: the bounds of the service's own setting. */
const DAYS = { min: 1, max: 36_500, whole: true };

const ATTRIBUTES = {
  days: optional(plainNumber(DAYS), "Days that a run is kept after its end: 1 to 36500."),
  succeeded_days: optional(plainNumber(DAYS), "Of a run that has succeeded, in place of `days`."),
  failed_days: optional(plainNumber(DAYS), "Of a run that has failed, in place of `days`."),
  cancelled_days: optional(plainNumber(DAYS), "Of a run that was cancelled, in place of `days`."),
};

export type RetentionOfRuns = Parsed<typeof ATTRIBUTES>;

export const retention: Kind<RetentionOfRuns> = shape("retention", ATTRIBUTES);

/** The days that a stored document gives to a run that ended in the state. Undefined: it gives none, and the service's setting holds. */
export function retentionDays(stored: Json | undefined, endedAs: string): number | undefined {
  if (!isObject(stored)) return undefined;
  const said = (name: string) => {
    const days = stored[name];
    return typeof days === "number" ? days : undefined;
  };
  return said(`${endedAs}_days`) ?? said("days");
}

/** The longest that a stored document gives to any state, and the shortest. Undefined: it gives none. */
export function retentionBounds(
  stored: Json | undefined,
): { readonly least: number; readonly most: number } | undefined {
  if (!isObject(stored)) return undefined;
  const days = Object.keys(ATTRIBUTES).flatMap((name) => {
    const given = stored[name];
    return typeof given === "number" ? [given] : [];
  });
  return days.length === 0 ? undefined : { least: Math.min(...days), most: Math.max(...days) };
}
