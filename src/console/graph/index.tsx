// A graph on a page: what it is given, and its view, which is loaded when it is first shown. React Flow and dagre are in that part only.
import { lazy, Suspense } from "react";
import { Loading } from "../parts/notes.js";
import type { GraphProps } from "./props.js";

export type { StepDocument } from "./blocks.js";
export { edgeId, type GraphChart, graphOf } from "./chart.js";
export type { EdgeLook, Look, Tone } from "./look.js";
export { evaluated, named, namesOf, type StepNames } from "./names.js";
export type { GraphProps } from "./props.js";

const View = lazy(() => import("./view.js"));

export function Graph(props: GraphProps) {
  return (
    <section className="graph" aria-label={props.label}>
      <Suspense fallback={<Loading />}>
        <View {...props} />
      </Suspense>
    </section>
  );
}
