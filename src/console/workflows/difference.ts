// What two versions of a workflow differ in: steps added, removed and changed, each change with its path. It is pure, and compares what was posted.
import { jsonPath } from "../../../machines/values/json-path.js";
import { isObject } from "../parts/json-text.js";

export interface Change {
  /** A JSON path within the step, or within the document. */
  readonly path: string;
  /** Absent: there was nothing. */
  readonly before?: unknown;
  /** Absent: there is nothing any more. */
  readonly after?: unknown;
}

export interface ChangedStep {
  readonly id: string;
  readonly changes: readonly Change[];
}

export interface Difference {
  /** Changes of the document beside its steps. */
  readonly members: readonly Change[];
  readonly added: readonly Step[];
  readonly removed: readonly Step[];
  readonly changed: readonly ChangedStep[];
}

export type Step = Readonly<Record<string, unknown>>;

/** A definition as it was posted, with what the service says about its storage. */
export type Document = Readonly<Record<string, unknown>>;

/** They differ in every version, or say nothing of what a run does. */
const STORAGE = new Set(["version", "published", "created_at", "created_by", "steps"]);

export function difference(before: Document, after: Document): Difference {
  const [from, to] = [stepsOf(before), stepsOf(after)];
  return {
    members: changes(own(before), own(after), "$"),
    added: [...to].filter(([id]) => !from.has(id)).map(([, step]) => step),
    removed: [...from].filter(([id]) => !to.has(id)).map(([, step]) => step),
    changed: [...to].flatMap(([id, step]) => changedStep(id, from.get(id), step)),
  };
}

export const isSame = ({ members, added, removed, changed }: Difference): boolean =>
  [members, added, removed, changed].every(({ length }) => length === 0);

function changedStep(id: string, before: Step | undefined, after: Step): ChangedStep[] {
  const found = before === undefined ? [] : changes(before, after, "$");
  return found.length === 0 ? [] : [{ id, changes: found }];
}

const own = (document: Document): Document =>
  Object.fromEntries(Object.entries(document).filter(([name]) => !STORAGE.has(name)));

export function stepsOf({ steps }: Document): ReadonlyMap<string, Step> {
  const listed = Array.isArray(steps) ? steps.filter(isObject) : [];
  return new Map(listed.map((step) => [String(step.id), step]));
}

/** The deepest members that differ. Lists of another length are one change: their places say nothing. */
function changes(before: unknown, after: unknown, path: string): Change[] {
  if (isObject(before) && isObject(after)) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...names].flatMap((name) => member(before, after, name, path));
  }
  if (Array.isArray(before) && Array.isArray(after) && before.length === after.length)
    return before.flatMap((item, index) => changes(item, after[index], jsonPath(path, index)));
  return isEqual(before, after) ? [] : [{ path, before, after }];
}

function member(before: Step, after: Step, name: string, path: string): Change[] {
  const at = jsonPath(path, name);
  if (!Object.hasOwn(before, name)) return [{ path: at, after: after[name] }];
  if (!Object.hasOwn(after, name)) return [{ path: at, before: before[name] }];
  return changes(before[name], after[name], at);
}

/** Compares JSON values; the order of an object's members does not count. */
function isEqual(left: unknown, right: unknown): boolean {
  if (Array.isArray(left) || Array.isArray(right))
    return (
      Array.isArray(left) &&
      Array.isArray(right) &&
      left.length === right.length &&
      left.every((item, index) => isEqual(item, right[index]))
    );
  if (!isObject(left) || !isObject(right)) return left === right;
  const names = Object.keys(left);
  return names.length === Object.keys(right).length && names.every((name) => isEqual(left[name], right[name]));
}
