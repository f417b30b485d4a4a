// What a page gives to a graph. It is apart from the component and its view, because both need it.
import type { GraphChart } from "./chart.js";
import type { EdgeLook, Look } from "./look.js";

export interface GraphProps {
  readonly chart: GraphChart;
  /** By the id of a step. */
  readonly looks?: ReadonlyMap<string, Look>;
  /** By the id of an edge: see `edgeId`. */
  readonly edgeLooks?: ReadonlyMap<string, EdgeLook>;
  /** Steps in the order in which they are undone, after the step where the rollback began. Drawn as arrows from each to the next. */
  readonly undoWay?: readonly string[];
  readonly selected?: string | undefined;
  readonly onSelect?: (stepId: string) => void;
  /** Of the graph, for screen readers. */
  readonly label: string;
}
