// The attribute `migrations` of a workflow: which step of this version a step of an earlier one has become. Steps that keep their id need
// no entry.
import { record } from "../attribute/composite.js";
import { id, type Kind } from "../attribute/kinds.js";
import type { Place } from "../attribute/problem.js";
import { isObject, type Json } from "../values/json.js";
import { MAX_BRANCHES, MAX_STEPS, MAX_VERSION } from "../values/limits.js";

const earlierVersion: Kind<string> = {
  name: "version",
  parse: (raw, place) =>
    typeof raw === "string" && /^[1-9]\d{0,9}$/.test(raw) && Number(raw) <= MAX_VERSION
      ? raw
      : place.problem("must be a version: an integer from 1"),
};

export const migrations = record(record(id, id, { max: MAX_STEPS }), earlierVersion, { max: MAX_BRANCHES });

/** The steps of this version that the document itself names. */
export function checkMigrations(given: Json | undefined, ids: ReadonlySet<string>, place: Place): void {
  for (const [version, steps] of Object.entries(isObject(given) ? given : {})) {
    for (const [old, step] of Object.entries(isObject(steps) ? steps : {})) {
      if (typeof step !== "string" || ids.has(step)) continue;
      const at = place.at(version).at(old);
      at.problem(`there is no step "${step.slice(0, 128)}"${at.suggest(step, ids)}`);
    }
  }
}
