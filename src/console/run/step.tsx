// The selected step at a moment: how it stands, what it wrote to the audit log, and what the definition says about it.
import { Link } from "wouter";
import { useAddress, useHref } from "../browser/address.js";
import type { Run } from "../browser/resources.js";
import { counted } from "../parts/plural.js";
import { duration, Json, When } from "../parts/values.js";
import type { Moment, StepStory } from "../story/moment.js";
import { type Standing, standingOf } from "../story/standing.js";
import type { Story } from "../story/story.js";
import { type Names, nameIn, rowWords } from "../story/words.js";
import type { Definition } from "./data.js";
import { StepIncidents } from "./family-incidents.js";
import type { Shown } from "./moment.js";

const MAX_ROWS = 12;

type Node = Definition["chart"]["nodes"][number] | undefined;

interface Props {
  readonly run: Run;
  readonly story: Story;
  readonly moment: Moment;
  readonly shown: Shown;
  readonly definition: Definition;
  readonly step: string;
}

export function StepPanel({ run, story, moment, shown, definition, step }: Props) {
  const [, change] = useAddress();
  const node = definition.chart.nodes.find(({ id }) => id === step);
  const name = node?.name ?? step;
  return (
    <aside className="card step beside-view" aria-label={`Step ${name}`}>
      <div className="step-head">
        <h2>{name}</h2>
        <button type="button" aria-label="Close the step" onClick={() => change({ step: undefined })}>
          ×
        </button>
      </div>
      <p className="quiet">{node ? `${step} · ${node.type}` : "The definition has no such step."}</p>
      <Told moment={moment} step={step} node={node} names={definition.names} />
      {shown.at === undefined && <StepIncidents run={run} names={definition.names} step={step} />}
      {node?.holds && <Children step={step} />}
      <Rows story={story} shown={shown} step={step} />
      <details>
        <summary>Definition</summary>
        <Json value={definition.documents.get(step)} label="Definition of the step" />
      </details>
    </aside>
  );
}

/** A branch or an item has rows of its own: the run says nothing of its steps. */
function Told({ moment, step, node, names }: { moment: Moment; step: string; node: Node; names: Names }) {
  const href = useHref();
  const told = moment.steps.get(step);
  if (told) return <Facts told={told} standing={standingOf(told, moment)} />;
  const container = node?.childOf;
  if (container === undefined) return <p>The run has not come to this step.</p>;
  return (
    <p>
      <Link href={href({ tab: "children", of: container })}>The child runs of {nameIn(names, container)}</Link> take
      this step.
    </p>
  );
}

function Facts({ told, standing: { word, more } }: { told: StepStory; standing: Standing }) {
  const { visits, attempts, error, enteredAt, endedAt } = told;
  return (
    <dl>
      <Fact name="state" value={more === undefined ? word : `${word} ${more}`} />
      <Fact name="entered" value={visits > 1 ? counted(visits, "time") : undefined} />
      <Fact name="attempts" value={attempts > 0 ? String(attempts) : undefined} />
      <Fact name="took" value={endedAt === undefined ? undefined : duration(endedAt - enteredAt)} />
      <Fact name="error" value={error && `${error.code}: ${error.message}`} />
    </dl>
  );
}

const Fact = ({ name, value }: { name: string; value: string | undefined }) =>
  value === undefined ? null : (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );

function Children({ step }: { step: string }) {
  const href = useHref();
  return (
    <p>
      <Link href={href({ tab: "children", of: step })}>Its children</Link>
    </p>
  );
}

function Rows({ story, shown, step }: { story: Story; shown: Shown; step: string }) {
  const rows = story.rows.slice(0, shown.count).filter(({ step_id }) => step_id === step);
  const last = rows.slice(-MAX_ROWS);
  return (
    <>
      {rows.length > last.length && (
        <p className="quiet">
          The last {MAX_ROWS} of {rows.length} events:
        </p>
      )}
      <ol className="step-rows">
        {last.map((row) => (
          <li key={row.seq}>
            <button type="button" className="bare" onClick={() => shown.show(row.seq)}>
              <span className="quiet">{row.seq}</span> {rowWords({ ...row, step_id: undefined })}
            </button>{" "}
            <span className="quiet">
              <When at={row.recorded_at} />
            </span>
          </li>
        ))}
      </ol>
    </>
  );
}
