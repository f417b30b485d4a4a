// A moment of a run as looks of its graph: tones and words of nodes, the edges that were taken, the way of the undo. Children are shown
// folded, by their counts.
import type { GraphChart } from "../graph/chart.js";
import { BEGIN, edgeId, FAILED, SUCCEEDED } from "../graph/chart.js";
import type { EdgeLook, Look, Tone } from "../graph/look.js";
import { counted } from "../parts/plural.js";
import { awaitedWord } from "../parts/state-words.js";
import { type ChildCount, countWords, hasEnded, total } from "./counts.js";
import type { Moment, Rollback, StepStory } from "./moment.js";
import { durationWords, STANDING_WORDS, UNDO_WORDS } from "./words.js";

export interface Looks {
  readonly looks: ReadonlyMap<string, Look>;
  readonly edgeLooks: ReadonlyMap<string, EdgeLook>;
  readonly undoWay: readonly string[];
}

/** `counts`: of the children, where they are known for this moment. */
export function looksOf(chart: GraphChart, moment: Moment, counts: readonly ChildCount[] = []): Looks {
  const order = undoOrder(moment.rollbacks);
  const looks = new Map<string, Look>();
  for (const [id, step] of moment.steps) looks.set(id, stepLook(step, order.get(id) ?? [], moment));
  addChildren(looks, chart, counts);
  if (moment.state === "succeeded") looks.set(SUCCEEDED, { tone: "done" });
  if (moment.state === "failed") looks.set(FAILED, { tone: "hit" });
  return { looks, edgeLooks: edgeLooks(chart, moment), undoWay: undoWay(moment.rollbacks.at(-1)) };
}

const TONES: Readonly<Record<StepStory["standing"], Tone>> = {
  running: "live",
  waiting: "waiting",
  retrying: "waiting",
  incident: "failed",
  done: "done",
  failed: "failed",
  skipped: "skipped",
};
const UNDO_TONES = { undoing: "undoing", undone: "undone", failed: "failed", passed: "skipped" } as const;

function stepLook(step: StepStory, order: readonly number[], moment: Moment): Look {
  const badge = order.length > 0 ? `↶ ${order.join(", ")}` : step.visits > 1 ? `${step.visits}×` : undefined;
  return { tone: toneOf(step, moment), lines: linesOf(step), ...(badge !== undefined && { badge }) };
}

const ENDED: ReadonlySet<string> = new Set(["succeeded", "failed", "cancelled"]);

function toneOf({ undo, standing, awaiting }: StepStory, { state }: Moment): Tone {
  if (undo !== undefined) return UNDO_TONES[undo];
  const tone = awaiting === "children" && standing === "waiting" ? "live" : TONES[standing];
  // Nothing goes on in a run that has ended: the step was cut off.
  return ENDED.has(state) && (tone === "live" || tone === "waiting") ? "skipped" : tone;
}

function linesOf({ undo, standing, attempts, awaiting, error, enteredAt, endedAt }: StepStory): string[] {
  const lines = [
    (undo === "failed" || undo === "passed") && UNDO_WORDS[undo],
    standing === "incident" && STANDING_WORDS.incident,
    standing === "retrying" && STANDING_WORDS.retrying,
    standing === "waiting" && awaiting !== undefined && awaiting !== "children" && awaitedWord(awaiting),
    attempts > 1 && counted(attempts, "attempt"),
    error !== undefined && standing !== "done" && error.code,
    endedAt !== undefined && endedAt > enteredAt && durationWords(endedAt - enteredAt),
  ];
  return lines.filter((line) => line !== false);
}

/** On the container: all its children by state. On the steps inside: how many stand there now. */
function addChildren(looks: Map<string, Look>, chart: GraphChart, counts: readonly ChildCount[]): void {
  for (const [container, own] of groupedBy(counts, ({ parent_step_id }) => parent_step_id)) {
    const look = looks.get(container) ?? { tone: "live" };
    looks.set(container, { ...look, lines: [`${total(own)}: ${countWords(own)}`, ...(look.lines ?? [])] });
    for (const { to } of chart.edges.filter(({ from, kind }) => from === container && kind === "children"))
      markStart(looks, to, own);
  }
  const standing = counts.filter((one) => one.current_step !== undefined && !hasEnded(one));
  for (const [step, here] of groupedBy(standing, ({ current_step = "" }) => current_step)) {
    const tone = here.some(({ state }) => state === "running") ? "live" : here.every(isWaiting) ? "waiting" : "undoing";
    looks.set(step, { tone, badge: String(total(here)), lines: [`${countWords(here)} here`] });
  }
}

const isWaiting = ({ state }: ChildCount): boolean => state === "paused" || state === "pending";

/** The first step of a block has been entered by every child that has ended. */
function markStart(looks: Map<string, Look>, start: string, counts: readonly ChildCount[]): void {
  const ended = counts.filter((one) => hasEnded(one));
  if (ended.length > 0 && !looks.has(start))
    looks.set(start, { tone: ended.some(({ state }) => state !== "succeeded") ? "failed" : "done" });
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
