// The published chart as a graph: every edge between two places. A place is the path of a state, as XState writes it.
import { stateKey } from "./labels.js";
import type { Chart, ChartEdges } from "./published.js";

export interface GraphEdge {
  readonly label: string;
  readonly target: string;
}

export class ChartGraph {
  private readonly edges = new Map<string, readonly GraphEdge[]>();
  private readonly containers = new Set<string>();

  constructor({ id, states: { active, ...others } }: Chart) {
    const shared = edgesOf(id, "", active.on);
    for (const [key, { on }] of Object.entries(active.states)) {
      const own = edgesOf(id, "active.", on);
      this.edges.set(`active.${key}`, [...own, ...shared]);
      for (const { label, target } of own) if (isReturn(label)) this.containers.add(target);
    }
    for (const [key, state] of Object.entries(others)) if (state) this.edges.set(key, edgesOf(id, "", state.on));
  }

  has(place: string): boolean {
    return this.edges.has(place);
  }

  from(place: string): readonly GraphEdge[] {
    return this.edges.get(place) ?? [];
  }

  /** The step holds a block of its own run, to which the steps inside come back. */
  isContainer(place: string): boolean {
    return this.containers.has(place);
  }
}

export const placeOf = (stepId: string): string => `active.${stateKey(stepId)}`;

/** From the end of a block, or with an error out of it, back to the step that holds it. */
export const isReturn = (label: string): boolean => /^(done|raise)\./.test(label);

function edgesOf(id: string, siblings: string, on: ChartEdges = {}): GraphEdge[] {
  return Object.entries(on).map(([label, { target }]) => ({
    label,
    target: target.startsWith(`#${id}.`) ? target.slice(id.length + 2) : `${siblings}${target}`,
  }));
}
