// The nodes of the view: a step as a button that says what it is and how it stands; the begin and the ends as plain marks.
import { Handle, type NodeProps, Position, useReactFlow } from "@xyflow/react";
import { type FocusEvent, memo } from "react";
import type { GraphNode } from "./chart.js";
import type { DrawnNode } from "./drawn.js";
import { MAX_LINE } from "./layout.js";
import { kindLine, type Look, MAX_LINES, unseen, wordOf } from "./look.js";

type Props = NodeProps<DrawnNode>;

export const StepNode = memo(({ id, data }: Props) => {
  const { node, look, isSelected } = data;
  const show = useShown(id);
  const tone = look?.tone ?? "idle";
  return (
    <>
      <Ends />
      <button
        type="button"
        className={`node ${tone} ${node.childOf === undefined ? "" : "of-child"} ${tone === "live" ? "live" : ""}`}
        aria-pressed={isSelected}
        title={tipOf(node, look)}
        data-step={id}
        data-tone={tone}
        onFocus={show}
      >
        <span className={node.name.length > MAX_LINE ? "node-name long" : "node-name"}>{node.name}</span>
        <span className="node-type">{kindLine(node, look)}</span>
        <Lines look={look} />
        {look?.badge !== undefined && <span className="node-badge">{look.badge}</span>}
        {node.compensation !== undefined && <span className="node-undo" aria-hidden="true" />}
        <span className="hidden">{unseen(node, look)}</span>
      </button>
    </>
  );
});

/** What a box may cut: the whole name, the id, and all that it says. */
function tipOf({ id, name, type, about }: GraphNode, look: Look | undefined): string {
  const said = look && [wordOf(look), type, ...(look.lines ?? [])].filter((line) => line !== "").join(" · ");
  return [name === id ? id : `${name} (${id})`, about, said].filter(Boolean).join("\n");
}

function Lines({ look }: { look: Look | undefined }) {
  return <span className="node-lines">{look?.lines?.slice(0, MAX_LINES).join(" · ")}</span>;
}

/** A node that is reached by keyboard comes into sight. */
function useShown(id: string) {
  const { fitView, getZoom } = useReactFlow();
  return ({ target }: FocusEvent<HTMLElement>) => {
    const frame = target.closest(".graph")?.getBoundingClientRect();
    const box = target.getBoundingClientRect();
    if (!frame || !target.matches(":focus-visible")) return;
    const isIn =
      box.left >= frame.left && box.right <= frame.right && box.top >= frame.top && box.bottom <= frame.bottom;
    if (!isIn) void fitView({ nodes: [{ id }], maxZoom: getZoom(), minZoom: getZoom(), duration: 0 });
  };
}

export const OuterNode = memo(({ data }: Props) => (
  <>
    <Ends />
    <span className={`outer ${data.node.name} ${data.look?.tone ?? ""}`}>{data.node.name}</span>
  </>
));

/** React Flow draws no edge to a node without them. */
const Ends = () => (
  <>
    <Handle type="target" position={Position.Top} isConnectable={false} />
    <Handle type="source" position={Position.Bottom} isConnectable={false} />
  </>
);
