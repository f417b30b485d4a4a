// What a page gives to a graph. It is apart from the component and its view, because both need it.
import type { GraphChart } from "./chart.js";
import type { EdgeLook, Look } from "./look.js";

export interface GraphProps {
  readonly chart: GraphChart;
  /** The look of a step, by its id. */
  readonly looks?: ReadonlyMap<string, Look>;
  /** The look of an edge, by its id: see `edgeId`. */
  readonly edgeLooks?: ReadonlyMap<string, EdgeLook>;
  /** Steps in the order in which they are undone, after the step where the rollback began. Drawn as arrows from each to the next. */
  readonly undoWay?: readonly string[];
  readonly selected?: string | undefined;
  readonly onSelect?: (stepId: string) => void;
  /** The name of the graph, for screen readers. */
  readonly label: string;
}
