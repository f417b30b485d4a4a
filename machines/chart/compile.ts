// Compiles a plan into the XState machine that runs: the published chart, and the bookkeeping that it leaves out. The
// machine decides nothing (no guards, no always, no after, no invoke): a decision arrives as one event named after its edge.
import { assign, emit, setup } from "xstate";
import type { Transition } from "../messages/transition.js";
import type { RunContext } from "../state/context.js";
import type { WorkflowPlan } from "../steps/plan.js";
import type { StepPlan } from "../steps/step.js";
import type { Slices } from "../values/slices.js";
import { RunLogic } from "./actor.js";
import { eventName, forkBegin, pausedKey, stateKey } from "./labels.js";
import { isTopLevel, type Program } from "./program.js";
import { type Chart, type ChartEdges, type ChartState, publishedChart, reachedEdges } from "./published.js";

/** Edges that record something and leave the run where it is. */
export const BOOKKEEPING = ["note", "wait", "heartbeat"] as const;

/** Where no step has anything to undo: a run that has come from another version may owe undos of that one. */
const UNDO: ChartEdges = { undo: { target: "undoing" } };
const UNDOING: ChartState = {
  description: "What was done under another version is undone.",
  on: { "run.failed": { target: "failed" }, "run.cancelled": { target: "cancelled" } },
};

/** A fork begins at any step of the run itself, and may owe undos before that. The published chart shows neither: both are of another run's making. */
function forkEdges(plan: WorkflowPlan): ChartEdges {
  const begins = [...plan.steps.keys()]
    .filter((step) => isTopLevel(plan, step))
    .map((step) => [eventName(forkBegin(step)), { target: `active.${stateKey(step)}` }] as const);
  return { ...UNDO, ...Object.fromEntries(begins) };
}

/** What every edge does: the transition's patch is applied, and the transition is handed to the run's actor. */
const TAKEN = { actions: ["apply", "record"] } as const;

/** The library makes the machine in one piece, 5 µs an edge (measured). */
export function* compileMachine(plan: WorkflowPlan): Slices<Pick<Program, "chart" | "machine" | "logic" | "reached">> {
  const reached = yield* reachedEdges(plan);
  const chart = yield* publishedChart(plan, reached);
  const running = yield* runningChart(chart, plan);
  const machine = setup({
    types: {} as { context: RunContext; events: Transition; emitted: { type: "transition"; transition: Transition } },
    actions: {
      apply: assign(({ event }) => event.patch as Partial<RunContext>),
      record: emit(({ event }) => ({ type: "transition", transition: event }) as const),
    },
    // biome-ignore lint/suspicious/noExplicitAny: the chart is made of data; XState's types want it as a literal.
  }).createMachine(running as any);
  return { chart, machine, logic: new RunLogic(machine), reached: new Set(reached.keys()) };
}

/** Bookkeeping hangs at the root, once for all states; a step that may wait gets a twin. The tags are states of a run. */
function* runningChart({ id, initial, states }: Chart, plan: WorkflowPlan): Slices<object> {
  const { pending, active, undoing, ...ends } = states;
  const steps: (readonly [string, object])[] = [];
  for (const step of plan.steps.values()) {
    steps.push(...twins(step, active.states[stateKey(step.id)] as ChartState));
    yield;
  }
  return {
    ...{ id, initial },
    on: Object.fromEntries(BOOKKEEPING.map((label) => [label, TAKEN])),
    states: {
      pending: running(pending, "pending", forkEdges(plan)),
      active: { initial: active.initial, on: taken({ ...UNDO, ...active.on }), states: Object.fromEntries(steps) },
      undoing: running(undoing ?? UNDOING, "compensating"),
      ...ends,
    },
  };
}

/** While a run waits, it is in the step's paused twin, with the same ways out. */
function twins(step: StepPlan, state: ChartState): (readonly [string, object])[] {
  const key = stateKey(step.id);
  const { pauses, retries } = step.type;
  if (!pauses && !retries) return [[key, running(state, "running")]];
  return [
    [key, running(state, "running", { pause: { target: pausedKey(step.id) } })],
    [pausedKey(step.id), running(state, "paused", { resume: { target: key } })],
  ];
}

function running(state: ChartState, tag: string, more: ChartEdges = {}): object {
  return { ...state, tags: [tag], on: taken({ ...state.on, ...more }) };
}

function taken(edges: ChartEdges = {}): object {
  return Object.fromEntries(Object.entries(edges).map(([label, edge]) => [label, { ...edge, ...TAKEN }]));
}
