// The layout of a workflow: which block each step stands in, and in which catch chains. It is the graph's second reading, after
// its edges are known to lead somewhere; an edge into or out of a block, other than by the block's own rules, is a problem.
import { MOST_NESTING } from "../limits.js";
import type { StepPlan } from "../steps/step.js";
import type { Place } from "./problem.js";

/** A block: the run itself, a branch, an item's or a round's body, a try chain. */
export interface Block {
  readonly kind: "run" | "branch" | "item" | "while" | "try";
  /** The step that holds it; absent: the run. */
  readonly container?: string;
  /** Its first step; of the run, that is its caller's to say. */
  readonly start?: string;
  /** The step that stands for the block's end when it is named as `next`: its container, and of a branch the join. */
  readonly end?: string;
  readonly depth: number;
}

export interface Position {
  readonly block: Block;
  /** The try_catch steps in whose catch chains the step stands. A catch chain belongs to the block that holds its try_catch. */
  readonly chains: ReadonlySet<string>;
}

/** By step id. Steps that cannot be reached stand in the run. */
export type Layout = ReadonlyMap<string, Position>;

export interface PlacedStep {
  readonly plan: StepPlan;
  readonly place: Place;
}

const RUN: Block = { kind: "run", depth: 0 };

/** Where a run may begin, and where that is said. */
export interface Entry {
  readonly target: string;
  readonly at: Place;
}

export function layOut(steps: readonly PlacedStep[], entries: readonly Entry[]): Layout {
  const layout = new LayoutReader(new Map(steps.map((step) => [step.plan.id, step])));
  layout.run(entries);
  return layout.positions;
}

/** An edge within a run, and where it stands in the document. */
type Way = Entry;

class LayoutReader {
  readonly positions = new Map<string, { block: Block; chains: Set<string> }>();
  /** Whose block begins at a step. */
  private readonly starts = new Map<string, string>();
  /** Steps whose ways were judged: a step that stands in several chains is followed several times. */
  private readonly judged = new Set<string>();

  constructor(private readonly steps: ReadonlyMap<string, PlacedStep>) {
    for (const { plan } of steps.values())
      for (const { start } of plan.blocks) {
        // A block without a step, or one that begins with a join, is another fault.
        if (start !== plan.id && !steps.get(start)?.plan.type.joins) this.starts.set(start, plan.id);
      }
  }

  run(entries: readonly Entry[]): void {
    const [first] = entries;
    const outside = first ? this.reachedFrom(first.target) : new Set<string>();
    const inside = this.reachedInBlocks();
    const begins = entries.filter(({ target, at }) => {
      const holder = outside.has(target) ? undefined : inside.get(target);
      if (holder !== undefined) at.problem(intoBlock(target));
      else this.checkNoJoin(target, at);
      return holder === undefined;
    });
    this.block(
      RUN,
      begins.map(({ target }) => target),
    );
    for (const step of this.steps.values()) this.checkFork(this.positions.get(step.plan.id)?.block, step);
  }

  /** What edges and catches lead to from a step, without going into blocks. */
  private reachedFrom(start: string): ReadonlySet<string> {
    const reached = new Set<string>();
    const open = [start];
    for (let id = open.pop(); id !== undefined; id = open.pop()) {
      if (reached.has(id)) continue;
      reached.add(id);
      open.push(...this.allWays(id).map(({ target }) => target));
    }
    return reached;
  }

  /** What the blocks of all steps lead to, and whose block leads there first. */
  private reachedInBlocks(): ReadonlyMap<string, string> {
    const reached = new Map<string, string>();
    const open = [...this.starts];
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const [id, holder] = next;
      if (reached.has(id) || id === holder || id === this.steps.get(holder)?.plan.next) continue;
      reached.set(id, holder);
      for (const { target } of this.allWays(id)) open.push([target, holder]);
    }
    return reached;
  }

  /** First what is reached without a catch, then the catch chains, then the blocks inside. */
  private block(block: Block, starts: readonly string[]): void {
    const main = this.reach(block, starts, undefined, new Set());
    const all = new Set(main);
    const chains = new Map<string, readonly string[]>();
    let tries = main.filter((id) => this.catchWay(id) !== undefined);
    // Chains of chains, level by level: a chain ends where a step is reached without its catch.
    while (tries.length > 0) {
      const outsides = tries.map((id) => [id, this.outsideOf(id, main, chains)] as const);
      for (const [id, outside] of outsides) {
        const chain = this.reach(block, this.catchStart(block, id), id, outside);
        chains.set(id, chain);
        for (const met of chain) all.add(met);
      }
      tries = [...all].filter((id) => this.catchWay(id) !== undefined && !chains.has(id));
    }
    for (const id of all) this.inside(block, id);
  }

  /** What is reached without the catch of this try: the steps outside all chains, and those of the chains that it stands in. */
  private outsideOf(
    id: string,
    main: readonly string[],
    chains: ReadonlyMap<string, readonly string[]>,
  ): ReadonlySet<string> {
    const outside = new Set(main);
    const around = [...(this.positions.get(id)?.chains ?? [])];
    const seen = new Set(around);
    for (let tryCatch = around.pop(); tryCatch !== undefined; tryCatch = around.pop()) {
      for (const met of chains.get(tryCatch) ?? []) outside.add(met);
      for (const outer of this.positions.get(tryCatch)?.chains ?? [])
        if (!seen.has(outer)) {
          seen.add(outer);
          around.push(outer);
        }
    }
    return outside;
  }

  /** Follows the edges inside the block; gives the steps that were met, in order. */
  private reach(
    block: Block,
    starts: readonly string[],
    chain: string | undefined,
    outside: ReadonlySet<string>,
  ): string[] {
    const met = new Set<string>();
    const open = [...starts];
    for (let id = open.shift(); id !== undefined; id = open.shift()) {
      if (met.has(id) || outside.has(id) || !this.steps.has(id)) continue;
      met.add(id);
      const position = this.positions.get(id) ?? { block, chains: new Set<string>() };
      if (chain !== undefined) position.chains.add(chain);
      this.positions.set(id, position);
      const ways = this.ways(id).filter((way) => this.isInside(block, way, id));
      open.push(...ways.map(({ target }) => target));
      this.judged.add(id);
    }
    return [...met];
  }

  /** Where a try's catch chain begins; nowhere if that is in another block. */
  private catchStart(block: Block, id: string): string[] {
    const way = this.catchWay(id);
    if (!way) return [];
    if (way.target === id || way.target === block.end) return way.at.problem("a catch chain must hold a step") ?? [];
    return this.isInside(block, way) ? [way.target] : [];
  }

  /** Whether the edge goes on in the block. It may also lead to the block's end; it may lead nowhere else. */
  private isInside(block: Block, { target, at }: Way, from?: string): boolean {
    if (target === block.end) return false;
    const known = this.positions.get(target);
    const foreign = known ? known.block !== block : this.starts.has(target) && target !== block.start;
    if (foreign && (from === undefined || !this.judged.has(from))) at.problem(intoBlock(target));
    return !foreign;
  }

  private inside(block: Block, id: string): void {
    const step = this.steps.get(id);
    if (!step) return;
    const { plan, place } = step;
    this.checkJoins(block, step);
    for (const { kind, start, at } of plan.blocks) {
      const end = kind === "branch" ? plan.next : id;
      const where = below(place, at);
      const inner: Block = { kind, container: id, start, end, depth: block.depth + 1 };
      if (inner.depth > MOST_NESTING) where.problem(`blocks may be nested ${MOST_NESTING} deep`);
      else if (start === end || start === id) where.problem("a block must hold a step");
      else if (this.positions.has(start)) where.problem(intoBlock(start));
      else if (this.checkNoJoin(start, where)) this.block(inner, [start]);
    }
  }

  /** The edges of a step within its run, without the one into its catch chain. */
  private ways(id: string): Way[] {
    const step = this.steps.get(id);
    return step ? waysOf(step) : [];
  }

  /** A parallel leads to its join, which waits for it: it is not the join of a parallel around it, nor another block's end. */
  private checkFork(block: Block | undefined, { plan, place }: PlacedStep): void {
    if (!plan.type.forks) return;
    if (plan.onError !== "fail") place.at("on_error").warn("has no effect: the on_error of its join counts");
    const { next } = plan;
    if (next === undefined) return place.at("next").problem("is required: the join of the parallel");
    const found = this.steps.get(next)?.plan;
    if (found && !found.type.joins)
      place.at("next").problem(`the next of a parallel must be a join, and "${next}" is none`);
    else if (found && next === block?.end)
      place.at("next").problem(`the join "${next}" is that of the parallel around it: each needs its own`);
    else if (found) this.checkDeciding(plan, found);
  }

  /** The branches that a join names are its parallel's. */
  private checkDeciding({ blocks }: StepPlan, { id, attributes }: StepPlan): void {
    const at = this.steps.get(id)?.place.at("on");
    for (const [index, name] of ((attributes.on as readonly string[] | undefined) ?? []).entries())
      if (!blocks.some((branch) => branch.name === name)) at?.at(index).problem(`there is no branch "${name}"`);
  }

  /** Nothing leads to a join but its parallel, and the ends of the branches. */
  private checkJoins(block: Block, { plan }: PlacedStep): void {
    for (const { target, at } of this.allWays(plan.id))
      if (target !== block.end && !(plan.type.forks && target === plan.next)) this.checkNoJoin(target, at);
  }

  private checkNoJoin(target: string, at: Place): boolean {
    if (!this.steps.get(target)?.plan.type.joins) return true;
    at.problem(`the step "${target}" is a join: only a parallel, and the ends of its branches, lead there`);
    return false;
  }

  private catchWay(id: string): Way | undefined {
    const step = this.steps.get(id);
    const edge = step?.plan.edges.find(({ catches }) => catches);
    return step && edge && { target: edge.target, at: below(step.place, edge.at) };
  }

  private allWays(id: string): Way[] {
    return [...this.ways(id), this.catchWay(id) ?? []].flat();
  }
}

function waysOf({ plan, place }: PlacedStep): Way[] {
  const ways = plan.edges.filter(({ catches }) => !catches).map(({ target, at }) => ({ target, at: below(place, at) }));
  if (plan.next !== undefined) ways.push({ target: plan.next, at: place.at("next") });
  if (isStep(plan.onError)) ways.push({ target: plan.onError, at: place.at("on_error") });
  return ways;
}

const intoBlock = (target: string): string =>
  `the step "${target}" stands in another block: an edge cannot lead into or out of a block`;

function below(place: Place, path: readonly (string | number)[]): Place {
  return path.reduce((where, key) => where.at(key), place);
}

/** Whether an `on_error` or `on_timeout` names a step. */
export function isStep(target: string): boolean {
  return target !== "fail" && target !== "continue";
}
