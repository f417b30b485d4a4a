// What the steps of a version are called where no run is: by their titles, or by their ids where a title needs the values of a run.
import { evaluated, type StepNames } from "../graph/names.js";

/** The steps of a stored document, which the service has checked. */
export function stepNames(steps: readonly object[]): StepNames {
  const read = steps as readonly { readonly id?: unknown; readonly title?: unknown }[];
  return new Map(read.map(({ id, title }) => [String(id), nameOf(title) || String(id)]));
}

const nameOf = (title: unknown): string | undefined =>
  typeof title === "string" ? evaluated(title, {})?.trim() : undefined;
