// The tree that `saga watch` draws: a run, its steps with their attempts and undos, and its branches, items and sub-sagas below the step that made
// them. A pure function of runs and their audit events; it asks nothing and knows no cursor.
import type { Style } from "../frame/terminal.js";
import { cut, duration, inline, safe } from "../frame/text.js";
import { hasEnded, type Run, type RunEvent, stateOf, styleOf } from "./run.js";
import { errorText } from "./show.js";

/** A run with everything that is known of it. */
export interface Watched {
  readonly run: Run;
  readonly events: readonly RunEvent[];
  /** The oldest first. */
  readonly children: readonly Watched[];
  /** Children that are not followed one by one, by the step that made them. */
  readonly unlisted: Readonly<Record<string, number>>;
}

export interface Drawing {
  /** Milliseconds of the epoch. */
  readonly now: number;
  readonly width: number;
  paint(style: Style, text: string): string;
}

type StepState = "running" | "waiting" | "retrying" | "succeeded" | "failed" | "skipped";
type Undo = "running" | "done" | "failed";

export interface StepRow {
  readonly id: string;
  readonly state: StepState;
  /** How often the run has come to it. */
  readonly entries: number;
  readonly attempt: number;
  readonly note: string;
  readonly from: string;
  readonly to?: string;
  readonly undo?: Undo;
}

const MARKS: Readonly<Record<StepState, readonly [mark: string, style: Style]>> = {
  running: ["●", "cyan"],
  waiting: ["◌", "yellow"],
  retrying: ["↻", "yellow"],
  succeeded: ["✓", "green"],
  failed: ["✗", "red"],
  skipped: ["–", "dim"],
};
const UNDO: Readonly<Record<Undo, readonly [text: string, style: Style]>> = {
  running: ["↩ undoing", "magenta"],
  done: ["↩ undone", "magenta"],
  failed: ["↩ undo failed", "red"],
};

/**
 * The steps of one run, in the order in which it came to them. `handedOver`: the events of undos that a run above carries out for this one, because
 * this one ended before the rollback.
 */
export function stepsOf(events: readonly RunEvent[], handedOver: readonly RunEvent[] = []): StepRow[] {
  const rows = new Map<string, StepRow>();
  for (const event of [...events.filter((each) => childOf(each) === undefined), ...handedOver]) {
    const id = event.step_id;
    if (id === undefined || !event.event_type.startsWith("step.")) continue;
    const before = rows.get(id);
    const after = isUndo(event) ? undoing(before, event) : stepping(before, event);
    if (after) rows.set(id, after);
  }
  return [...rows.values()];
}

const isUndo = ({ metadata }: RunEvent) => metadata?.phase === "compensation";

/** The run whose step an undo is of, if it is another than the one that carries it out. */
const childOf = ({ metadata }: RunEvent): string | undefined =>
  metadata?.phase === "compensation" && typeof metadata.child_run_id === "string" ? metadata.child_run_id : undefined;

/** The undos that runs of the tree carry out for others, by the other. */
function handedOver({ events, children }: Watched): Map<string, RunEvent[]> {
  const found = new Map<string, RunEvent[]>();
  const add = (child: string, more: readonly RunEvent[]) => found.set(child, [...(found.get(child) ?? []), ...more]);
  for (const event of events) {
    const child = childOf(event);
    if (child !== undefined) add(child, [event]);
  }
  for (const each of children) for (const [child, more] of handedOver(each)) add(child, more);
  return found;
}

/** What an event of its undo makes of a step. */
function undoing(row: StepRow | undefined, { event_type, metadata = {} }: RunEvent): StepRow | undefined {
  if (!row) return undefined;
  if (event_type === "step.succeeded") return { ...row, undo: "done" };
  if (event_type === "step.failed")
    return { ...row, undo: metadata.will_retry === true ? "running" : "failed", note: failure(metadata) };
  return { ...row, undo: "running" };
}

function stepping(before: StepRow | undefined, event: RunEvent): StepRow | undefined {
  const { event_type, step_id = "", recorded_at, attempt, metadata = {} } = event;
  const started = { id: step_id, state: "running", entries: 1, attempt: 0, note: "", from: recorded_at } as const;
  const row = before ?? started;
  switch (event_type) {
    case "step.started":
      return before === undefined ? row : { ...started, entries: before.entries + 1 };
    case "step.dispatched":
      return { ...row, state: "running", attempt, note: inline(metadata.action) };
    case "step.paused":
      return { ...row, state: "waiting", note: waitNote(metadata) };
    case "step.succeeded":
      return { ...row, state: "succeeded", attempt, note: "", to: recorded_at };
    case "step.skipped":
      return { ...row, state: "skipped", note: inline(metadata.reason), to: recorded_at };
    case "step.failed":
      return metadata.will_retry === true
        ? { ...row, state: "retrying", attempt, note: failure(metadata) }
        : { ...row, state: "failed", attempt, note: failure(metadata), to: recorded_at };
    default:
      return before;
  }
}

const failure = ({ code, message }: Readonly<Record<string, unknown>>): string =>
  [code, message]
    .filter((part) => part !== undefined && part !== "")
    .map(inline)
    .join(": ");

function waitNote({ awaiting, name, wakeup_at }: Readonly<Record<string, unknown>>): string {
  const what = [awaiting, name]
    .filter((part) => part !== undefined)
    .map(inline)
    .join(" ");
  return wakeup_at === undefined ? `waits for ${what}` : `waits for ${what}, until ${inline(wakeup_at)}`;
}

/** The whole tree. Lines fit into the width. */
export function treeLines(watched: Watched, drawing: Drawing): string[] {
  return below(watched, { ...drawing, undos: handedOver(watched) }, "", nameOf(watched.run));
}

interface Inner extends Drawing {
  readonly undos: ReadonlyMap<string, readonly RunEvent[]>;
}

/** A root by its workflow, a child by its branch, item or workflow. */
function nameOf({ workflow_id, version, id, parent_run_id, parent_branch_id }: Run): string {
  if (parent_run_id === undefined) return `${workflow_id} ${version}  ${id}`;
  return parent_branch_id ?? `${workflow_id} ${version}`;
}

function below(watched: Watched, drawing: Inner, indent: string, name: string): string[] {
  const { run } = watched;
  const error = run.error ?? run.incident;
  const head = line(drawing, indent, [
    [name, "bold"],
    [stateOf(run), styleOf(run.state)],
    [took(run.started_at, run.terminal_at, drawing.now, hasEnded(run)), "dim"],
    [error === undefined ? "" : errorText(error), "red"],
  ]);
  const steps = stepsOf(watched.events, drawing.undos.get(run.id));
  const listed = new Set(steps.map(({ id }) => id));
  const strays = watched.children.filter(({ run: child }) => !listed.has(child.parent_step_id ?? ""));
  return [
    head,
    ...steps.flatMap((step) => [
      stepLine(step, drawing, `${indent}  `),
      ...watched.children
        .filter(({ run: child }) => child.parent_step_id === step.id)
        .flatMap((child) => below(child, drawing, `${indent}    `, nameOf(child.run))),
      ...unlisted(watched.unlisted[step.id], drawing, `${indent}    `),
    ]),
    ...strays.flatMap((child) => below(child, drawing, `${indent}    `, nameOf(child.run))),
  ];
}

const unlisted = (count: number | undefined, drawing: Drawing, indent: string) =>
  count === undefined ? [] : [line(drawing, indent, [[`and ${count} more, not followed one by one`, "dim"]])];

function stepLine(step: StepRow, drawing: Drawing, indent: string): string {
  const [mark, style] = MARKS[step.state];
  const [undo, undoStyle] = step.undo ? UNDO[step.undo] : (["", "dim"] as const);
  const isOver = step.to !== undefined;
  return line(drawing, indent, [
    [mark, style],
    [safe(step.id), step.undo === "done" ? "dim" : undefined],
    [step.entries > 1 ? `×${step.entries}` : "", "dim"],
    [step.attempt > 1 ? `attempt ${step.attempt}` : "", "yellow"],
    [undo, undoStyle],
    [step.note, step.state === "failed" || step.undo === "failed" ? "red" : "dim"],
    [took(step.from, step.to, drawing.now, isOver), "dim"],
  ]);
}

function took(from: string, to: string | undefined, now: number, isOver: boolean): string {
  if (isOver && to === undefined) return "";
  return duration((to === undefined ? now : Date.parse(to)) - Date.parse(from));
}

type Part = readonly [text: string, style: Style | undefined];

/** Parts with a space between; the last ones give way when the line is too long. */
function line({ width, paint }: Drawing, indent: string, parts: readonly Part[]): string {
  let left = width - indent.length;
  let text = indent;
  for (const [part, style] of parts) {
    if (part === "" || left <= 0) continue;
    const gap = text === indent ? "" : " ";
    const fits = cut(part, left - gap.length);
    if (fits === "") break;
    text += gap + (style === undefined ? fits : paint(style, fits));
    left -= gap.length + [...fits].length;
  }
  return text;
}

/** What `saga watch` appends in a pipe: the time, where it happened, and what. */
export function eventLine(event: RunEvent, path: string): string {
  const { recorded_at, event_type, step_id, attempt, metadata = {} } = event;
  const where = [path, step_id].filter((part) => part !== undefined && part !== "").map((part) => safe(String(part)));
  const notes = [
    isUndo(event) ? "undo" : "",
    attempt > 1 && !isUndo(event) ? `attempt ${attempt}` : "",
    event_type === "step.paused" ? waitNote(metadata) : "",
    event_type === "log" ? inline(metadata.kind) : "",
    metadata.code === undefined ? "" : failure(metadata),
    event_type === "step.dispatched" ? inline(metadata.action) : "",
    event_type === "run.cancelled" ? inline(metadata.reason) : "",
  ].filter((note) => note !== "");
  const at = where.length === 0 ? "" : ` ${where.join("/")}`;
  return `${recorded_at} ${event_type}${at}${notes.map((note) => ` ${note}`).join("")}`;
}
