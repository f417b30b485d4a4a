// The layout of a workflow: the block and the catch chains of each step. This is the second reading of the graph, once all edges
// are known to lead to a step. An edge into or out of a block, except by the rules of the block, is a problem.

import type { Place } from "../attribute/problem.js";
import { type Block, isStep, type Layout } from "../steps/plan.js";
import type { StepPlan } from "../steps/step.js";
import { MAX_NESTING } from "../values/limits.js";
import type { Slices } from "../values/slices.js";
import { type ReadStep, UNKNOWN_TYPE } from "./step.js";

const RUN: Block = { kind: "run", depth: 0 };

/** A step where a run may start, and the place that says so. */
export interface Entry {
  readonly target: string;
  readonly at: Place;
}

/** Faulty steps are laid out by the edges that are known of them. */
export function* layOut(steps: readonly ReadStep[], entries: readonly Entry[]): Slices<Layout> {
  const layout = new LayoutReader(new Map(steps.map((step) => [step.plan.id, step])));
  yield* layout.readRun(entries);
  return layout.positions;
}

/** The target of an edge within a run, and its place in the document. */
type PlacedEdge = Entry;

class LayoutReader {
  readonly positions = new Map<string, { block: Block; chains: Set<string> }>();
  /** The container whose block starts at a step. */
  private readonly containerByStart = new Map<string, string>();
  /** Steps whose edges have been checked. A step in several chains is followed several times, but checked once. */
  private readonly visited = new Set<string>();

  constructor(private readonly steps: ReadonlyMap<string, ReadStep>) {
    for (const { plan } of steps.values())
      for (const { start } of plan.blocks) {
        // A block without a step, or one that starts with a join, is reported elsewhere.
        if (start !== plan.id && !steps.get(start)?.plan.type.joins) this.containerByStart.set(start, plan.id);
      }
  }

  *readRun(entries: readonly Entry[]): Slices<void> {
    const [first] = entries;
    const outside = first ? this.reachableFrom(first.target) : new Set<string>();
    yield;
    const inside = this.reachableInBlocks();
    yield;
    const begins = entries.filter(({ target, at }) => {
      const holder = outside.has(target) ? undefined : inside.get(target);
      if (holder !== undefined) at.problem(otherBlock(target));
      else this.checkNoJoin(target, at);
      return holder === undefined;
    });
    yield* this.readBlock(
      RUN,
      begins.map(({ target }) => target),
    );
    for (const step of this.steps.values()) this.checkFork(this.positions.get(step.plan.id)?.block, step);
  }

  /** The steps that edges and catches lead to from a step, without those inside blocks. */
  private reachableFrom(start: string): ReadonlySet<string> {
    const reached = new Set<string>();
    const open = [start];
    for (let id = open.pop(); id !== undefined; id = open.pop()) {
      if (reached.has(id)) continue;
      reached.add(id);
      open.push(...this.allEdgesOf(id).map(({ target }) => target));
    }
    return reached;
  }

  /** The steps that blocks lead to, each with the container of the first such block. */
  private reachableInBlocks(): ReadonlyMap<string, string> {
    const reached = new Map<string, string>();
    const open = [...this.containerByStart];
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const [id, holder] = next;
      if (reached.has(id) || id === holder || id === this.steps.get(holder)?.plan.next) continue;
      reached.set(id, holder);
      for (const { target } of this.allEdgesOf(id)) open.push([target, holder]);
    }
    return reached;
  }

  /** First the steps that are reached without a catch, then the catch chains, then the blocks inside. */
  private *readBlock(block: Block, starts: readonly string[]): Slices<void> {
    const main = this.followEdges(block, starts, undefined, new Set());
    const all = new Set(main);
    const chains = new Map<string, readonly string[]>();
    let tries = main.filter((id) => this.catchEdgeOf(id) !== undefined);
    // Chains of chains, level by level: a chain ends where a step is reached without its catch.
    while (tries.length > 0) {
      const outsides: (readonly [id: string, outside: ReadonlySet<string>])[] = [];
      for (const id of tries) {
        outsides.push([id, this.outsideOf(id, main, chains)]);
        yield;
      }
      for (const [id, outside] of outsides) {
        const chain = this.followEdges(block, this.catchStarts(block, id), id, outside);
        chains.set(id, chain);
        for (const met of chain) all.add(met);
        this.warnAboutReturns(id, chain);
        yield;
      }
      tries = [...all].filter((id) => this.catchEdgeOf(id) !== undefined && !chains.has(id));
    }
    for (const id of all) yield* this.readInnerBlocks(block, id);
  }

  /** A `next` to the try_catch itself reads like another try, and is none. */
  private warnAboutReturns(tryCatch: string, chain: readonly string[]): void {
    for (const id of chain) {
      const step = this.steps.get(id);
      if (step?.plan.next !== tryCatch) continue;
      step.place
        .at("next")
        .warn("catch_returns", "ends the catch chain: to try again, go to a step before the try_catch");
    }
  }

  /** The steps that are reached without the catch of this try: those outside all chains, and those of the chains around the try. */
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

  /** Follows the edges inside the block and returns the steps found, in order. */
  private followEdges(
    block: Block,
    starts: readonly string[],
    chain: string | undefined,
    outside: ReadonlySet<string>,
  ): string[] {
    const met = new Set<string>();
    const open = [...starts];
    // What is pushed is walked, too. To shift a long list moves all of it.
    for (const id of open) {
      if (met.has(id) || outside.has(id) || !this.steps.has(id)) continue;
      met.add(id);
      const position = this.positions.get(id) ?? { block, chains: new Set<string>() };
      if (chain !== undefined) position.chains.add(chain);
      this.positions.set(id, position);
      const ways = this.edgesOf(id).filter((way) => this.isInside(block, way, id));
      open.push(...ways.map(({ target }) => target));
      this.visited.add(id);
    }
    return [...met];
  }

  /** The start of a try's catch chain. Empty if it is in another block. */
  private catchStarts(block: Block, id: string): string[] {
    const way = this.catchEdgeOf(id);
    if (!way) return [];
    if (way.target === id || way.target === block.end) return way.at.problem("a catch chain must have a step") ?? [];
    return this.isInside(block, way) ? [way.target] : [];
  }

  /** Whether the edge leads to a step of the block. The block's end is the only other target that is allowed. */
  private isInside(block: Block, { target, at }: PlacedEdge, from?: string): boolean {
    if (target === block.end) return false;
    const known = this.positions.get(target);
    const foreign = known ? known.block !== block : this.containerByStart.has(target) && target !== block.start;
    if (foreign && (from === undefined || !this.visited.has(from))) at.problem(otherBlock(target));
    return !foreign;
  }

  private *readInnerBlocks(block: Block, id: string): Slices<void> {
    const step = this.steps.get(id);
    if (!step) return;
    const { plan, place } = step;
    this.checkJoins(block, step);
    yield;
    for (const { kind, start, at } of plan.blocks) {
      const end = kind === "branch" ? plan.next : id;
      const where = below(place, at);
      const inner: Block = { kind, container: id, start, end, depth: block.depth + 1 };
      if (inner.depth > MAX_NESTING) where.problem(`blocks may be nested ${MAX_NESTING} deep`);
      else if (start === end || start === id) where.problem("a block must have a step");
      else if (this.positions.has(start)) where.problem(otherBlock(start));
      else if (this.checkNoJoin(start, where)) yield* this.readBlock(inner, [start]);
    }
  }

  /** The edges of a step within its run, without its catch. */
  private edgesOf(id: string): PlacedEdge[] {
    const step = this.steps.get(id);
    return step ? edgesOf(step) : [];
  }

  /** A parallel leads to its own join: not to that of a parallel around it. */
  private checkFork(block: Block | undefined, { plan, place, faulty }: ReadStep): void {
    if (!plan.type.forks) return;
    if (plan.onError !== "fail")
      place.at("on_error").warn("on_error_ignored", "has no effect: set the on_error of its join");
    const { next } = plan;
    if (next === undefined) return place.at("next").problem("is required: the join of the parallel");
    const found = this.steps.get(next)?.plan;
    if (found && !found.type.joins)
      place.at("next").problem(`the next of a parallel must be a join, and "${next}" is not one`);
    else if (found && next === block?.end)
      place.at("next").problem(`the join "${next}" belongs to the parallel around it: each parallel needs its own`);
    // A faulty parallel may have branches that its plan does not.
    else if (found && !faulty) this.checkDeciding(plan, found);
  }

  /** The branches in a join's `on` are branches of its parallel. */
  private checkDeciding({ blocks }: StepPlan, { id, attributes }: StepPlan): void {
    const at = this.steps.get(id)?.place.at("on");
    const names = blocks.flatMap(({ name }) => name ?? []);
    for (const [index, name] of ((attributes.on as readonly string[] | undefined) ?? []).entries())
      if (!names.includes(name)) at?.at(index).problem(`there is no branch "${name}"${at.suggest(name, names)}`);
  }

  /** Only the parallel of a join, and the ends of its branches, lead to it. */
  private checkJoins(block: Block, { plan }: ReadStep): void {
    if (plan.type === UNKNOWN_TYPE) return;
    for (const { target, at } of this.allEdgesOf(plan.id))
      if (target !== block.end && !(plan.type.forks && target === plan.next)) this.checkNoJoin(target, at);
  }

  private checkNoJoin(target: string, at: Place): boolean {
    if (!this.steps.get(target)?.plan.type.joins) return true;
    at.problem(`the step "${target}" is a join: only its parallel and the ends of its branches may lead to it`);
    return false;
  }

  private catchEdgeOf(id: string): PlacedEdge | undefined {
    const step = this.steps.get(id);
    const edge = step?.plan.edges.find(({ catches }) => catches);
    return step && edge && { target: edge.target, at: below(step.place, edge.at) };
  }

  private allEdgesOf(id: string): PlacedEdge[] {
    return [...this.edgesOf(id), this.catchEdgeOf(id) ?? []].flat();
  }
}

function edgesOf({ plan, place }: ReadStep): PlacedEdge[] {
  const ways = plan.edges.filter(({ catches }) => !catches).map(({ target, at }) => ({ target, at: below(place, at) }));
  if (plan.next !== undefined) ways.push({ target: plan.next, at: place.at("next") });
  if (isStep(plan.onError)) ways.push({ target: plan.onError, at: place.at("on_error") });
  return ways;
}

const otherBlock = (target: string): string =>
  `the step "${target}" is in another block: an edge cannot lead into or out of a block`;

function below(place: Place, path: readonly (string | number)[]): Place {
  return path.reduce((where, key) => where.at(key), place);
}
