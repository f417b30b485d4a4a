// A rehearsal drawn: which steps it reached and how they fared, which ways it took, in what order it undid. It is pure; the events are those that the service answered.
import { edgeId, FAILED, type GraphChart, SUCCEEDED } from "../graph/chart.js";
import type { EdgeLook, Look } from "../graph/look.js";
import { counted } from "../parts/plural.js";
import { UNDO_WORDS } from "../story/words.js";

/** An event of a rehearsal. */
export interface Happened {
  readonly seq: number;
  readonly run_id: string;
  readonly workflow_id: string;
  readonly step_id?: string;
  readonly attempt: number;
  readonly event_type: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly recorded_at: string;
}

/** What `POST /workflows/{id}/test` answers. */
export interface Rehearsed {
  readonly state: "pending" | "running" | "paused" | "compensating" | "succeeded" | "failed" | "cancelled";
  readonly output?: unknown;
  readonly variables: Readonly<Record<string, unknown>>;
  readonly error?: { readonly code: string; readonly message: string; readonly step_id?: string };
  readonly requires_manual_review: boolean;
  readonly events: readonly Happened[];
  readonly left?: string;
}

interface Drawing {
  readonly looks: ReadonlyMap<string, Look>;
  readonly edgeLooks: ReadonlyMap<string, EdgeLook>;
  readonly undoWay: readonly string[];
}

interface Fared {
  entries: number;
  done: number;
  attempts: number;
  failed: boolean;
  skipped: boolean;
  undone: boolean;
  undoFailed: boolean;
  error: string | undefined;
}

export function drawn({ events, state, error }: Rehearsed, chart: GraphChart): Drawing {
  const steps = new Set(chart.nodes.map(({ id }) => id));
  // A sub-saga may have steps of the same names.
  const own = events.filter(
    ({ step_id: id, workflow_id: workflow }) => id && steps.has(id) && workflow === events[0]?.workflow_id,
  );
  const fared = faredOf(own);
  return {
    looks: new Map([...fared].map(([id, one]) => [id, lookOf(one, error?.step_id === id)])),
    edgeLooks: new Map([...waysOf(own, chart), ...endOf(own, state, error?.step_id)].map((id) => [id, "taken"])),
    undoWay: undoWayOf(own, error?.step_id),
  };
}

const isUndo = ({ metadata }: Happened): boolean => metadata?.phase === "compensation";

function faredOf(events: readonly Happened[]): ReadonlyMap<string, Fared> {
  const all = new Map<string, Fared>();
  for (const event of events) {
    const id = event.step_id ?? "";
    const one = all.get(id) ?? { ...NOT_YET };
    if (isUndo(event)) noteUndo(one, event);
    else note(one, event);
    all.set(id, one);
  }
  return all;
}

const NOT_YET: Fared = {
  ...{ entries: 0, done: 0, attempts: 0, failed: false, skipped: false },
  ...{ undone: false, undoFailed: false, error: undefined },
};

function note(one: Fared, { event_type: type, attempt, metadata }: Happened): void {
  one.attempts = Math.max(one.attempts, attempt);
  if (type === "step.started") one.entries++;
  if (type === "step.succeeded") one.done++;
  if (type === "step.skipped") one.skipped = true;
  if (type === "step.failed") one.error = errorIn(metadata);
  one.failed = type === "step.failed" || (one.failed && type !== "step.succeeded");
}

function noteUndo(one: Fared, { event_type: type, metadata }: Happened): void {
  if (type === "step.succeeded") one.undone = true;
  if (type !== "step.failed") return;
  one.undoFailed = true;
  one.error = errorIn(metadata);
}

/** The code and the message of an attempt that failed, as the audit row has them. */
function errorIn(metadata: Readonly<Record<string, unknown>> = {}): string {
  const { code, message } = { ...metadata, ...(metadata.error as object | undefined) } as Record<string, unknown>;
  return [code, message].filter((part) => typeof part === "string" && part !== "").join(": ");
}

function lookOf(one: Fared, isCause: boolean): Look {
  const lines = [
    one.attempts > 1 && counted(one.attempts, "attempt"),
    (one.failed || one.undoFailed) && one.error,
    one.undoFailed && UNDO_WORDS.failed,
    isCause && "the run failed here",
  ].filter((line) => typeof line === "string" && line !== "");
  return {
    tone: toneOf(one),
    ...(one.entries > 1 && { badge: `${one.entries}×` }),
    ...(lines.length > 0 && { lines: lines as string[] }),
  };
}

function toneOf({ failed, undone, undoFailed, done, skipped }: Fared): Look["tone"] {
  if (undoFailed || failed) return "failed";
  if (undone) return "undone";
  if (done > 0) return "done";
  return skipped ? "skipped" : "live";
}

const entriesIn = (events: readonly Happened[]) =>
  events.filter((event) => /^step\.(started|skipped)$/.test(event.event_type) && !isUndo(event));

/** A run enters one step after the other: the way between two of them was taken. Branches and items are runs by themselves. */
function waysOf(events: readonly Happened[], chart: GraphChart): string[] {
  const entered = entriesIn(events);
  const reached = new Set(entered.map(({ step_id: id = "" }) => id));
  const [first] = entered;
  const begins = chart.edges.filter(({ from, to }) => from.startsWith("(") && to === first?.step_id);
  const nested = chart.edges.filter(
    ({ from, to, kind }) => /children|return/.test(kind) && reached.has(from) && reached.has(to),
  );
  const direct = pairsOf(entered).flatMap(([from, to]) => waysBetween(from, to, reached, chart));
  return [...begins.map(({ id }) => id), ...nested.map(({ id }) => id), ...direct];
}

function pairsOf(entered: readonly Happened[]): (readonly [from: string, to: string])[] {
  const last = new Map<string, string>();
  return entered.flatMap(({ run_id: run, step_id: id = "" }) => {
    const from = last.get(run);
    last.set(run, id);
    return from === undefined ? [] : [[from, id] as const];
  });
}

/** The run goes on from the end of a loop's body where the loop does: no edge leads there, but one from the loop. */
function waysBetween(from: string, to: string, reached: ReadonlySet<string>, { edges, nodes }: GraphChart): string[] {
  const direct = edgeId(from, to);
  if (edges.some(({ id }) => id === direct)) return [direct];
  const holders = new Set(nodes.filter(({ id, holds }) => holds !== undefined && reached.has(id)).map(({ id }) => id));
  return edges.filter((edge) => edge.to === to && holders.has(edge.from)).map(({ id }) => id);
}

function endOf(events: readonly Happened[], state: Rehearsed["state"], cause: string | undefined): string[] {
  const [first] = events;
  const last = entriesIn(events).findLast(({ run_id: run }) => run === first?.run_id)?.step_id;
  if (state === "succeeded" && last !== undefined) return [edgeId(last, SUCCEEDED)];
  return state === "failed" && cause !== undefined ? [edgeId(cause, FAILED)] : [];
}

/** The steps from the one that failed, along the undos in their order. */
function undoWayOf(events: readonly Happened[], cause: string | undefined): string[] {
  const undone = events.filter((event) => isUndo(event) && event.event_type === "step.succeeded");
  const way = [...(cause === undefined ? [] : [cause]), ...undone.map(({ step_id: id = "" }) => id)];
  return undone.length === 0 ? [] : [...new Set(way)];
}
