// The published chart as a graph: the edges between its places. A place is the path of a state, as XState writes it.
import { stateKey } from "./labels.js";
import type { Chart, ChartEdges, ChartState } from "./published.js";

export interface StateEdge {
  readonly label: string;
  readonly target: string;
}

const INSIDE = "active.";

/** The labels of edges into a block that the run itself executes (out-edges.ts). The steps inside come back to the step that has such an edge. */
const INTO_BLOCKS = ["try", "while"];

/** It is written place by place, as runs come there: a chart may have ten thousand edges. */
export class ChartGraph {
  private readonly edges = new Map<string, readonly StateEdge[]>();

  constructor(private readonly chart: Chart) {}

  has(path: string): boolean {
    return this.stateAt(path) !== undefined;
  }

  from(path: string): readonly StateEdge[] {
    const edges = this.edges.get(path) ?? this.edgesFrom(path);
    this.edges.set(path, edges);
    return edges;
  }

  isContainer(path: string): boolean {
    const { on = {} } = this.stateAt(path) ?? {};
    return INTO_BLOCKS.some((label) => Object.hasOwn(on, label));
  }

  private edgesFrom(path: string): readonly StateEdge[] {
    const own = this.stateAt(path)?.on;
    if (!path.startsWith(INSIDE)) return this.asEdges(own, "");
    return [...this.asEdges(own, INSIDE), ...this.asEdges(this.chart.states.active.on, "")];
  }

  private stateAt(path: string): ChartState | undefined {
    const { active, ...others } = this.chart.states;
    const inside = path.startsWith(INSIDE);
    const states: Readonly<Record<string, ChartState | undefined>> = inside ? active.states : others;
    const key = inside ? path.slice(INSIDE.length) : path;
    return Object.hasOwn(states, key) ? states[key] : undefined;
  }

  private asEdges(on: ChartEdges = {}, siblings: string): readonly StateEdge[] {
    const root = `#${this.chart.id}.`;
    return Object.entries(on).map(([label, { target }]) => ({
      label,
      target: target.startsWith(root) ? target.slice(root.length) : `${siblings}${target}`,
    }));
  }
}

export const statePathOf = (stepId: string): string => `${INSIDE}${stateKey(stepId)}`;

/** Whether an edge leads back to the step that holds a block: from its end, or with an error out of it. */
export const isReturn = (label: string): boolean => /^(done|raise)\./.test(label);
