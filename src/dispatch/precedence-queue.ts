// The order of the items of one action and tenant: levels of priority take turns (machines/state/precedence.ts), the flows of a level by their weights, and in a
// flow the first comes first. It is made when the first item comes that is not of the usual kind: without one, a queue has no more than a map.

import { LEVELS, levelOfTurn, nextTurn, USUAL_PRIORITY } from "../../machines/index.js";
import type { WaitingLevel } from "./workers.js";

/** Items that share a turn: those of a fairness key, of another node, or all that have neither. */
export interface FlowName {
  /** From 1, the highest, to 5. */
  readonly level: number;
  /** Unique in the level. */
  readonly id: string;
  /** The items are this node's own. */
  readonly own: boolean;
}

interface Flow<T> extends FlowName {
  readonly items: Map<string, T>;
  weight: number;
  /** When its turn began, in the time of its level. It has the turn at `start` + 1 / `weight`. */
  start: number;
  /** Of two flows whose turn comes at the same time, the one that got it earlier is first. */
  since: number;
  /** Its place in the heap. */
  at: number;
}

const turnOf = ({ start, weight }: Flow<unknown>): number => start + 1 / weight;

function isBefore(one: Flow<unknown>, other: Flow<unknown>): boolean {
  const [first, second] = [turnOf(one), turnOf(other)];
  return first === second ? one.since < other.since : first < second;
}

/** Beyond it the times of a level begin anew: doubles stay exact to a thousandth of the smallest step. */
const LATEST = 1e9;

/**
 * Self-clocked fair queueing (Golestani, 1994). The time of a level is the turn of the flow that was served last, so a flow that leaves has used up its
 * turns and needs no memory: it comes back at the time of then, and gets nothing for the time it was away.
 */
class Level<T> {
  private readonly flows = new Map<string, Flow<T>>();
  /** A heap: the flow with the next turn is the first. */
  private readonly heap: Flow<T>[] = [];
  private time = 0;
  private given = 0;

  get isEmpty(): boolean {
    return this.heap.length === 0;
  }

  get first(): Flow<T> | undefined {
    return this.heap[0];
  }

  get ownWeight(): number {
    let sum = 0;
    for (const { own, weight } of this.heap) if (own) sum += weight;
    return sum;
  }

  /** The flow with the next turn, then the others. */
  all(): readonly Flow<T>[] {
    return this.heap;
  }

  /** `items`: those that the flow has already, if it is new. */
  join(name: FlowName, weight: number, items?: Map<string, T>): Flow<T> {
    const known = this.flows.get(name.id);
    if (known) {
      if (known.weight !== weight) this.reweigh(known, weight);
      return known;
    }
    const turn = { start: this.time, since: ++this.given, at: this.heap.length };
    const flow: Flow<T> = { ...name, items: items ?? new Map(), weight, ...turn };
    this.flows.set(name.id, flow);
    this.heap.push(flow);
    this.rise(flow);
    return flow;
  }

  /** An item of it was served. Time goes on with the flow whose turn it was, and with no other. */
  served(flow: Flow<T>): void {
    const turn = turnOf(flow);
    // It may have left while it was served.
    if (this.flows.get(flow.id) !== flow) return this.isEmpty ? undefined : this.goOn(turn);
    if (this.first === flow) this.goOn(turn);
    if (flow.items.size === 0) return this.leave(flow);
    flow.start = turn;
    flow.since = ++this.given;
    this.sink(flow);
    if (this.time > LATEST) this.beginAnew();
  }

  leave(flow: Flow<T>): void {
    this.flows.delete(flow.id);
    const last = this.heap.pop();
    if (last && last !== flow) {
      this.put(last, flow.at);
      this.rise(last);
      this.sink(last);
    }
    if (this.isEmpty) this.time = 0;
  }

  private goOn(turn: number): void {
    this.time = Math.max(this.time, turn);
  }

  private reweigh(flow: Flow<T>, weight: number): void {
    flow.weight = weight;
    this.rise(flow);
    this.sink(flow);
  }

  private beginAnew(): void {
    for (const flow of this.heap) flow.start -= this.time;
    this.time = 0;
  }

  private put(flow: Flow<T>, at: number): void {
    this.heap[at] = flow;
    flow.at = at;
  }

  private rise(flow: Flow<T>): void {
    let { at } = flow;
    for (;;) {
      const parent = this.heap[(at - 1) >> 1];
      if (at === 0 || !parent || !isBefore(flow, parent)) break;
      const above = parent.at;
      this.put(parent, at);
      at = above;
    }
    this.put(flow, at);
  }

  private sink(flow: Flow<T>): void {
    let { at } = flow;
    for (;;) {
      const [left, right] = [this.heap[2 * at + 1], this.heap[2 * at + 2]];
      const child = left && right && isBefore(right, left) ? right : left;
      if (!child || !isBefore(child, flow)) break;
      const below = child.at;
      this.put(child, at);
      at = below;
    }
    this.put(flow, at);
  }
}

export class PrecedenceQueue<T> {
  private readonly levels: readonly Level<T>[] = Array.from({ length: LEVELS }, () => new Level<T>());
  private readonly flowOf = new Map<string, Flow<T>>();
  /** The turn of a level that was taken last. */
  private last = 0;
  private foreign = 0;

  /** `usual`: the items of the usual kind that wait already. They stay in that map. */
  constructor(usual: Map<string, T>) {
    if (usual.size === 0) return;
    const flow = this.level(USUAL_PRIORITY).join({ level: USUAL_PRIORITY, id: "", own: true }, 1, usual);
    for (const id of usual.keys()) this.flowOf.set(id, flow);
  }

  get size(): number {
    return this.flowOf.size;
  }

  get own(): number {
    return this.size - this.foreign;
  }

  /** False: it was there, and keeps its place. */
  add(name: FlowName, weight: number, id: string, item: T): boolean {
    const known = this.flowOf.get(id);
    if (known) {
      known.items.set(id, item);
      return false;
    }
    const flow = this.level(name.level).join(name, weight);
    flow.items.set(id, item);
    this.flowOf.set(id, flow);
    if (!flow.own) this.foreign++;
    return true;
  }

  remove(id: string): boolean {
    const flow = this.flowOf.get(id);
    if (!flow) return false;
    this.forget(flow, id);
    if (flow.items.size === 0) this.level(flow.level).leave(flow);
    return true;
  }

  /** Gives the first item to `tryServe`. `refused`: or there is none. `removed`: it was served, and `tryServe` has removed it. */
  serve(tryServe: (item: T) => boolean): "served" | "removed" | "refused" {
    if (this.size === 0) return "refused";
    const turn = this.nextTurn();
    const flow = this.level(levelOfTurn(turn)).first;
    const head = flow?.items.entries().next();
    if (!flow || !head || head.done || !tryServe(head.value[1])) return "refused";
    const [id] = head.value;
    const isRemoved = this.flowOf.get(id) !== flow;
    this.take(flow, id, turn);
    return isRemoved ? "removed" : "served";
  }

  /** Takes the first of this node's items that fits. Behind the one whose turn it is, a few more are looked at, level by level. */
  takeFirst(fits: (item: T) => boolean, depth: number): T | undefined {
    if (this.own === 0) return undefined;
    const turn = this.nextTurn();
    const level = levelOfTurn(turn);
    const others = this.levels.map((_, nth) => nth + 1).filter((other) => other !== level);
    let left = depth;
    for (const number of [level, ...others]) {
      for (const flow of this.level(number).all()) {
        if (!flow.own) continue;
        for (const [id, item] of flow.items) {
          if (left-- <= 0) return undefined;
          if (!fits(item)) continue;
          this.take(flow, id, number === level ? turn : this.last);
          return item;
        }
      }
    }
    return undefined;
  }

  /** This node's own items, level by level. */
  ownLevels(): WaitingLevel[] {
    const counts: WaitingLevel[] = [];
    for (const [nth, level] of this.levels.entries()) {
      let calls = 0;
      for (const { own, items } of level.all()) if (own) calls += items.size;
      if (calls > 0) counts.push({ priority: nth + 1, calls, weight: level.ownWeight });
    }
    return counts;
  }

  private nextTurn(): number {
    return nextTurn(this.last, (level) => !this.level(level).isEmpty);
  }

  private take(flow: Flow<T>, id: string, turn: number): void {
    this.last = turn;
    this.forget(flow, id);
    this.level(flow.level).served(flow);
  }

  private forget(flow: Flow<T>, id: string): void {
    if (!flow.items.delete(id)) return;
    this.flowOf.delete(id);
    if (!flow.own) this.foreign--;
  }

  private level(number: number): Level<T> {
    return this.levels[number - 1] as Level<T>;
  }
}
