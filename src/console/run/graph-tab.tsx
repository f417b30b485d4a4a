// The graph of a run at a moment, and the step that is selected beside it.
import { useMemo } from "react";
import { useAddress } from "../browser/address.js";
import { Graph } from "../graph/index.js";
import { Loading } from "../parts/notes.js";
import { looksOf } from "../story/looks.js";
import { type Definition, useCounts } from "./data.js";
import { useIncidentsBelow, usePlaces } from "./family-incidents.js";
import type { TabProps } from "./moment.js";
import { StepPanel } from "./step.js";

export function GraphTab(props: TabProps) {
  const { definition } = props;
  if (!definition) return <Loading />;
  return <RunGraph {...props} definition={definition} />;
}

function RunGraph({ run, read, shown, definition }: TabProps & { definition: Definition }) {
  const [parameters, change] = useAddress();
  const selected = parameters.get("step") ?? undefined;
  const { story, live } = read;
  const isNow = shown.count >= story.rows.length;
  const counts = useCounts(run).data?.items;
  const places = usePlaces(run, useIncidentsBelow(run).incidents);
  // The story grows in place: its length is what changes.
  // biome-ignore lint/correctness/useExhaustiveDependencies: see above
  const moment = useMemo(() => story.after(shown.count), [story, shown.count, live.count]);
  const looks = useMemo(
    () =>
      looksOf(definition.chart, moment, isNow ? { counts: counts ?? [], incidents: [...places.values()] } : undefined),
    [definition.chart, moment, counts, places, isNow],
  );
  return (
    <div className={selected === undefined ? "graph-tab" : "graph-tab with-step"}>
      <div>
        <Graph
          chart={definition.chart}
          {...looks}
          selected={selected}
          onSelect={(step) => change({ step: step === selected ? undefined : step })}
          label={`The graph of ${definition.workflow.name}`}
        />
        <Legend hasChildren={(counts?.length ?? 0) > 0} isNow={isNow} undos={looks.undoWay.length > 1} />
      </div>
      {selected !== undefined && (
        <StepPanel run={run} story={story} moment={moment} shown={shown} definition={definition} step={selected} />
      )}
    </div>
  );
}

function Legend({ hasChildren, isNow, undos }: { hasChildren: boolean; isNow: boolean; undos: boolean }) {
  return (
    <p className="quiet legend">
      {undos && "The dashed arrows are the undo, from where the rollback began, in its order. "}
      {hasChildren && !isNow && "Branches and items are counted as they are now, so an earlier moment shows none. "}
      Select a step for its details.
    </p>
  );
}
