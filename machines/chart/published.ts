// The published chart: a workflow as a plain XState v5 machine configuration, for people and for Stately Studio. One state a
// step, and the edges that a run can take. Not the machine that runs: compile.ts makes that of this one, and adds bookkeeping.
import type { WorkflowPlan } from "../steps/plan.js";
import { type BlockStart, isChildBlock, type StepPlan } from "../steps/step.js";
import { timeLimit, written } from "../steps/words.js";
import type { Slices } from "../values/slices.js";
import { blockBegin, eventName, stateKey } from "./labels.js";
import { type OutEdge, outEdgesOf } from "./out-edges.js";

export interface ChartEdge {
  readonly target: string;
  /** The condition. */
  readonly description?: string;
}
export type ChartEdges = Readonly<Record<string, ChartEdge>>;

export interface ChartState {
  readonly type?: "final";
  /** The type of a step. */
  readonly tags?: readonly string[];
  readonly description: string;
  readonly meta?: StepMeta;
  readonly on?: ChartEdges;
}

/** What tools may read instead of the description. */
export interface StepMeta {
  readonly id: string;
  readonly type: string;
  readonly title?: string;
  /** The action that undoes it. */
  readonly compensation?: string;
  readonly timeout?: string;
}

export interface Chart {
  readonly id: string;
  readonly version: string;
  readonly description: string;
  readonly initial: "pending";
  readonly states: {
    readonly pending: ChartState;
    readonly active: ChartState & { readonly initial: string; readonly states: Readonly<Record<string, ChartState>> };
    /** Absent where no run has anything to undo. */
    readonly undoing?: ChartState;
    readonly succeeded: ChartState;
    readonly failed: ChartState;
    readonly cancelled: ChartState;
  };
}

const UNDO = { target: "undoing", description: "the run fails or is cancelled, and has something to await or to undo" };

/** The edges to the ends other than success, each with its condition. */
function ends(failed: string, cancelled: string): ChartEdges {
  return {
    "run.failed": { target: "failed", description: failed },
    "run.cancelled": { target: "cancelled", description: cancelled },
  };
}

/** `reached`: the steps that a run can come to, with their ways out. */
export function* publishedChart(plan: WorkflowPlan, reached: Reached): Slices<Chart> {
  const steps = [...plan.steps.values()];
  const undoes = steps.some(mayOweUndo);
  const states: Record<string, ChartState> = {};
  for (const step of steps) {
    states[stateKey(step.id)] = stateOf(step, reached.get(step.id) ?? [], plan);
    yield;
  }
  return {
    id: rootKey(plan),
    version: String(plan.version),
    description: paragraphs(plan.name, plan.description),
    initial: "pending",
    states: {
      pending: {
        description: "The run has not begun.",
        on: { ...begins(plan, reached), ...ends("the run did not begin in time", "a cancel") },
      },
      active: {
        description: "The run is at one of its steps.",
        on: {
          ...(undoes && { undo: UNDO }),
          ...ends("an error that nothing catches, with nothing to undo", "a cancel, with nothing to undo"),
        },
        initial: stateKey(plan.start),
        states,
      },
      ...(undoes && {
        undoing: {
          description: undoing(steps),
          on: ends("it had failed, and all is undone", "it was cancelled, and all is undone"),
        },
      }),
      succeeded: { type: "final", description: "The run has succeeded." },
      failed: { type: "final", description: "The run has failed." },
      cancelled: { type: "final", description: "The run was cancelled." },
    },
  };
}

const rootKey = ({ workflowId }: WorkflowPlan): string => stateKey(workflowId);

type Reached = ReadonlyMap<string, readonly OutEdge[]>;

/** The ways out of each step that a run can come to. */
export function* reachedEdges(plan: WorkflowPlan): Slices<Reached> {
  const reached = new Map<string, readonly OutEdge[]>();
  const open = Object.values(plan.entrypoints);
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    const step = plan.steps.get(id);
    if (!step || reached.has(id)) continue;
    const outEdges = outEdgesOf(step, plan);
    reached.set(id, outEdges);
    open.push(...outEdges.flatMap(({ target }) => target ?? []), ...childrenOf(step).map(({ start }) => start));
    yield;
  }
  return reached;
}

/** The branches or the items of a step: runs of their own. */
function childrenOf({ blocks }: StepPlan): readonly BlockStart[] {
  return blocks.filter(({ kind }) => isChildBlock(kind));
}

/** A run begins at an entrypoint; a branch or an item at the start of its block. */
function begins({ entrypoints, steps }: WorkflowPlan, reached: ReadonlyMap<string, unknown>): ChartEdges {
  const entries = Object.entries(entrypoints).map(([name, target]): OutEdge => ({ label: `begin.${name}`, target }));
  const children = [...steps.values()].flatMap((step) =>
    (reached.has(step.id) ? childrenOf(step) : []).map(
      ({ name, start }): OutEdge => ({
        label: blockBegin(start),
        target: start,
        when: `the run is ${name === undefined ? "an item" : `the branch ${name}`} of ${step.id}`,
      }),
    ),
  );
  return edges([...entries, ...children], (target = "") => `active.${stateKey(target)}`);
}

/** Ways with the same label are one edge, whose conditions are alternatives. */
function edges(outEdges: readonly OutEdge[], keyOf: (target: string | undefined) => string): ChartEdges {
  const byLabel = new Map<string, OutEdge[]>();
  for (const way of outEdges) byLabel.set(way.label, [...(byLabel.get(way.label) ?? []), way]);
  return Object.fromEntries(
    [...byLabel].map(([label, outEdges]) => {
      const description = conditionOf(outEdges);
      return [eventName(label), { target: keyOf(outEdges[0]?.target), ...(description !== "" && { description }) }];
    }),
  );
}

function conditionOf(outEdges: readonly OutEdge[]): string {
  const conditional = outEdges.some(({ when }) => when !== undefined);
  const conditions = conditional ? new Set(outEdges.map(({ when = "the step is done" }) => when)) : [];
  return [[...conditions].join(", or "), outEdges[0]?.what].filter(Boolean).join(": ");
}

/** A dispatch or a child that is cut off is awaited on the way down, even if nothing is to be undone then. */
function mayOweUndo(step: StepPlan): boolean {
  return step.compensation !== undefined || step.type.retries === true || childrenOf(step).length > 0;
}

function undoing(steps: readonly StepPlan[]): string {
  const undos = steps.flatMap(({ id, compensation }) =>
    compensation ? `${id} by ${written(compensation.action)}` : [],
  );
  return paragraphs("What was done is undone, newest first.", undos.length > 0 && `${undos.join(", ")}.`);
}

function stateOf(step: StepPlan, outEdges: readonly OutEdge[], plan: WorkflowPlan): ChartState {
  const { id, type, title, description, attributes } = step;
  const compensation = step.compensation && written(step.compensation.action);
  const timeout = timeLimit(attributes);
  const children = childrenOf(step).map(({ name = "Each item", start }) => `${name} begins at ${start}.`);
  return {
    tags: [type.name],
    description: paragraphs(
      ...(title === undefined && description === undefined ? [type.summary] : [title, description]),
      type.chartText?.(attributes),
      ...children,
      compensation && `Undone by ${compensation}.`,
      timeout && `Times out ${timeout}.`,
    ),
    meta: {
      ...{ id, type: type.name },
      ...(title !== undefined && { title }),
      ...(compensation && { compensation }),
      ...(timeout && { timeout }),
    },
    on: edges(outEdges, (target) => (target === undefined ? `#${rootKey(plan)}.succeeded` : stateKey(target))),
  };
}

function paragraphs(...parts: readonly (string | false | undefined)[]): string {
  return parts.filter(Boolean).join("\n\n");
}
