// The edges of the view: a line, and its label. Their ways are computed elsewhere.
import { BaseEdge, EdgeLabelRenderer, type EdgeProps } from "@xyflow/react";
import type { DrawnEdge } from "./drawn.js";

type Props = EdgeProps<DrawnEdge>;

export function WayEdge({ id, data, markerEnd }: Props) {
  if (!data) return null;
  return (
    <>
      <BaseEdge id={id} path={data.path} markerEnd={markerEnd ?? ""} />
      {data.label !== "" && <Label className="edge-label" data={data} />}
    </>
  );
}

export function UndoEdge({ id, data, markerEnd }: Props) {
  if (!data) return null;
  return (
    <>
      <BaseEdge id={id} path={data.path} markerEnd={markerEnd ?? ""} />
      <Label className="edge-label undo-order" data={data} />
    </>
  );
}

function Label({ className, data }: { className: string; data: NonNullable<Props["data"]> }) {
  const { label, place, about } = data;
  return (
    <EdgeLabelRenderer>
      <span
        className={className}
        title={about}
        style={{ transform: `translate(-50%, -50%) translate(${place.x}px, ${place.y}px)` }}
      >
        {label}
      </span>
    </EdgeLabelRenderer>
  );
}
