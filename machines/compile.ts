// Compiles a plan into an XState machine whose chart is the workflow: every way a run can go is a real, labelled edge. The
// chart decides nothing (no guards, no always, no after, no invoke): a decision arrives as one event named after its edge.
import { type AnyStateMachine, assign, emit, setup } from "xstate";
import { isPausing, type RunContext } from "./context.js";
import { isStep } from "./definition/layout.js";
import type { JsonObject } from "./json.js";
import { isTerminal } from "./lifecycle.js";
import type { Plan } from "./program.js";
import type { BlockStart, StepPlan } from "./steps/step.js";
import type { Transition } from "./transition.js";

/** Edges that keep the token where it is. */
const STAY = ["note", "wait", "heartbeat"] as const;

type Edges = Record<string, JsonObject>;

export function compileMachine(plan: Plan): { chart: JsonObject; machine: AnyStateMachine } {
  const chart = chartOf(plan);
  const machine = setup({
    types: {} as { context: RunContext; events: Transition; emitted: { type: "transition"; transition: Transition } },
    actions: {
      apply: assign(({ event }) => event.patch as Partial<RunContext>),
      record: emit(({ event }) => ({ type: "transition", transition: event }) as const),
    },
    // biome-ignore lint/suspicious/noExplicitAny: the chart is made of data; XState's types want it as a literal.
  }).createMachine(chart as any);
  return { chart, machine };
}

function chartOf(plan: Plan): JsonObject {
  const steps = [...plan.steps.values()].flatMap((step) => stepStates(step, plan));
  return {
    id: plan.workflowId.replaceAll(".", "%2E"),
    initial: "pending",
    states: {
      pending: { tags: ["pending"], on: { ...begins(plan), ...stays(["note"]), ...ends() } },
      active: { initial: stateKey(plan.start), on: ends(), states: Object.fromEntries(steps) },
      undoing: { id: "undoing", tags: ["compensating"], on: { ...stays(STAY), ...ends() } },
      succeeded: { id: "succeeded", tags: ["succeeded"] },
      failed: { id: "failed", tags: ["failed"] },
      cancelled: { id: "cancelled", tags: ["cancelled"] },
    },
  };
}

/** A run begins at an entrypoint; a branch or an item, which is a run of its own, at the start of its block. */
function begins(plan: Plan): Edges {
  const entries = Object.entries(plan.entrypoints).map(([name, target]) => [`begin.${name}`, target] as const);
  const blocks = [...plan.steps.values()].flatMap((step) =>
    step.blocks
      .filter(({ kind }) => kind === "branch" || kind === "item")
      .map(({ start }) => [blockBegin(start), start] as const),
  );
  return Object.fromEntries(
    [...entries, ...blocks].map(([label, target]) => [eventName(label), edge(`active.${stateKey(target)}`)]),
  );
}

/** The edge along which a branch or an item begins. Entrypoints have no such names: a space is in no id. */
export function blockBegin(start: string): string {
  return `begin block.${start}`;
}

/** A step, and its `~paused` twin where it may wait: the tags say which of the two the outside sees. */
function stepStates(step: StepPlan, plan: Plan): (readonly [string, JsonObject])[] {
  const key = stateKey(step.id);
  const meta = { id: step.id, type: step.type.name };
  const ways = waysOut(step, plan);
  const description = step.type.summary;
  const pauses = step.type.pauses || step.type.retries;
  const running = {
    tags: ["running"],
    meta,
    description,
    on: { ...stays(STAY), ...ways, ...(pauses && { pause: edge(pausedKey(step.id)) }) },
  };
  if (!pauses) return [[key, running]];
  const paused = {
    tags: ["paused"],
    meta,
    on: { ...stays(["note"]), ...ways, resume: edge(key) },
  };
  return [
    [key, running],
    [pausedKey(step.id), paused],
  ];
}

/** Every way out of a step: its edges, into its own block, and out of the blocks that it stands in. */
function waysOut(step: StepPlan, plan: Plan): Edges {
  const ways: [string, string][] = step.edges.map(({ label, target }) => [label, target]);
  ways.push(...step.blocks.map((block): [string, string] => [blockLabel(block), block.start]));
  if (step.next !== undefined) ways.push(["next", step.next]);
  // A parallel that does not fork passes over its join, whose `on_error` is the one that counts.
  const { next: past, onError = "fail" } = (step.type.forks ? plan.steps.get(step.next ?? "") : step) ?? {};
  if (past !== undefined) ways.push(...["skip", "continue"].map((label): [string, string] => [label, past]));
  if (isStep(onError)) ways.push(["error", onError]);
  for (const container of containersOf(step, plan)) {
    ways.push([doneLabel(container), container], [raiseLabel(container), container]);
  }
  return Object.fromEntries(ways.map(([label, target]) => [eventName(label), edge(stateKey(target))]));
}

/** The steps of this run in whose blocks or catch chains it stands, without those further out. */
function containersOf({ id }: StepPlan, { layout }: Plan): readonly string[] {
  const position = layout.get(id);
  if (!position) return [];
  const { kind, container } = position.block;
  const around = (kind === "while" || kind === "try") && container !== undefined ? [container] : [];
  return [...around, ...position.chains];
}

/** The edge at the end of a block of this run, or of a catch chain, back to the step that holds it. */
export const doneLabel = (container: string): string => `done.${container}`;
/** The edge of an error, or of a time that has run out, out of the block. */
export const raiseLabel = (container: string): string => `raise.${container}`;

function blockLabel({ kind, name }: BlockStart): string {
  return name === undefined ? kind : `${kind}.${name}`;
}

function stays(labels: readonly string[]): Edges {
  return Object.fromEntries(labels.map((label) => [label, { actions: ["apply", "record"] }]));
}

function ends(): Edges {
  return {
    undo: edge("#undoing"),
    "run.succeeded": edge("#succeeded"),
    "run.failed": edge("#failed"),
    "run.cancelled": edge("#cancelled"),
  };
}

function edge(target: string): JsonObject {
  return { target, actions: ["apply", "record"] };
}

/** A step id as a state key: a dot would be read as a path. */
function stateKey(id: string): string {
  return id.replaceAll(".", "%2E");
}

function pausedKey(id: string): string {
  return `${stateKey(id)}~paused`;
}

/** An edge's label as an event name: an asterisk would be a wildcard. Two labels never share a name. */
export function eventName(label: string): string {
  return label.replaceAll("%", "%25").replaceAll("*", "%2A");
}

/** Where the chart stands for a context: the inverse of what the edges do. */
export function chartValue(context: RunContext): string | Record<string, string> {
  if (isTerminal(context.state)) return context.state;
  // What unwinds goes on to its catch first; the ending follows.
  if (context.ending && !context.unwinding) return "undoing";
  if (context.step === undefined) return "pending";
  return { active: isPausing(context) ? pausedKey(context.step) : stateKey(context.step) };
}
