// A moment of a run as looks of its graph: tones and words of nodes, the edges that were taken, the way of the undo. Children are shown
// folded, by their counts.
import type { GraphChart, GraphNode } from "../graph/chart.js";
import { BEGIN, edgeId, FAILED, SUCCEEDED } from "../graph/chart.js";
import type { EdgeLook, Look } from "../graph/look.js";
import { counted } from "../parts/plural.js";
import { belowWords } from "../parts/state-words.js";
import type { Place } from "./below.js";
import { type ChildCount, countWords, hasEnded, isAtIncident, standingsOf, total } from "./counts.js";
import type { Moment, Rollback, StepStory } from "./moment.js";
import { type Standing, standingIn, standingOf } from "./standing.js";
import { durationWords } from "./words.js";

export interface Looks {
  readonly looks: ReadonlyMap<string, Look>;
  readonly edgeLooks: ReadonlyMap<string, EdgeLook>;
  readonly undoWay: readonly string[];
}

/** What is known of the children at a moment. */
export interface Below {
  readonly counts: readonly ChildCount[];
  /** Where incidents of the family are seen in this graph. */
  readonly incidents: readonly Place[];
}

const NOTHING: Below = { counts: [], incidents: [] };

export function looksOf(chart: GraphChart, moment: Moment, { counts, incidents }: Below = NOTHING): Looks {
  const order = undoOrder(moment.rollbacks);
  const told = new Map<string, Told>();
  for (const [id, step] of moment.steps) told.set(id, stepLook(step, order.get(id) ?? [], moment));
  addChildren(told, chart, counts);
  addIncidents(told, counts, incidents);
  const looks = new Map([...told].map(([id, one]) => [id, lookOf(one)]));
  if (moment.state === "succeeded") looks.set(SUCCEEDED, { tone: "done" });
  if (moment.state === "failed") looks.set(FAILED, { tone: "hit" });
  return { looks, edgeLooks: edgeLooks(chart, moment), undoWay: undoWay(moment.rollbacks.at(-1)) };
}

/** A look that is being told: what its step waits for belongs to its word, and goes with it. */
interface Told extends Standing {
  readonly lines?: readonly string[];
  readonly badge?: string;
}

function lookOf({ more, lines = [], ...look }: Told): Look {
  const all = more === undefined ? lines : [more, ...lines];
  return { ...look, ...(all.length > 0 && { lines: all }) };
}

function stepLook(step: StepStory, order: readonly number[], moment: Moment): Told {
  const badge = order.length > 0 ? `↶ ${order.join(", ")}` : step.visits > 1 ? `${step.visits}×` : undefined;
  return { ...standingOf(step, moment), lines: linesOf(step), ...(badge !== undefined && { badge }) };
}

function linesOf({ standing, attempts, error, enteredAt, endedAt }: StepStory): string[] {
  const lines = [
    attempts > 1 && counted(attempts, "attempt"),
    error !== undefined && standing !== "done" && error.code,
    endedAt !== undefined && endedAt > enteredAt && durationWords(endedAt - enteredAt),
  ];
  return lines.filter((line) => line !== false);
}

/** On the container: all its children by state, in place of what it waits for. On the steps inside: how many stand there now. */
function addChildren(looks: Map<string, Told>, chart: GraphChart, counts: readonly ChildCount[]): void {
  const nodes = new Map(chart.nodes.map((node) => [node.id, node]));
  for (const [container, own] of groupedBy(counts, ({ parent_step_id }) => parent_step_id)) {
    const { more: _, ...look }: Told = looks.get(container) ?? standingIn("running");
    const line = `${nounOf(nodes.get(container))}: ${countWords(own)}`;
    looks.set(container, { ...look, lines: [line, ...(look.lines ?? [])] });
    for (const { to } of chart.edges.filter(({ from, kind }) => from === container && kind === "children"))
      markStart(looks, to, own);
  }
  // A sub-saga stands at a step of another graph.
  const isInside = ({ current_step: step = "", parent_step_id: container }: ChildCount) =>
    nodes.get(step)?.childOf === container;
  const open = counts.filter((one) => isInside(one) && !hasEnded(one));
  for (const [step, here] of groupedBy(open, ({ current_step = "" }) => current_step)) looks.set(step, lookHere(here));
}

const nounOf = (node: GraphNode | undefined): string =>
  node?.holds === "branches" || node?.holds === "items" ? node.holds : "child runs";

/** Of several ways to stand, the most urgent one says how the box looks. */
function lookHere(here: readonly ChildCount[]): Told {
  const [{ more, ...first } = standingIn("running"), ...others] = standingsOf(here);
  const badge = total(here).toLocaleString();
  if (others.length > 0) return { ...first, badge, lines: [countWords(here)] };
  return { ...first, badge, ...(more !== undefined && { more }) };
}

/**
 * In red: the step that an incident stands at, and each step that leads to it. The counts have all incidents of the children, but none of
 * theirs; the places have those, as far as they are read.
 */
function addIncidents(looks: Map<string, Told>, counts: readonly ChildCount[], places: readonly Place[]): void {
  const direct = groupedBy(counts.filter(isAtIncident), ({ parent_step_id }) => parent_step_id);
  const through = groupedBy(
    places.flatMap((place) => place.through),
    (step) => step,
  );
  for (const step of new Set([...direct.keys(), ...through.keys()])) {
    const count = Math.max(total(direct.get(step) ?? []), through.get(step)?.length ?? 0);
    const { more: _, ...look }: Partial<Told> = looks.get(step) ?? {};
    looks.set(step, { ...look, tone: "failed", word: belowWords(count) });
  }
  for (const [step, here] of groupedBy(places, ({ at = "" }) => at)) {
    if (step === "" || looks.get(step)?.tone === "failed") continue;
    looks.set(step, { ...standingIn("paused", "incident"), badge: here.length.toLocaleString() });
  }
}

/** The first step of a block has been entered by every child that has ended. */
function markStart(looks: Map<string, Told>, start: string, counts: readonly ChildCount[]): void {
  const ended = counts.filter((one) => hasEnded(one));
  if (ended.length > 0 && !looks.has(start))
    looks.set(start, standingIn(ended.some(({ state }) => state !== "succeeded") ? "failed" : "succeeded"));
}

function groupedBy<T>(items: readonly T[], key: (item: T) => string): ReadonlyMap<string, readonly T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) groups.set(key(item), [...(groups.get(key(item)) ?? []), item]);
  return groups;
}

/** A child begins at the edge from its container, and ends along that to the step which waits. */
function edgeLooks({ edges }: GraphChart, { taken, steps }: Moment): ReadonlyMap<string, EdgeLook> {
  const isTaken = ({ id, from, to, kind }: GraphChart["edges"][number]) => {
    if (taken.has(id)) return true;
    if (kind === "return") return taken.has(edgeId(from, SUCCEEDED));
    if (kind !== "children") return false;
    return taken.has(edgeId(BEGIN, to)) || steps.get(from)?.hasChildren === true || hasLeft(from, taken, edges);
  };
  return new Map(edges.filter(isTaken).map(({ id }) => [id, "taken"]));
}

/** A parallel goes on to its join, along an edge that is not drawn, when its branches have begun. */
function hasLeft(fork: string, taken: Moment["taken"], edges: GraphChart["edges"]): boolean {
  const drawn = new Set(edges.filter(({ from }) => from === fork).map(({ id }) => id));
  return [...taken.keys()].some((id) => id.startsWith(`${fork} > `) && !drawn.has(id) && !id.endsWith(")"));
}

function undoOrder(rollbacks: readonly Rollback[]): ReadonlyMap<string, readonly number[]> {
  const order = new Map<string, number[]>();
  for (const { undos } of rollbacks)
    for (const [nth, { step }] of undos.entries()) order.set(step, [...(order.get(step) ?? []), nth + 1].slice(-3));
  return order;
}

/** The steps from where the last rollback began, through what it has undone. */
const undoWay = (rollback: Rollback | undefined): readonly string[] =>
  rollback ? [...(rollback.from === undefined ? [] : [rollback.from]), ...rollback.undos.map(({ step }) => step)] : [];
