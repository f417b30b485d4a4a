// The references of Conductor (`${task.output.member}`) as templates. What a reference does not find is null there, so every step on the way is tested.

import { isObject, type Json } from "../../values/json.js";
import type { FieldPath } from "../../values/json-path.js";
import { celOf, presence, segmentsOf } from "../asl/path.js";
import { escaped, literal, template } from "../cel.js";
import { NoEquivalent, type Report } from "../report.js";

/** What a reference may name. */
export interface Names {
  /** The variable of a task's output, by its reference name. Undefined: there is no such task. */
  output(reference: string): string | undefined;
  /** That of its input. */
  input(reference: string): string | undefined;
}

const REFERENCE = /\$\{([^${}]+)\}/g;

const OF_WORKFLOW: Readonly<Record<string, string>> = {
  workflowId: "run.id",
  workflowType: "run.workflow_id",
  version: "run.version",
  correlationId: "run.business_key",
};

/** The CEL of what is between `${` and `}`. Throws NoEquivalent. */
export function referenceCel(text: string, names: Names): string {
  const [, first = "", rest = ""] = /^([^.[]+)(.*)$/s.exec(text.trim()) ?? [];
  const what = `the reference \${${text}}`;
  const [head, ...tail] = segmentsOf(rest, text);
  const part = head?.kind === "member" ? String(head.name) : "";
  if (first === "workflow") {
    if (part === "input") return guarded("inputs", tail);
    if (part === "variables") return guarded("vars.variables", tail);
    const cel = Object.hasOwn(OF_WORKFLOW, part) && tail.length === 0 ? OF_WORKFLOW[part] : undefined;
    if (cel === undefined) throw new NoEquivalent(what, "expressions do not see it");
    return cel;
  }
  const variable = part === "output" ? names.output(first) : part === "input" ? names.input(first) : undefined;
  if (variable === undefined)
    throw new NoEquivalent(
      what,
      part === "output" || part === "input"
        ? "no task of this name has one here"
        : "only the input and the output of a task are kept",
    );
  return guarded("vars", [{ kind: "member", name: variable }, ...tail]);
}

function guarded(root: string, segments: ReturnType<typeof segmentsOf>): string {
  if (segments.length === 0) return root;
  const test = presence(root, segments).replace(/^type\((?:vars|inputs)\) == map && /, "");
  return `(${test} ? ${celOf(root, segments)} : null)`;
}

/** A value with references as one with templates. What cannot be translated is reported and becomes null. */
export function templatesOf(value: Json, names: Names, path: FieldPath, report: Report): Json {
  if (Array.isArray(value)) return value.map((each, index) => templatesOf(each, names, [...path, index], report));
  if (isObject(value))
    return Object.fromEntries(
      Object.entries(value).map(([name, each]) => [name, templatesOf(each, names, [...path, name], report)]),
    );
  return typeof value === "string" ? textTemplateOf(value, names, path, report) : value;
}

function textTemplateOf(text: string, names: Names, path: FieldPath, report: Report): Json {
  try {
    const whole = /^\$\{([^${}]+)\}$/.exec(text.trim());
    if (whole) return template(referenceCel(whole[1] ?? "", names));
    let written = "";
    let at = 0;
    for (const found of text.matchAll(REFERENCE)) {
      const cel = referenceCel(found[1] ?? "", names);
      // Null is nothing in a text.
      written += escaped(text.slice(at, found.index)) + template(`cel.bind(v, ${cel}, v == null ? "" : v)`);
      at = found.index + found[0].length;
    }
    const rest = text.slice(at);
    if (/\$\{/.test(rest))
      throw new NoEquivalent(`the text ${text.slice(0, 60)}`, "it has a reference inside of a reference");
    return written + escaped(rest);
  } catch (error) {
    if (!(error instanceof NoEquivalent)) throw error;
    report.refuse(path, error.what, error.why, "null");
    return null;
  }
}

/** The same as CEL. Throws NoEquivalent. */
export function celOfValue(value: Json, names: Names): string {
  if (typeof value === "string") {
    const whole = /^\$\{([^${}]+)\}$/.exec(value.trim());
    if (whole) return referenceCel(whole[1] ?? "", names);
    if (/\$\{/.test(value))
      throw new NoEquivalent("a text with references in a script", "only whole references are translated there");
    return literal(value);
  }
  if (Array.isArray(value)) return `[${value.map((each) => celOfValue(each, names)).join(", ")}]`;
  if (!isObject(value)) return literal(value);
  return `{${Object.entries(value)
    .map(([name, each]) => `${JSON.stringify(name)}: ${celOfValue(each, names)}`)
    .join(", ")}}`;
}
