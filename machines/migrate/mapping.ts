// The ids that a client maps: each must be one of the version that it is meant to be of.
import { Findings } from "../attribute/findings.js";
import { Place } from "../attribute/problem.js";
import type { Reason } from "../messages/command.js";
import type { JsonObject } from "../values/json.js";
import { named, type Passage } from "./passage.js";

export function mappingReasons({ from, to, asked }: Passage): readonly Reason[] {
  const found = new Findings("problems");
  for (const [old, step] of Object.entries(asked)) {
    const at = Place.of("$", { problems: found }).at("steps").at(old);
    if (!from.steps.has(old)) at.problem(absent(from.version, old, at.suggest(old, from.steps.keys())));
    if (!to.steps.has(step)) at.problem(absent(to.version, step, at.suggest(step, to.steps.keys())));
  }
  return found.all();
}

const absent = (version: number, step: string, suggestion: string) =>
  `${named({ version })} has no step "${step.slice(0, 128)}"${suggestion}`;

/**
 * Outputs that a step has stored under its own id are stored under its new one, where that is free. A variable with a name of its own keeps
 * it: other steps may have written it.
 */
export function variablesThere({ from, to, context, steps }: Passage): { stored: JsonObject; removed: string[] } {
  const { variables } = context;
  const moved = Object.entries(steps).filter(
    ([old, step]) =>
      old !== step &&
      Object.hasOwn(variables, old) &&
      from.steps.get(old)?.saveAs === old &&
      to.steps.get(step)?.saveAs === step,
  );
  const removed = new Set(moved.map(([old]) => old));
  const free = moved.filter(([, step]) => !Object.hasOwn(variables, step) || removed.has(step));
  const stored = Object.fromEntries(free.map(([old, step]) => [step, variables[old] ?? null]));
  return { stored, removed: free.flatMap(([old]) => (Object.hasOwn(stored, old) ? [] : [old])) };
}
