// The graph of a version, with the definition of the selected step beside it. The selected step is in the address.
import { useAddress } from "../browser/address.js";
import { useInView } from "../browser/in-view.js";
import type { Workflow } from "../browser/resources.js";
import { Graph } from "../graph/index.js";
import { stepNames } from "../graph/names.js";
import { Answer } from "../parts/notes.js";
import { counted } from "../parts/plural.js";
import { Json } from "../parts/values.js";
import { useGraph } from "./reading.js";

export default function GraphTab({ workflow }: { workflow: Workflow }) {
  const [parameters, change] = useAddress();
  const selected = parameters.get("step") ?? undefined;
  return (
    <div className="beside">
      <Answer of={useGraph(workflow)}>
        {(chart) => (
          <Graph
            chart={chart}
            selected={selected}
            onSelect={(step) => change({ step })}
            label={`Graph of ${workflow.name}, version ${workflow.version}`}
          />
        )}
      </Answer>
      <Selected workflow={workflow} id={selected} />
    </div>
  );
}

function Selected({ workflow, id }: { workflow: Workflow; id: string | undefined }) {
  const shown = useInView<HTMLElement>(id);
  const step = id === undefined ? undefined : workflow.steps.find((step) => idOf(step) === id);
  if (id === undefined || step === undefined) return <WholeDocument workflow={workflow} />;
  const name = stepNames([step]).get(id);
  return (
    <section ref={shown} aria-labelledby="step" className="beside-view">
      <h2 id="step">
        Step {name} {name !== id && <code className="quiet">{id}</code>}
      </h2>
      <Json value={step} label={`Definition of ${id}`} />
    </section>
  );
}

const idOf = (step: object) => (step as { readonly id?: unknown }).id;

function WholeDocument({ workflow: { steps, ...rest } }: { workflow: Workflow }) {
  return (
    <section aria-labelledby="document">
      <h2 id="document">Definition</h2>
      <p className="quiet">Select a step to see its definition: the workflow has {counted(steps.length, "step")}.</p>
      <Json value={rest} label="The definition without its steps" />
    </section>
  );
}
