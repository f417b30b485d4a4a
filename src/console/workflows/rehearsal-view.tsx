// How a rehearsal ended: in words, on the graph, and as a list of its events. Before the first one it is the graph alone.
import { useMemo, useState } from "react";
import { useInView } from "../browser/in-view.js";
import type { Workflow } from "../browser/resources.js";
import { Graph, type GraphChart } from "../graph/index.js";
import type { StepNames } from "../graph/names.js";
import { stepNames } from "../graph/names.js";
import { Answer } from "../parts/notes.js";
import { Scroll } from "../parts/scroll.js";
import { duration, Json, State } from "../parts/values.js";
import { useGraph } from "./reading.js";
import { drawn, type Happened, type Rehearsed } from "./rehearsal.js";

interface Props {
  readonly workflow: Workflow;
  readonly rehearsed: Rehearsed | undefined;
}

export function RehearsalView({ workflow, rehearsed }: Props) {
  const [step, setStep] = useState<string>();
  const end = useInView<HTMLDivElement>(rehearsed);
  const names = useMemo(() => stepNames(workflow.steps), [workflow.steps]);
  return (
    <section aria-label="The rehearsal">
      <div ref={end} role="status">
        {rehearsed && <End of={rehearsed} names={names} />}
      </div>
      <Answer of={useGraph(workflow)}>
        {(chart) => <Drawn {...{ workflow, chart, rehearsed }} selected={step} onSelect={setStep} />}
      </Answer>
      {rehearsed && <Events of={rehearsed.events} {...{ names, step }} onAll={() => setStep(undefined)} />}
    </section>
  );
}

interface DrawnProps extends Props {
  readonly chart: GraphChart;
  readonly selected: string | undefined;
  readonly onSelect: (step: string) => void;
}

function Drawn({ workflow, chart, rehearsed, selected, onSelect }: DrawnProps) {
  const drawing = useMemo(() => rehearsed && drawn(rehearsed, chart), [rehearsed, chart]);
  const label = `Graph of ${workflow.name}${rehearsed ? ", with the rehearsal" : ""}`;
  return <Graph chart={chart} {...drawing} {...{ selected, onSelect, label }} />;
}

function End({ of, names }: { of: Rehearsed; names: StepNames }) {
  const { state, error, left, output, requires_manual_review: review } = of;
  return (
    <>
      <p>
        The rehearsal ends as <State state={state} />
        {error && (
          <>
            , with the error <code>{error.code}</code> at {nameIn(names, error.step_id) ?? "the run"}: {error.message}
          </>
        )}
        {left !== undefined && `. It stopped before the end: ${left}`}
        {review && ". A person would have to look at it"}
      </p>
      {output !== undefined && <Json value={output} label="Output of the rehearsal" />}
    </>
  );
}

/** A rehearsal may have ten thousand. */
const MAX_SHOWN = 200;

interface EventsProps {
  readonly of: readonly Happened[];
  readonly names: StepNames;
  readonly step: string | undefined;
  readonly onAll: () => void;
}

function Events({ of, names, step, onAll }: EventsProps) {
  const all = step === undefined ? of : of.filter(({ step_id: id }) => id === step);
  const shown = useInView<HTMLElement>(step);
  return (
    <section ref={shown} aria-labelledby="events">
      <h2 id="events">Events{step !== undefined && ` of ${nameIn(names, step)}`}</h2>
      {step !== undefined && (
        <button type="button" onClick={onAll}>
          Show all {of.length}
        </button>
      )}
      <Scroll label="Events">
        <table>
          <thead>
            <tr>
              <th scope="col">No.</th>
              <th scope="col">Event</th>
              <th scope="col">Step</th>
              <th scope="col">Attempt</th>
              <th scope="col">After</th>
              <th scope="col">What it says</th>
            </tr>
          </thead>
          <tbody>
            {all.slice(0, MAX_SHOWN).map((event) => (
              <EventRow key={`${event.run_id} ${event.seq}`} event={event} names={names} since={of[0]?.recorded_at} />
            ))}
          </tbody>
        </table>
      </Scroll>
      {all.length > MAX_SHOWN && (
        <p className="quiet">{all.length - MAX_SHOWN} more. Select a step to see its events alone.</p>
      )}
    </section>
  );
}

interface RowProps {
  readonly event: Happened;
  readonly names: StepNames;
  readonly since: string | undefined;
}

/** A sub-saga has steps of its own. */
const nameIn = (names: StepNames, id: string | undefined) => (id === undefined ? undefined : (names.get(id) ?? id));

/** With spaces, where a line may end. */
const inOneLine = (value: unknown): string => JSON.stringify(value, null, 1).replace(/\n\s*/g, " ");

/** The clock of a rehearsal is virtual: what counts is the time since its beginning. */
function EventRow({ event, names, since = event.recorded_at }: RowProps) {
  const { seq, event_type, step_id, attempt, recorded_at, metadata } = event;
  return (
    <tr>
      <td>{seq}</td>
      <td>
        {event_type} {metadata?.phase === "compensation" && <span className="state compensating">undo</span>}
      </td>
      <td>{nameIn(names, step_id)}</td>
      <td>{attempt > 0 && attempt}</td>
      <td>{duration(Date.parse(recorded_at) - Date.parse(since))}</td>
      <td className="said">{metadata && <code>{inOneLine(metadata)}</code>}</td>
    </tr>
  );
}
