// The view of a graph on React Flow. It is loaded lazily, by index.tsx alone.
import { Controls, MiniMap, ReactFlow, ReactFlowProvider, useReactFlow, useStore } from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import "./graph.css";
import { useEffect, useMemo } from "react";
import { type Drawn, drawnEdges, drawnNodes } from "./drawn.js";
import { UndoEdge, WayEdge } from "./edges.js";
import { layoutOf } from "./layout.js";
import { OuterNode, StepNode } from "./nodes.js";
import type { GraphProps } from "./props.js";

const NODE_TYPES = { step: StepNode, begin: OuterNode, end: OuterNode };
const EDGE_TYPES = { way: WayEdge, undo: UndoEdge };
const MARGIN = 60;
const FIT = { padding: 0.06, maxZoom: 1.1, duration: 0 };
/** Above, only what is in sight is drawn. */
const MANY = 300;
/** Below, the whole graph is seen well enough without a minimap. */
const FEW = 40;

export default function View(props: GraphProps) {
  const { height } = useMemo(() => layoutOf(props.chart), [props.chart]);
  return (
    <div className="graph-frame" style={{ height: `${Math.round(height) + MARGIN}px` }}>
      <ReactFlowProvider>
        <Flow {...props} />
      </ReactFlowProvider>
    </div>
  );
}

function Flow(props: GraphProps) {
  const { chart, onSelect } = props;
  const drawn = useDrawn(props);
  const isWide = useIsWide();
  return (
    <ReactFlow
      {...drawn}
      nodeTypes={NODE_TYPES}
      edgeTypes={EDGE_TYPES}
      onNodeClick={(_, { id, type }) => type === "step" && onSelect?.(id)}
      nodesDraggable={false}
      nodesConnectable={false}
      nodesFocusable={false}
      edgesFocusable={false}
      elementsSelectable={false}
      onlyRenderVisibleElements={chart.nodes.length > MANY}
      zoomOnScroll={false}
      preventScrolling={false}
      minZoom={0.05}
      maxZoom={2}
      fitView
      fitViewOptions={FIT}
      proOptions={{ hideAttribution: true }}
    >
      <Controls showInteractive={false} fitViewOptions={FIT} />
      {isWide && chart.nodes.length > FEW && (
        <MiniMap pannable ariaLabel="The graph in small" nodeClassName={(node) => `small ${node.type}`} />
      )}
      <Fitting chart={chart.key} />
    </ReactFlow>
  );
}

function useDrawn({ chart, looks, edgeLooks, undoWay, selected }: GraphProps): Drawn {
  const layout = useMemo(() => layoutOf(chart), [chart]);
  const nodes = useMemo(() => drawnNodes(chart, layout, looks, selected), [chart, layout, looks, selected]);
  const edges = useMemo(() => drawnEdges(chart, layout, edgeLooks, undoWay), [chart, layout, edgeLooks, undoWay]);
  return { nodes, edges };
}

/** The minimap covers what it shows, unless there is room. */
const useIsWide = (): boolean => useStore(({ width }) => width > 900);

/** The whole graph, whenever the room for it changes. */
function Fitting({ chart }: { chart: string }) {
  const { fitView } = useReactFlow();
  const size = useStore(({ width, height }) => `${width}×${height}`);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the chart and the room are what it fits to
  useEffect(() => {
    void fitView(FIT);
  }, [fitView, size, chart]);
  return null;
}
