// The published chart and the machine that runs, side by side: every edge of either as text, and whether the published chart goes
// along with what runs did.
import { type AnyActorRef, type AnyStateMachine, type AnyStateNode, createActor, createMachine } from "xstate";
import { chartValue } from "../../../machines/chart/actor.js";
import { BOOKKEEPING } from "../../../machines/chart/compile.js";
import { isTerminal, type Program } from "../../../machines/index.js";
import type { Committed } from "../simulation.js";

const machines = new WeakMap<Program, AnyStateMachine>();

/** The published chart as a client has it: JSON, given to XState unchanged. */
export function publishedMachine(program: Program): AnyStateMachine {
  const known = machines.get(program);
  if (known) return known;
  const machine = createMachine(JSON.parse(JSON.stringify(program.chart)));
  machines.set(program, machine);
  return machine;
}

/** The state of the published chart that stands for a state of the machine that runs. */
const published = (state: string): string => state.replace(/~paused$/, "");

/** Every edge of a machine as `state --label-> state`; no state after the arrow: the edge stays where it is. */
export function edgesOf(machine: AnyStateMachine): string[] {
  return leavesOf(machine.root).flatMap((leaf) => {
    const path = (node: AnyStateNode) => node.path.join(".");
    const found = new Map<string, string>();
    for (let node: AnyStateNode | undefined = leaf; node; node = node.parent)
      for (const [label, [transition]] of node.transitions)
        if (!found.has(label)) found.set(label, transition?.target?.[0] ? path(transition.target[0]) : "");
    return leaf.type === "final" ? [] : [...found].map(([label, target]) => `${path(leaf)} --${label}-> ${target}`);
  });
}

function leavesOf(node: AnyStateNode): AnyStateNode[] {
  const children = Object.values(node.states);
  return children.length === 0 ? [node] : children.flatMap(leavesOf);
}

/**
 * Where the machine that runs is no refinement of the published chart. Each edge of it must be a published one between the states
 * that theirs stand for, or a step that the published chart does not see: bookkeeping, or between a step and its twin. And each
 * published edge must be one of the machine's.
 */
export function differences(running: AnyStateMachine, chart: AnyStateMachine): string[] {
  const publishedEdges = new Set(edgesOf(chart));
  const hasRollback = Object.hasOwn(chart.states, "undoing");
  const seen = new Set<string>();
  const found: string[] = [];
  for (const edge of edgesOf(running)) {
    const [, from = "", label = "", to = ""] = /^(.*) --(.*)-> (.*)$/.exec(edge) ?? [];
    const image = `${published(from)} --${label}-> ${published(to)}`;
    if (publishedEdges.has(image)) seen.add(image);
    else if (!isUnseen(from, label, to, hasRollback)) found.push(`not published: ${edge}`);
  }
  for (const edge of publishedEdges) if (!seen.has(edge)) found.push(`never taken: ${edge}`);
  return found;
}

/** Nor does it show the rollback of a run that has come from another version, where its own runs have none. */
function isUnseen(from: string, label: string, to: string, hasRollback: boolean): boolean {
  if (!hasRollback && (label === "undo" || from === "undoing")) return true;
  // A fork begins at a step, and may owe undos of its original before that.
  if (from === "pending" && (label === "undo" ? to === "undoing" : label.startsWith("begin fork."))) return true;
  if (to === "") return (BOOKKEEPING as readonly string[]).includes(label);
  return (label === "pause" || label === "resume") && from !== to && published(from) === published(to);
}

/** Plays what runs did, edge by edge, on their published charts; says where a chart stands elsewhere than its run. */
export function strayedFrom(history: readonly Committed[]): string[] {
  const actors = new Map<string, { readonly actor: AnyActorRef; readonly version: number }>();
  const undoing = new Set<string>();
  const found: string[] = [];
  for (const { run, edge, context, program } of history) {
    const before = actors.get(run.id);
    // A run that moves to another version goes on with the chart of that version, from where it stands.
    const actor =
      before?.version === program.version ? before.actor : begun(program, before && statePathOf(chartValue(context)));
    actors.set(run.id, { actor, version: program.version });
    // What it owes is of another version, and its chart has no rollback.
    if (!program.chart.states.undoing && edge === "undo") undoing.add(run.id);
    if (undoing.has(run.id)) continue;
    actor.send({ type: edge });
    const { value, status } = actor.getSnapshot();
    const expected = statePathOf(chartValue(context));
    if (statePathOf(value) !== published(expected))
      found.push(`after ${edge} the run is at ${expected}, its chart at ${statePathOf(value)}`);
    if ((status === "done") !== isTerminal(context.state))
      found.push(`the run is ${context.state}, its chart ${status}`);
  }
  return found;
}

/** The chart of a run, at its beginning or at a place. */
function begun(program: Program, path = "pending"): AnyActorRef {
  const machine = publishedMachine(program);
  if (path === "pending") return createActor(machine).start();
  const value = { active: published(path).slice("active.".length) };
  return createActor(machine, { snapshot: machine.resolveState({ value, context: {} }) }).start();
}

function statePathOf(value: unknown): string {
  return typeof value === "string" ? value : `active.${(value as { active: string }).active}`;
}
