// A definition that is being written, as a graph: what it says so far, right or wrong. The chart of a stored version is the service's; this is a sketch of it.

import { BEGIN, edgeId, type GraphChart, type GraphEdge, type GraphNode } from "../graph/chart.js";
import type { Look } from "../graph/look.js";
import { isObject } from "../parts/json-text.js";
import type { Document, Step } from "./difference.js";

/** A problem or a warning of `POST /workflows/validate`. */
export interface Remark {
  readonly path: string;
  readonly message: string;
}

export function sketch(document: Document): GraphChart {
  const steps = stepsIn(document);
  const ids = new Set(steps.map(({ id }) => id));
  const begins = [["start", document.start] as const, ...entriesOf(document.entrypoints)];
  const ways = [
    ...begins.map(([name, to]) => ({ from: BEGIN, to, name })),
    ...steps.flatMap(({ id, step }) => waysOf(step).map(([name, to]) => ({ from: id, to, name }))),
  ];
  const edges = new Map<string, GraphEdge>();
  for (const { from, to, name } of ways)
    if (typeof to === "string" && ids.has(to)) edges.set(edgeId(from, to), edgeOf(from, to, name, edges));
  const nodes: GraphNode[] = steps.map(nodeOf);
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

const HOLDS = { parallel: "branches", foreach: "items", while: "rounds", try_catch: "try" } as const;

function nodeOf({ id, step }: Placed): GraphNode {
  const { type = "no type", title, compensation } = step;
  const holds = HOLDS[String(type) as keyof typeof HOLDS];
  const undo = isObject(compensation) ? compensation.action : undefined;
  return {
    ...{ id, kind: "step", name: typeof title === "string" ? title : id, type: String(type), about: "" },
    ...(typeof undo === "string" && { compensation: undo }),
    ...(holds && { holds }),
  };
}

type Way = readonly [name: string, to: unknown];

const EDGES = ["next", "body", "try", "catch", "default", "on_error", "on_timeout"] as const;

/** The attributes of all step types that may name a step. They may stand in `inputs` too. */
function waysOf(step: Step): Way[] {
  const given = { ...(isObject(step.inputs) ? step.inputs : {}), ...step };
  const { branches, cases } = given;
  return [
    ...EDGES.map((name): Way => [name, given[name]]),
    ...entriesOf(branches).map(([name, branch]): Way => [name, isObject(branch) ? branch.next : undefined]),
    ...(Array.isArray(cases) ? cases : []).map((one): Way => [String(one?.when ?? "case"), one?.next]),
  ];
}

const entriesOf = (value: unknown): Way[] => (isObject(value) ? Object.entries(value) : []);

const PLAIN = new Set(["next", "start"]);
const ERRORS = new Set(["catch", "on_error", "on_timeout"]);
const MAX_LABEL = 32;

function edgeOf(from: string, to: string, name: string, known: ReadonlyMap<string, GraphEdge>): GraphEdge {
  const id = edgeId(from, to);
  const other = known.get(id);
  const label = PLAIN.has(name) ? "" : name.slice(0, MAX_LABEL);
  const kind = ERRORS.has(name) ? "error" : PLAIN.has(name) ? "way" : "choice";
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
  for (const [id, remarks] of byStep(document, errors)) looks.set(id, { tone: "failed", ...said(remarks, "problem") });
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
