// A definition that is being written, as a graph: what it says so far, right or wrong. The chart of a stored version is the service's; this is a sketch of it.

import { attributesIn, type Mention, namesAt } from "../../../machines/attribute/mention.js";
import type { StepBook } from "../../../machines/index.js";
import { BEGIN, edgeId, type GraphChart, type GraphEdge, type GraphNode, HOLDS } from "../graph/chart.js";
import type { Look } from "../graph/look.js";
import { isObject } from "../parts/json-text.js";
import type { Document, Step } from "./difference.js";

/** A problem or a warning of `POST /workflows/validate`. */
export interface Remark {
  readonly path: string;
  readonly message: string;
}

/** `types`: the step types that there are. */
export function sketch(document: Document, types: StepBook): GraphChart {
  const steps = stepsIn(document);
  const ids = new Set(steps.map(({ id }) => id));
  const begins = [["start", document.start] as const, ...entriesOf(document.entrypoints)];
  const ways = [
    ...begins.map(([name, to]): NamedEdge => ({ from: BEGIN, to, name, kind: PLAIN.has(name) ? "way" : "choice" })),
    ...steps.flatMap((placed) => edgesFrom(placed, types)),
  ];
  const edges = new Map<string, GraphEdge>();
  for (const way of ways) {
    const { from, to } = way;
    if (typeof to === "string" && ids.has(to)) edges.set(edgeId(from, to), edgeOf({ ...way, to }, edges));
  }
  const nodes = steps.map((placed) => nodeOf(placed, types));
  return { key: `sketch ${String(document.id)}`, nodes: [begin, ...nodes], edges: [...edges.values()] };
}

const begin: GraphNode = { id: BEGIN, kind: "begin", name: "begin", type: "", about: "" };

interface Placed {
  readonly id: string;
  readonly step: Step;
}

/** A step without an id, or with that of another, is named by its place. */
function stepsIn({ steps }: Document): Placed[] {
  const seen = new Set<string>();
  return (Array.isArray(steps) ? steps : []).map((step: unknown, index) => {
    const object = isObject(step) ? step : {};
    const id = typeof object.id === "string" && !seen.has(object.id) ? object.id : `step ${index + 1}`;
    seen.add(id);
    return { id, step: object };
  });
}

function nodeOf({ id, step }: Placed, types: StepBook): GraphNode {
  const { type = "no type", title, compensation } = step;
  const { summary = "", block } = types.get(String(type)) ?? {};
  const undo = isObject(compensation) ? compensation.action : undefined;
  return {
    ...{ id, kind: "step", name: typeof title === "string" ? title : id, type: String(type), about: summary },
    ...(typeof undo === "string" && { compensation: undo }),
    ...(block && { holds: HOLDS[block.kind] }),
  };
}

interface NamedEdge {
  readonly from: string;
  readonly to: unknown;
  readonly name: string;
  readonly kind: GraphEdge["kind"];
}

const COMMON: readonly Mention[] = [
  { what: "step", path: ["next"] },
  { what: "handler", path: ["on_error"] },
];

/** Where a step leads, as its type says. A step of no type that there is may lead wherever one of them does. */
function edgesFrom({ id, step }: Placed, types: StepBook): NamedEdge[] {
  const attributes = attributesIn(step);
  const own = types.get(String(step.type))?.mentions ?? [...types.values()].flatMap(({ mentions }) => mentions);
  return [...COMMON, ...own]
    .filter(({ what }) => what === "step" || what === "handler")
    .flatMap(({ what, path }) =>
      namesAt(attributes, path).map(({ name: to, at }) => {
        const name = wordOf(attributes, at);
        return { from: id, to, name, kind: what === "handler" ? "error" : PLAIN.has(name) ? "way" : "choice" };
      }),
    );
}

/** The attribute's name, the name of a branch, or the condition of a case. */
function wordOf(attributes: Step, at: readonly (string | number)[]): string {
  const [attribute = "", key] = at;
  if (typeof key !== "number") return String(key ?? attribute);
  const item = (attributes[attribute] as readonly unknown[])[key];
  return isObject(item) && typeof item.when === "string" ? item.when : String(attribute);
}

const entriesOf = (value: unknown): [name: string, to: unknown][] => (isObject(value) ? Object.entries(value) : []);

const PLAIN = new Set(["next", "start"]);
const MAX_LABEL = 32;

function edgeOf(
  { from, to, name, kind }: NamedEdge & { to: string },
  known: ReadonlyMap<string, GraphEdge>,
): GraphEdge {
  const id = edgeId(from, to);
  const other = known.get(id);
  const label = PLAIN.has(name) ? "" : name.slice(0, MAX_LABEL);
  return {
    ...{ id, from, to, kind: other?.kind ?? kind, quiet: false },
    label: [other?.label, label].filter(Boolean).join(" · "),
    about: [other?.about, name].filter(Boolean).join("; "),
  };
}

/** The step that a path is about, by its id or its place: `$.steps[2].next`. */
export function stepAt(document: Document, path: string): string | undefined {
  const index = /^\$\.steps\[(\d+)\]/.exec(path)?.[1];
  return index === undefined ? undefined : stepsIn(document)[Number(index)]?.id;
}

/** How the steps look that problems and warnings are about. */
export function remarked(
  document: Document,
  errors: readonly Remark[],
  warnings: readonly Remark[],
): ReadonlyMap<string, Look> {
  const looks = new Map<string, Look>();
  for (const [id, remarks] of byStep(document, warnings)) looks.set(id, { tone: "idle", ...said(remarks, "warning") });
  for (const [id, remarks] of byStep(document, errors))
    looks.set(id, { tone: "failed", word: "has a problem", ...said(remarks, "problem") });
  return looks;
}

function byStep(document: Document, remarks: readonly Remark[]): ReadonlyMap<string, readonly Remark[]> {
  const found = new Map<string, Remark[]>();
  for (const remark of remarks) {
    const id = stepAt(document, remark.path);
    if (id !== undefined) found.set(id, [...(found.get(id) ?? []), remark]);
  }
  return found;
}

const said = (remarks: readonly Remark[], noun: string) => ({
  badge: `${remarks.length} ${noun}${remarks.length === 1 ? "" : "s"}`,
  lines: remarks.map(({ path, message }) => `${path.replace(/^\$\.steps\[\d+\]\.?/, "")} ${message}`.trim()),
});
