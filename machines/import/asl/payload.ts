// Payload templates of the Amazon States Language (Parameters, ResultSelector, ItemSelector) as templates: a member whose name ends in `.$` is
// computed, all others mean themselves. What cannot be computed is reported and becomes null.

import { isObject, type Json } from "../../values/json.js";
import type { FieldPath } from "../../values/json-path.js";
import { escapedJson, template, textTemplate } from "../cel.js";
import { NoEquivalent, type Report } from "../report.js";
import { celOfWritten, intrinsicOf, isIntrinsic } from "./intrinsic.js";
import { celOf, type PathScope, pathToCel, type Segment } from "./path.js";

/** A path or an intrinsic function as a template. Throws NoEquivalent. */
export function computed(text: string, scope: PathScope): string {
  if (!isIntrinsic(text)) return template(pathToCel(text, scope));
  const written = intrinsicOf(text, scope);
  return written.kind === "text" ? textTemplate(written.parts) : template(written.cel);
}

/** The same as an expression. Throws NoEquivalent. */
export const computedCel = (text: string, scope: PathScope): string =>
  isIntrinsic(text) ? celOfWritten(intrinsicOf(text, scope)) : pathToCel(text, scope);

export function payloadOf(value: Json, scope: PathScope, path: FieldPath, report: Report): Json {
  if (Array.isArray(value)) return value.map((each, index) => payloadOf(each, scope, [...path, index], report));
  if (!isObject(value)) return escapedJson(value);
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => {
      const at = [...path, name];
      if (!name.endsWith(".$")) return [name, payloadOf(each, scope, at, report)];
      return [name.slice(0, -2), orReported(at, report, () => computed(String(each), scope))];
    }),
  );
}

/** Whether some member is computed by an intrinsic function, and whether one is by a path. */
export function usesOf(value: Json): { readonly functions: boolean; readonly paths: boolean } {
  const text = JSON.stringify(value);
  return { functions: /\.\$":"States\./.test(text), paths: /\.\$":"(?!States\.)|[(,]\s*\$/.test(text) };
}

/** Null, if there is no equivalent. */
export function orReported<T>(path: FieldPath, report: Report, make: () => T): T | null {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof NoEquivalent)) throw error;
    report.refuse(path, error.what, error.why, "null");
    return null;
  }
}

/** What is known of the state whose paths are read. */
export interface Surroundings {
  readonly root: string;
  readonly state: string;
  readonly path: FieldPath;
  readonly report: Report;
  /** Inside of a Map. */
  readonly item: boolean;
}

export const scopeOfState = (around: Surroundings): PathScope => ({
  root: around.root,
  context: (segments, text) => contextCel(segments, text, around),
});

function contextCel(segments: readonly Segment[], text: string, { state, path, report, item }: Surroundings): string {
  const names = segments.map((segment) => (segment.kind === "member" ? String(segment.name) : "*"));
  const [first, second, third] = names;
  if (first === "Execution" && second === "Input") return celOf("inputs", segments.slice(2));
  if (first === "Map" && second === "Item" && item && (third === "Value" || third === "Index"))
    return third === "Value" ? celOf("item", segments.slice(3)) : "index";
  const name = names.join(".");
  if (name === "Execution.Id" || name === "StateMachine.Id")
    report.note(path, text, "a run and a workflow have ids, and no ARNs", "the id");
  const cel = Object.hasOwn(CONTEXT, name) ? CONTEXT[name] : undefined;
  if (cel !== undefined) return cel;
  if (name === "State.Name") return JSON.stringify(state);
  throw new NoEquivalent(`the context object's ${text}`, CONTEXT_WHY[name] ?? "expressions do not see it");
}

const CONTEXT: Readonly<Record<string, string>> = {
  "Execution.Id": "run.id",
  "Execution.Name": "run.id",
  "Execution.StartTime": "run.started_at",
  "StateMachine.Id": "run.workflow_id",
  "StateMachine.Name": "run.workflow_id",
  "State.EnteredTime": "now",
};

const CONTEXT_WHY: Readonly<Record<string, string>> = {
  "Task.Token": "a run is answered by a signal to its id, not by a token",
  "Execution.RoleArn": "a run has no role of IAM",
};
