// What a step is called on every view of a run or a workflow: its title, with the values of the run where it is a template; or its id, where
// there is no title, or a value of it is not known. Pure: expressions beyond a path are for the service.
import type { StepDocument } from "./blocks.js";
import type { GraphChart } from "./chart.js";

/** What the templates of titles may name. */
export interface Scope {
  readonly inputs?: unknown;
  readonly variables?: unknown;
}

const PART = /\$\{([^}]*)\}/g;
const PATH = /^(inputs|vars)((?:\.[A-Za-z_]\w*|\[\d+\]|\["[^"\\]*"\])*)$/;

/** Undefined: a part of it is no path to a plain value. */
export function evaluated(template: string, { inputs, variables }: Scope): string | undefined {
  let isKnown = true;
  const text = template.replace(PART, (_, expression: string) => {
    const [, root, path = ""] = PATH.exec(expression.trim()) ?? [];
    const value = root === undefined ? undefined : valueAt(root === "inputs" ? inputs : variables, path);
    isKnown &&= ["string", "number", "boolean"].includes(typeof value);
    return String(value);
  });
  return isKnown ? text : undefined;
}

function valueAt(value: unknown, path: string): unknown {
  const keys = [...path.matchAll(/\.(\w+)|\[(\d+)\]|\["([^"]*)"\]/g)].map(
    ([, name, index, quoted]) => name ?? index ?? quoted,
  );
  return keys.reduce<unknown>(
    (at, key) =>
      typeof at === "object" && at !== null && Object.hasOwn(at, key ?? "")
        ? (at as Record<string, unknown>)[key ?? ""]
        : undefined,
    value,
  );
}

/** The chart with the names that a person reads. */
export function named(chart: GraphChart, scope: Scope): GraphChart {
  const nodes = chart.nodes.map((node) => ({ ...node, name: evaluated(node.name, scope)?.trim() || node.id }));
  return { ...chart, nodes };
}

export type StepNames = ReadonlyMap<string, string>;

export const namesOf = ({ nodes }: GraphChart): StepNames => new Map(nodes.map(({ id, name }) => [id, name]));

/** What the steps of a stored document are called, without its graph. Without a scope, a title that needs the values of a run is not used. */
export const stepNames = (steps: readonly unknown[], scope: Scope = {}): StepNames =>
  new Map((steps as readonly StepDocument[]).map((step) => [String(step.id), nameOf(step, scope)]));

/** What one of them is called. */
export function stepName(steps: readonly unknown[], id: string, scope: Scope): string {
  const step = (steps as readonly StepDocument[]).find((one) => one.id === id);
  return step ? nameOf(step, scope) : id;
}

const nameOf = ({ id, title }: StepDocument, scope: Scope): string =>
  (typeof title === "string" && evaluated(title, scope)?.trim()) || String(id);
