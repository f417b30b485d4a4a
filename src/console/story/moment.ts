// A run after some of its audit rows: where it is, how each step stands, which edges it took, what it undid. A moment is folded row by row;
// what no row says, it does not know.
import type { RunState } from "../../../machines/index.js";
import { edgeId } from "../graph/chart.js";
import { type Halt, haltsAfter } from "./halt.js";
import {
  type Failure,
  failureOf,
  isIncident,
  isUndo,
  type Row,
  stateAfter,
  textIn,
  timeOf,
  typeOf,
  willRetry,
} from "./rows.js";

type StepStanding = "running" | "waiting" | "retrying" | "incident" | "done" | "failed" | "skipped";
export type UndoStanding = "undoing" | "undone" | "failed" | "passed";

export interface StepStory {
  readonly visits: number;
  /** The attempts of the last visit. */
  readonly attempts: number;
  readonly standing: StepStanding;
  readonly enteredAt: number;
  readonly endedAt?: number;
  readonly awaiting?: string;
  /** Its branches or items have begun. */
  readonly hasChildren?: true;
  readonly error?: Failure;
  readonly undo?: UndoStanding;
}

/** One entry of the undo list that was begun. */
export interface Undo {
  readonly step: string;
  readonly childRunId?: string;
  readonly standing: UndoStanding;
  readonly attempts: number;
  readonly error?: Failure;
  readonly seq: number;
}

/** A rollback of the run, or of a try: undos in the order in which they began. */
export interface Rollback {
  /** The step that the run was at. */
  readonly from?: string;
  readonly undos: readonly Undo[];
  readonly isOver: boolean;
}

export interface Moment {
  /** The number of rows behind it. */
  readonly count: number;
  readonly state: RunState;
  readonly at?: number;
  readonly step?: string;
  readonly steps: ReadonlyMap<string, StepStory>;
  /** Edges, as `edgeId` names them, with the number of times that they were taken. */
  readonly taken: ReadonlyMap<string, number>;
  readonly rollbacks: readonly Rollback[];
  /** What holds it until a person lets it go on. */
  readonly halts: readonly Halt[];
}

export interface Move {
  readonly from: string;
  readonly to: string;
}

export const BEGINNING: Moment = {
  ...{ count: 0, state: "pending", steps: new Map(), taken: new Map(), rollbacks: [], halts: [] },
};

/** A moment that is being folded: its maps are its own. */
export interface Folding extends Moment {
  readonly steps: Map<string, StepStory>;
  readonly taken: Map<string, number>;
}

export const folding = (moment: Moment): Folding => ({
  ...moment,
  steps: new Map(moment.steps),
  taken: new Map(moment.taken),
});

/** The maps are changed in place. */
export function fold(before: Folding, row: Row, moves: readonly Move[]): Folding {
  for (const { from, to } of moves) {
    const id = edgeId(from, to);
    before.taken.set(id, (before.taken.get(id) ?? 0) + 1);
  }
  const told = { ...before, count: before.count + 1, state: stateAfter(row), at: timeOf(row) };
  return withRow({ ...told, halts: haltsAfter(before.halts, row) }, row);
}

function withRow(moment: Folding, row: Row): Folding {
  if (typeOf(row) === "compensation.started") return beginRollback(moment);
  if (isUndo(row)) return withUndo(moment, row);
  return withStep(moment, row);
}

function withStep(moment: Folding, row: Row): Folding {
  const { step_id: step } = row;
  if (step === undefined || !typeOf(row).startsWith("step.")) return moment;
  const before = moment.steps.get(step);
  moment.steps.set(step, typeOf(row) === "step.started" ? entered(before, row) : stepAfter(before, row));
  const rollbacks = typeOf(row) === "step.started" ? overAll(moment.rollbacks) : moment.rollbacks;
  return { ...moment, rollbacks, step };
}

const entered = (before: StepStory | undefined, row: Row): StepStory => ({
  visits: (before?.visits ?? 0) + 1,
  attempts: 0,
  standing: "running",
  enteredAt: timeOf(row),
});

/** A row of a step that has no row of its begin: rows are missing, or it is a container's. */
const unseen = (row: Row): StepStory => ({ visits: 1, attempts: 0, standing: "running", enteredAt: timeOf(row) });

function stepAfter(before: StepStory | undefined, row: Row): StepStory {
  const { awaiting: _, ...step } = before ?? unseen(row);
  const awaiting = textIn(row, "awaiting");
  switch (typeOf(row)) {
    case "step.dispatched":
      return { ...step, standing: "running", attempts: step.attempts + 1 };
    case "step.paused":
      return { ...step, standing: "waiting", ...awaits(awaiting) };
    case "step.failed":
      return failed(step, row);
    default:
      return { ...step, standing: typeOf(row) === "step.skipped" ? "skipped" : "done", endedAt: timeOf(row) };
  }
}

const awaits = (awaiting: string | undefined) => ({
  ...(awaiting !== undefined && { awaiting }),
  ...(awaiting === "children" && { hasChildren: true as const }),
});

function failed(step: StepStory, row: Row): StepStory {
  const error = failureOf(row);
  if (willRetry(row)) return { ...step, error, standing: "retrying" };
  if (isIncident(row)) return { ...step, error, standing: "incident" };
  return { ...step, error, standing: "failed", endedAt: timeOf(row) };
}

const overAll = (rollbacks: readonly Rollback[]): readonly Rollback[] =>
  rollbacks.at(-1)?.isOver === false ? rollbacks.map((one) => ({ ...one, isOver: true })) : rollbacks;

function beginRollback(moment: Folding): Folding {
  const { rollbacks, step } = moment;
  return { ...moment, rollbacks: [...overAll(rollbacks), { ...from(step), undos: [], isOver: false }] };
}

const from = (step: string | undefined) => (step === undefined ? {} : { from: step });

function withUndo(moment: Folding, row: Row): Folding {
  const { step_id: step } = row;
  if (step === undefined) return moment;
  const open = moment.rollbacks.at(-1)?.isOver === false ? moment : beginRollback(moment);
  const rollback = open.rollbacks.at(-1) as Rollback;
  const undos = typeOf(row) === "step.started" ? [...rollback.undos, begun(step, row)] : afterRow(rollback.undos, row);
  const undo = undos.findLast((one) => one.step === step)?.standing;
  moment.steps.set(step, { ...(moment.steps.get(step) ?? unseen(row)), ...(undo && { undo }) });
  return { ...open, rollbacks: [...open.rollbacks.slice(0, -1), { ...rollback, undos }] };
}

function begun(step: string, row: Row): Undo {
  const childRunId = textIn(row, "child_run_id");
  return { step, standing: "undoing", attempts: 0, seq: row.seq, ...(childRunId !== undefined && { childRunId }) };
}

/** Undos go one after another: a row is about the last one of its step. */
function afterRow(undos: readonly Undo[], row: Row): readonly Undo[] {
  const nth = undos.findLastIndex(({ step }) => step === row.step_id);
  return undos.map((undo, index) => (index === nth ? undoAfter(undo, row) : undo));
}

function undoAfter(undo: Undo, row: Row): Undo {
  switch (typeOf(row)) {
    case "step.dispatched":
      return { ...undo, attempts: undo.attempts + 1, standing: "undoing" };
    case "step.succeeded":
      return { ...undo, standing: "undone" };
    case "step.skipped":
      return { ...undo, standing: "passed" };
    case "step.failed":
      return { ...undo, error: failureOf(row), standing: willRetry(row) ? "undoing" : "failed" };
    default:
      return undo;
  }
}
