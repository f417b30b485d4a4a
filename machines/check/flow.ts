// Which variables may be set when a step is entered: by some step on some path before it. It says what is possible, not what is certain, so a variable
// that is set on one of two paths counts as set.

import { namesIn } from "../attribute/mention.js";
import type { WorkflowPlan } from "../steps/plan.js";
import { isStep } from "../steps/plan.js";
import { isChildBlock, type StepPlan } from "../steps/step.js";

/** The variables that a step may set: its output, and those that it names. */
export function setBy(plan: StepPlan): readonly string[] {
  const { type, saveAs, onError, attributes } = plan;
  const stores = type.output !== undefined || onError !== "fail";
  const output = stores && saveAs !== null ? [saveAs] : [];
  if (!type.variables) return output;
  const mentions = type.mentions.filter(({ what }) => what === "variable");
  return [...output, ...mentions.flatMap((mention) => namesIn(attributes, mention))];
}

/** A set of small numbers. */
type Bits = Uint32Array;

export class Flow {
  private readonly variables = new Map<string, number>();
  private readonly entered: readonly Bits[];
  private readonly indexes: ReadonlyMap<string, number>;

  constructor(workflow: WorkflowPlan) {
    const plans = [...workflow.steps.values()];
    this.indexes = new Map(plans.map(({ id }, index) => [id, index]));
    const sets = plans.map((plan) =>
      setBy(plan).map((name) => {
        const known = this.variables.get(name) ?? this.variables.size;
        this.variables.set(name, known);
        return known;
      }),
    );
    this.entered = reached(waysOf(workflow, plans, this.indexes), sets, Math.ceil(this.variables.size / 32));
  }

  /** Whether any step sets it. */
  isSetSomewhere(variable: string): boolean {
    return this.variables.has(variable);
  }

  /** Whether a step on some path before this one may set it. */
  isSetBefore(step: string, variable: string): boolean {
    const [bit, index] = [this.variables.get(variable), this.indexes.get(step)];
    if (bit === undefined || index === undefined) return false;
    return (((this.entered[index]?.[bit >>> 5] ?? 0) >>> (bit & 31)) & 1) === 1;
  }
}

/** Step `n` is two nodes: 2n, where it is entered, and 2n + 1, where it is done and its variables are set. */
function waysOf(
  workflow: WorkflowPlan,
  plans: readonly StepPlan[],
  indexes: ReadonlyMap<string, number>,
): readonly (readonly number[])[] {
  const ways: number[][] = plans.flatMap(() => [[], []]);
  const entryOf = (id: string | undefined) => {
    const index = id === undefined ? undefined : indexes.get(id);
    return index === undefined ? undefined : 2 * index;
  };
  const lead = (from: number, to: number | undefined) => {
    if (to !== undefined) ways[from]?.push(to);
  };
  for (const [index, plan] of plans.entries()) {
    const [entry, done] = [2 * index, 2 * index + 1];
    lead(entry, done);
    for (const { start } of plan.blocks) lead(entry, entryOf(start));
    for (const { target } of plan.edges) lead(done, entryOf(target));
    lead(done, entryOf(plan.next));
    if (isStep(plan.onError)) lead(done, entryOf(plan.onError));
    const position = workflow.layout.get(plan.id);
    const { block, chains = new Set<string>() } = position ?? {};
    // A child keeps its variables. A round and a try are of the run itself; a catch chain ends where its try does.
    if (block?.container !== undefined && block.kind !== "run" && !isChildBlock(block.kind))
      lead(done, entryOf(block.container));
    for (const chain of chains) lead(done, entryOf(chain));
  }
  // A child's last step names the join as its next, and hands it no variable.
  for (const [index, plan] of plans.entries()) {
    const block = workflow.layout.get(plan.id)?.block;
    if (!block || block.kind === "run" || !isChildBlock(block.kind)) continue;
    const end = entryOf(block.end);
    ways[2 * index + 1] = (ways[2 * index + 1] ?? []).filter((target) => target !== end);
  }
  return ways;
}

/** The bits that reach each step's entry. Steps that lead to each other have the same, so each knot is one, and each way is gone once. */
function reached(
  ways: readonly (readonly number[])[],
  sets: readonly (readonly number[])[],
  words: number,
): readonly Bits[] {
  const { knotOf, count } = knots(ways);
  const bits = Array.from({ length: count }, () => new Uint32Array(words));
  const into = Array.from({ length: count }, () => new Uint32Array(words));
  const members: number[][] = Array.from({ length: count }, () => []);
  for (const [node, knot] of knotOf.entries()) members[knot]?.push(node);
  // Knots are numbered from the last to the first.
  for (let knot = count - 1; knot >= 0; knot--) {
    const own = bits[knot] as Bits;
    add(own, into[knot] as Bits);
    for (const node of members[knot] ?? [])
      if (node % 2 === 1)
        for (const bit of sets[node >>> 1] ?? []) own[bit >>> 5] = (own[bit >>> 5] ?? 0) | (1 << (bit & 31));
    for (const node of members[knot] ?? [])
      for (const target of ways[node] ?? []) {
        const other = knotOf[target] as number;
        if (other !== knot) add(into[other] as Bits, own);
      }
  }
  return sets.map((_, step) => bits[knotOf[2 * step] as number] as Bits);
}

function add(to: Bits, from: Bits): void {
  for (let word = 0; word < to.length; word++) to[word] = (to[word] ?? 0) | (from[word] ?? 0);
}

/** Tarjan's strongly connected components, without recursion: a definition may be one long chain. */
function knots(ways: readonly (readonly number[])[]): { readonly knotOf: readonly number[]; readonly count: number } {
  const order = new Array<number>(ways.length).fill(-1);
  const low = new Array<number>(ways.length).fill(0);
  const knotOf = new Array<number>(ways.length).fill(-1);
  const stack: number[] = [];
  let [next, count] = [0, 0];
  for (let root = 0; root < ways.length; root++) {
    if (order[root] !== -1) continue;
    const walk: { readonly node: number; way: number }[] = [{ node: root, way: 0 }];
    for (let top = walk.at(-1); top !== undefined; top = walk.at(-1)) {
      const { node } = top;
      if (top.way === 0) {
        order[node] = low[node] = next++;
        stack.push(node);
      }
      const target = ways[node]?.[top.way++];
      if (target !== undefined) {
        if (order[target] === -1) walk.push({ node: target, way: 0 });
        else if (knotOf[target] === -1) low[node] = Math.min(low[node] as number, order[target] as number);
        continue;
      }
      walk.pop();
      const above = walk.at(-1);
      if (above) low[above.node] = Math.min(low[above.node] as number, low[node] as number);
      if (low[node] !== order[node]) continue;
      for (let member = stack.pop(); member !== undefined; member = stack.pop()) {
        knotOf[member] = count;
        if (member === node) break;
      }
      count++;
    }
  }
  return { knotOf, count };
}
