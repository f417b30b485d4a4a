// The view of a graph on React Flow. It is loaded lazily, by index.tsx alone.
import { Controls, MiniMap, ReactFlow, ReactFlowProvider, useReactFlow, useStore, useStoreApi } from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import "./graph.css";
import { useEffect, useMemo, useRef, useState } from "react";
import { type Drawn, drawnEdges, drawnNodes } from "./drawn.js";
import { UndoEdge, WayEdge } from "./edges.js";
import { firstSight, focusOf, isInView, isWhole } from "./first-sight.js";
import { type Layout, layoutOf } from "./layout.js";
import { OuterNode, StepNode } from "./nodes.js";
import type { GraphProps } from "./props.js";

const NODE_TYPES = { step: StepNode, begin: OuterNode, end: OuterNode };
const EDGE_TYPES = { way: WayEdge, undo: UndoEdge };
const MARGIN = 60;
const FIT = { padding: 0.06, maxZoom: 1.1, duration: 0 };
/** Above, only what is in sight is drawn. */
const MANY = 300;
/** The arrows of an undo are beside the boxes. */
const UNDO_ROOM = 60;

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
  const layout = useMemo(() => layoutOf(chart), [chart]);
  const drawn = useDrawn(props, layout);
  const hasMap = useHasMap(layout);
  const [isMoved, setMoved] = useState(false);
  return (
    <ReactFlow
      {...drawn}
      nodeTypes={NODE_TYPES}
      edgeTypes={EDGE_TYPES}
      onNodeClick={(_, { id, type }) => type === "step" && onSelect?.(id)}
      // Without an event, the view was moved by the page.
      onMoveStart={(event) => event && setMoved(true)}
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
      proOptions={{ hideAttribution: true }}
    >
      <Controls
        showInteractive={false}
        fitViewOptions={FIT}
        onZoomIn={() => setMoved(true)}
        onZoomOut={() => setMoved(true)}
        onFitView={() => setMoved(true)}
      />
      {hasMap && <MiniMap pannable ariaLabel="The graph in small" nodeClassName={(node) => `small ${node.type}`} />}
      <Sight {...props} layout={layout} isMoved={isMoved} />
    </ReactFlow>
  );
}

function useDrawn({ chart, looks, edgeLooks, undoWay, selected }: GraphProps, layout: Layout): Drawn {
  const nodes = useMemo(() => drawnNodes(chart, layout, looks, selected), [chart, layout, looks, selected]);
  const edges = useMemo(() => drawnEdges(chart, layout, edgeLooks, undoWay), [chart, layout, edgeLooks, undoWay]);
  return { nodes, edges };
}

/** The minimap covers what it shows, unless there is room; and a graph that is seen as a whole needs none. */
const useHasMap = (layout: Layout): boolean =>
  useStore(({ width, height }) => width > 900 && !isWhole(layout, { width, height }));

/** The height of a view whose top is low on the screen: a few steps. */
const LEAST_SEEN = 380;

interface SightProps extends GraphProps {
  readonly layout: Layout;
  readonly isMoved: boolean;
}

/** Follows what matters, until the person moves the view; a step that is selected stays in sight in any case. */
function Sight({ chart, looks, undoWay, selected, layout, isMoved }: SightProps) {
  const { setViewport, getViewport, setCenter } = useReactFlow();
  const flow = useStoreApi();
  const [width, height] = [useStore((store) => store.width), useStore((store) => store.height)];
  const focus = selected ?? focusOf(chart, looks);
  const more = undoWay && undoWay.length > 1 ? UNDO_ROOM : 0;
  const moved = useRef(isMoved);
  moved.current = isMoved;
  useEffect(() => {
    if (width === 0 || moved.current) return;
    const top = flow.getState().domNode?.getBoundingClientRect().top ?? 0;
    const seen = Math.min(height, Math.max(LEAST_SEEN, window.innerHeight - top));
    void setViewport(firstSight(layout, { width, height: seen }, focus, more));
  }, [flow, setViewport, layout, width, height, focus, more]);
  useEffect(() => {
    const box = selected === undefined ? undefined : layout.boxes.get(selected);
    const { zoom } = getViewport();
    if (!box || width === 0 || !moved.current || isInView(box, getViewport(), { width, height })) return;
    void setCenter(box.x + box.width / 2, box.y + box.height / 2, { zoom, duration: 0 });
  }, [getViewport, setCenter, layout, width, height, selected]);
  return null;
}
