// Where a run of the list stands, or why it ended as it did, in one cell. The page of the run says the whole of it.
import { Link } from "wouter";
import type { DefinitionNames } from "../browser/definitions.js";
import type { Run } from "../browser/resources.js";
import { childName } from "../parts/belongs.js";
import { counted } from "../parts/plural.js";
import { atStep } from "../story/words.js";

interface Failure {
  readonly code: string;
  readonly message: string;
  readonly step_id?: string;
  readonly phase?: string;
}

interface WhyProps {
  readonly run: Run;
  readonly names: DefinitionNames;
  /** Of the branches, items and sub-sagas of the run. */
  readonly incidents: readonly Run[];
}

export function Why({ run, names, incidents }: WhyProps) {
  const { incident, error, current_step: step, retry, queued_action: queued } = run;
  const failure = incident ?? error;
  const nameOf = (id: string) => names.step(run, id);
  return (
    <>
      {failure ? <Failed {...{ failure, nameOf }} /> : step !== undefined && <span title={step}>{nameOf(step)}</span>}
      {retry?.error && <p className="quiet">failed with {retry.error.code}, is tried again</p>}
      {queued && <p className="quiet">{queuedWords(queued)}</p>}
      {incidents.length > 0 && <Below {...{ incidents, nameOf }} />}
    </>
  );
}

type NameOf = (step: string) => string;

const Failed = ({ failure: { code, message, step_id: step, phase }, nameOf }: { failure: Failure; nameOf: NameOf }) => (
  <span className="fault" title={message}>
    <b>{code}</b>
    {step !== undefined && (
      <>
        {" "}
        <span title={step}>{atStep(nameOf(step), phase)}</span>
      </>
    )}
  </span>
);

const queuedWords = ({ action, reason }: NonNullable<Run["queued_action"]>) =>
  reason === "no_worker" ? `no worker serves ${action}` : `all workers of ${action} are busy`;

/** The first one, with the way to it; and to all of them. */
function Below({ incidents, nameOf }: { incidents: readonly Run[]; nameOf: NameOf }) {
  const [first] = incidents;
  const root = first?.root_run_id;
  if (!first || root === undefined) return null;
  return (
    <p className="fault">
      <Link href={`/runs/${first.id}`} title={childName(first)}>
        {childName(first, nameOf)}
      </Link>{" "}
      stands at an incident: <b>{first.incident?.code}</b>
      {incidents.length > 1 && (
        <>
          {", "}
          <Link href={`/runs?incident_in=${root}`}>{counted(incidents.length - 1, "more incident")}</Link>
        </>
      )}
    </p>
  );
}
