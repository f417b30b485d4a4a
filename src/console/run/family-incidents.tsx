// The incidents of a run's branches, items and sub-sagas, on the page of the run that waits for them: each in red, with the way to it and
// what may be done about it. A run's own incident is in its head.
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { Link } from "wouter";
import { useMay } from "../browser/access.js";
import { get, part } from "../browser/client.js";
import { useIncidentList } from "../browser/incidents.js";
import type { Run } from "../browser/resources.js";
import { childName } from "../parts/belongs.js";
import { counted } from "../parts/plural.js";
import { type Member, type Place, placeOf, stepsOf } from "../story/below.js";
import { type Names, nameIn } from "../story/words.js";
import { Acts } from "./acts.js";
import { type Possible, RUN_KEY, useCounts, useDefinition, useExplanation, useNamed } from "./data.js";
import { FailureWords } from "./failure.js";

const SHOWN = 3;
/** Their places are shown in the graph. Of the children alone, their numbers say it as well. */
const MAX_READ = 20;
const ACTS: readonly Possible[] = ["retry_step", "skip_step", "fail", "compensations/retry", "compensations/skip"];

/** Below a root, those of its whole family; below another run, those of its children. */
const incidentsBelow = ({ id, parent_run_id }: Run): Record<string, string> =>
  parent_run_id === undefined ? { incident_in: id } : { parent_run_id: id, incident: "true" };

export interface IncidentsBelow {
  readonly incidents: readonly Run[];
  readonly total: number;
}

const NONE: readonly Run[] = [];

export function useIncidentsBelow(run: Run): IncidentsBelow {
  const hasChildren = (useCounts(run).data?.items.length ?? 0) > 0;
  const isAsked = run.terminal_at === undefined && hasChildren;
  const query = { ...incidentsBelow(run), sort: "started_at", limit: MAX_READ };
  const { data } = useIncidentList([RUN_KEY, run.id], query, isAsked);
  // The root itself is one of its family.
  const incidents = useMemo(
    () => (isAsked && data ? data.items.filter(({ id }) => id !== run.id) : NONE),
    [data, isAsked, run.id],
  );
  if (incidents === NONE || data === undefined) return { incidents: NONE, total: 0 };
  return { incidents, total: data.total - (data.items.length - incidents.length) };
}

/** Where each of them is seen in the graph of the run. */
export function usePlaces(run: Run, incidents: readonly Run[]): ReadonlyMap<Run, Place> {
  const between = useBetween(run.id, incidents);
  return useMemo(() => {
    const members = new Map<string, Member>([...between, ...incidents].map((one) => [one.id, one]));
    const places = incidents.map((incident) => [incident, placeOf(run.id, incident, members)] as const);
    return new Map(places.filter((found): found is readonly [Run, Place] => found[1] !== undefined));
  }, [run.id, incidents, between]);
}

const NOBODY: readonly Member[] = [];

/** The runs between a run and the incidents of its grandchildren. Whose child a run is never changes. */
function useBetween(runId: string, incidents: readonly Run[]): readonly Member[] {
  const parents = [...new Set(incidents.flatMap(({ parent_run_id: id }) => (id === runId ? [] : (id ?? []))))].sort();
  const { data } = useQuery({
    queryKey: ["between", runId, parents],
    queryFn: ({ signal }) => readBetween(runId, parents, signal),
    enabled: parents.length > 0,
    staleTime: Number.POSITIVE_INFINITY,
    placeholderData: (before) => before,
  });
  return data ?? NOBODY;
}

async function readBetween(runId: string, parents: readonly string[], signal: AbortSignal): Promise<Member[]> {
  const found = new Map<string, Member>();
  for (const parent of parents)
    for (let id: string | undefined = parent; id !== undefined && id !== runId && !found.has(id); ) {
      const run: Run = await get<Run>(`/sagas/${part(id)}`, { signal });
      found.set(id, run);
      id = run.parent_run_id;
    }
  return [...found.values()];
}

interface BelowProps extends IncidentsBelow {
  readonly run: Run;
  readonly names: Names;
}

export function FamilyIncidents({ run, names, incidents, total }: BelowProps) {
  if (incidents.length === 0) return null;
  return (
    <section className="refused" aria-label="Incidents of its branches, items and sub-sagas">
      <Incidents {...{ run, names, incidents, total }} />
    </section>
  );
}

/** Those that a step leads to, or that stand at it. */
export function StepIncidents({ run, names, step }: { run: Run; names: Names; step: string }) {
  const { incidents, total } = useIncidentsBelow(run);
  const places = usePlaces(run, incidents);
  const here = [...places].filter(([, place]) => stepsOf(place).includes(step)).map(([incident]) => incident);
  if (here.length === 0) return null;
  // Beyond those that were read, it is not known which step leads to them.
  const more = total > incidents.length ? total : here.length;
  return (
    <section className="refused" aria-label="Incidents below this step">
      <Incidents {...{ run, names }} incidents={here} total={more} />
    </section>
  );
}

function Incidents({ run, names, incidents, total }: BelowProps) {
  const may = useMay();
  return (
    <>
      {incidents.slice(0, SHOWN).map((child) => (
        <Incident key={child.id} run={child} parents={names} />
      ))}
      {total > SHOWN && (
        <p>
          <Link href={`/runs?${new URLSearchParams(incidentsBelow(run))}`}>
            All {counted(total, "incident")} of the run
          </Link>
          {may("createBulkJob") && ", with a way to act on all of them"}
        </p>
      )}
    </>
  );
}

function Incident({ run, parents }: { run: Run; parents: Names }) {
  const can = useExplanation(run).data?.can ?? [];
  // A sub-saga has steps of its own.
  const names = useNamed(useDefinition(run).data, run)?.names;
  return (
    <div className="family-incident">
      <p>
        <Link href={`/runs/${run.id}`} title={childName(run)}>
          {childName(run, (step) => nameIn(parents, step))}
        </Link>{" "}
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
