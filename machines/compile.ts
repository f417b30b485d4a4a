// Compiles a plan into an XState machine whose chart is the workflow: every way a run can go is a real, labelled edge. The
// chart decides nothing (no guards, no always, no after, no invoke): a decision arrives as one event named after its edge.
import { type AnyStateMachine, assign, emit, setup } from "xstate";
import { isPausing, type RunContext } from "./context.js";
import type { JsonObject } from "./json.js";
import { isTerminal } from "./lifecycle.js";
import type { Plan } from "./program.js";
import type { StepPlan } from "./steps/step.js";
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
  const steps = [...plan.steps.values()].flatMap(stepStates);
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

function begins(plan: Plan): Edges {
  return Object.fromEntries(
    Object.entries(plan.entrypoints).map(([name, target]) => [
      eventName(`begin.${name}`),
      edge(`active.${stateKey(target)}`),
    ]),
  );
}

/** A step, and its `~paused` twin where it may wait: the tags say which of the two the outside sees. */
function stepStates(step: StepPlan): (readonly [string, JsonObject])[] {
  const key = stateKey(step.id);
  const meta = { id: step.id, type: step.type.name };
  const ways = waysOut(step);
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
    on: { ...stays(["note"]), ...ways, ...(step.type.retries && { resume: edge(key) }) },
  };
  return [
    [key, running],
    [pausedKey(step.id), paused],
  ];
}

function waysOut(step: StepPlan): Edges {
  const ways: [string, string][] = step.edges.map(({ label, target }) => [label, target]);
  if (step.next !== undefined)
    ways.push(...["next", "skip", "continue"].map((label): [string, string] => [label, step.next ?? ""]));
  if (step.onError !== "fail" && step.onError !== "continue") ways.push(["error", step.onError]);
  return Object.fromEntries(ways.map(([label, target]) => [eventName(label), edge(stateKey(target))]));
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
  if (context.ending) return "undoing";
  if (context.step === undefined) return "pending";
  return { active: isPausing(context.wait) ? pausedKey(context.step) : stateKey(context.step) };
}
