// The incidents of a run's branches, items and sub-sagas, on the page of the run that waits for them: each in red, with the way to it and
// what may be done about it. A run's own incident is in its head.
import { Link } from "wouter";
import { useIncidentList } from "../browser/incidents.js";
import type { Run } from "../browser/resources.js";
import { childName } from "../parts/belongs.js";
import { counted } from "../parts/plural.js";
import type { Names } from "../story/words.js";
import { Acts } from "./acts.js";
import { type Possible, RUN_KEY, useCounts, useExplanation } from "./data.js";
import { FailureWords } from "./failure.js";

const SHOWN = 3;
const ACTS: readonly Possible[] = ["retry_step", "skip_step", "fail", "compensations/retry", "compensations/skip"];

/** Below a root, those of its whole family; below another run, those of its children. */
const incidentsBelow = ({ id, parent_run_id }: Run): Record<string, string> =>
  parent_run_id === undefined ? { incident_in: id } : { parent_run_id: id, incident: "true" };

export function useIncidentsBelow(run: Run) {
  const hasChildren = (useCounts(run).data?.items.length ?? 0) > 0;
  const isAsked = run.terminal_at === undefined && hasChildren;
  const query = { ...incidentsBelow(run), sort: "started_at", limit: SHOWN + 1 };
  const { data } = useIncidentList([RUN_KEY, run.id], query, isAsked);
  if (!isAsked || data === undefined) return { incidents: [], total: 0 };
  // The root itself is one of its family.
  const incidents = data.items.filter(({ id }) => id !== run.id);
  return { incidents, total: data.total - (data.items.length - incidents.length) };
}

interface BelowProps {
  readonly run: Run;
  readonly names: Names;
  readonly incidents: readonly Run[];
  readonly total: number;
}

export function FamilyIncidents({ run, names, incidents, total }: BelowProps) {
  if (incidents.length === 0) return null;
  return (
    <section className="refused" aria-label="Incidents of its branches, items and sub-sagas">
      {incidents.slice(0, SHOWN).map((child) => (
        <Incident
          key={child.id}
          run={child}
          // A sub-saga has steps of its own.
          names={child.workflow_id === run.workflow_id ? names : undefined}
        />
      ))}
      {total > SHOWN && (
        <p>
          <Link href={`/runs?${new URLSearchParams(incidentsBelow(run))}`}>All {counted(total, "incident")}</Link>, with
          a way to act on all of them
        </p>
      )}
    </section>
  );
}

function Incident({ run, names }: { run: Run; names: Names }) {
  const can = useExplanation(run).data?.can ?? [];
  return (
    <div className="family-incident">
      <p>
        <Link href={`/runs/${run.id}`}>{childName(run)}</Link>{" "}
        {run.incident ? (
          <FailureWords failure={run.incident} attempts={run.incident.attempts} names={names} />
        ) : (
          "stands at an incident"
        )}
      </p>
      <Acts run={run} can={can} only={ACTS} />
    </div>
  );
}
