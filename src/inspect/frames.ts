// A run as the frames of @statelyai/inspect 0.7, made from its published chart and its audit rows alone: the same rows give the same
// frames, on every node and at any time. What is sent, and to whom, is decided elsewhere.

import {
  beginningOf,
  isObject,
  isTerminal,
  type JsonObject,
  type Move,
  type RunState,
  statePathOf,
  Trace,
} from "../../machines/index.js";
import { wallTime } from "../ambient.js";
import type { EventItem } from "../store/lists/history.js";
import type { InspectedRun } from "../store/lists/inspected-runs.js";
import type { InspectedChart } from "./charts.js";

/** The version of the protocol. Receivers take only frames that name one. */
const VERSION = "0.7.2";
/** The metadata of a row beyond this many characters of JSON is cut to an excerpt. */
const MAX_METADATA = 8_192;

interface Base {
  readonly sessionId: string;
  readonly rootId: string;
  /** Epoch milliseconds, as text. */
  readonly createdAt: string;
  readonly id: null;
  readonly _version: string;
}

interface Snapshot {
  readonly status: "active" | "done";
  readonly value: string | { readonly active: string };
  readonly context: JsonObject;
  readonly tags: readonly string[];
  readonly historyValue: Readonly<Record<string, never>>;
  readonly children: Readonly<Record<string, never>>;
}

type SentEvent = { readonly type: string } & JsonObject;

export type Frame = Base &
  (
    | {
        readonly type: "@xstate.actor";
        readonly name: string;
        readonly parentId?: string;
        /** The published chart, as JSON text. */
        readonly definition: string;
        readonly snapshot: Snapshot;
      }
    | { readonly type: "@xstate.event"; readonly event: SentEvent; readonly sourceId?: string }
    | { readonly type: "@xstate.snapshot"; readonly event: SentEvent; readonly snapshot: Snapshot }
  );

/** Two processes never give two runs the same one. */
export const sessionOf = (runId: string): string => `run:${runId}`;

/** The version under which the run goes on from this row. Undefined: the row moves it to none. */
export function versionFrom({ metadata }: EventItem): number | undefined {
  const { kind, version } = isObject(metadata) ? metadata : {};
  return kind === "migrate" && typeof version === "number" ? version : undefined;
}

/** One run: it is given its audit rows in their order. */
export class RunFrames {
  private trace: Trace;
  private context: JsonObject;

  /** `rootId`: the run that is inspected, whose descendants are shown with it. */
  constructor(
    private readonly run: InspectedRun,
    private inspected: InspectedChart,
    private readonly rootId: string,
  ) {
    this.trace = new Trace(inspected.graph);
    this.context = { run_id: run.id, workflow_id: run.workflowId, state: "pending" };
  }

  /** The run as an actor that has not begun. Everything that it did follows. */
  actor(): Frame {
    return this.actorAt("pending", this.run.startedAt.getTime());
  }

  /** The row moves the run to another version: the actor again, where it is now, with the chart by which it goes on. */
  movedTo(inspected: InspectedChart, row: EventItem): readonly Frame[] {
    const path = typeof row.step_id === "string" ? statePathOf(row.step_id) : this.trace.path;
    this.inspected = inspected;
    this.trace = new Trace(inspected.graph);
    this.trace.jump(path);
    this.said(row);
    const at = Date.parse(row.recorded_at);
    return [this.actorAt(path, at), ...this.sent(eventOf(row), path, at)];
  }

  private actorAt(path: string, at: number): Frame {
    const { run } = this;
    const parent = run.id === this.rootId ? null : run.parentRunId;
    return {
      type: "@xstate.actor",
      name: nameOf(run),
      ...(parent !== null && { parentId: sessionOf(parent) }),
      definition: this.inspected.text(),
      snapshot: this.snapshot(path),
      ...this.base(at),
    };
  }

  /** The edges that led to the row, and the row. */
  of(row: EventItem): readonly Frame[] {
    const at = Date.parse(row.recorded_at);
    const { event_type: type, to_state: to, step_id: stepId, metadata } = row;
    const moves = this.trace.take({ type, to, stepId, metadata } as Parameters<Trace["take"]>[0]);
    // The last row is itself an edge, unless rows before it are missing.
    const isEdge = moves.at(-1)?.label === type;
    this.said(row);
    const said = eventOf(row);
    const ways = moves.flatMap((move) => this.moved(move, move.label === type ? said : undefined, at));
    return isEdge ? ways : [...ways, ...this.sent(said, this.trace.path, at)];
  }

  /** The run has ended, and the rows that say so are no longer kept. */
  settle(state: RunState): readonly Frame[] {
    if (!isTerminal(state) || this.trace.path === state) return [];
    this.context = { ...this.context, state };
    return this.trace.jump(state).flatMap((move) => this.moved(move, undefined, wallTime()));
  }

  /** Says something about the inspection itself, which the run did not do. */
  note(event: SentEvent): Frame {
    return { type: "@xstate.event", event, ...this.base(wallTime()) };
  }

  private said({ to_state: state, seq, step_id: step }: EventItem): void {
    this.context = { ...this.context, state, seq, ...(step !== undefined && { step }) };
  }

  private moved({ label, path }: Move, said: SentEvent | undefined, at: number): readonly Frame[] {
    const event = said ?? { type: label ?? "rows are missing" };
    return this.sent(event, path, at);
  }

  private sent(event: SentEvent, path: string, at: number): readonly Frame[] {
    const base = this.base(at);
    return [
      { type: "@xstate.event", event, ...base },
      { type: "@xstate.snapshot", event: { type: event.type }, snapshot: this.snapshot(path), ...base },
    ];
  }

  private snapshot(path: string): Snapshot {
    const key = path.startsWith("active.") ? path.slice("active.".length) : undefined;
    return {
      status: isTerminal(path as RunState) ? "done" : "active",
      value: key === undefined ? path : { active: key },
      context: this.context,
      tags: key === undefined ? [] : this.inspected.tags(key),
      historyValue: {},
      children: {},
    };
  }

  private base(at: number): Base {
    const { run, rootId } = this;
    return { sessionId: sessionOf(run.id), rootId: sessionOf(rootId), createdAt: `${at}`, id: null, _version: VERSION };
  }
}

function nameOf({ workflowId, parentStepId, parentBranchId }: InspectedRun): string {
  return parentBranchId === null ? workflowId : `${workflowId} ${parentStepId}[${parentBranchId}]`;
}

function eventOf({ event_type: type, seq, step_id, attempt, to_state, actor, metadata }: EventItem): SentEvent {
  const event: SentEvent = { type, seq, attempt, state: to_state, actor };
  const about: JsonObject = isObject(metadata) ? { metadata: excerptOf(metadata) } : {};
  const step: JsonObject = step_id === undefined ? {} : { step_id };
  return { ...event, ...step, ...about };
}

function excerptOf(metadata: JsonObject): JsonObject {
  const text = JSON.stringify(metadata);
  return text.length <= MAX_METADATA ? metadata : { excerpt: beginningOf(text, MAX_METADATA), truncated: true };
}
