// A page of runs as a table. Which runs are on it, and what comes next, is for the list.
import { Link } from "wouter";
import { useHref } from "../browser/address.js";
import { part } from "../browser/client.js";
import { type DefinitionNames, useDefinitionNames } from "../browser/definitions.js";
import { byRoot, useIncidents } from "../browser/incidents.js";
import type { Run } from "../browser/resources.js";
import { childName } from "../parts/belongs.js";
import { belowWords } from "../parts/state-words.js";
import { Tenant, useSeesTenants } from "../parts/tenants.js";
import { duration, State, When } from "../parts/values.js";
import { Why } from "./why.js";

const COLUMNS = ["State", "Run", "Workflow", "Tenant", "Where and why", "Started", "Duration"];
/** The most incidents that are asked for, of all families on a page of the list together. */
const MAX_INCIDENTS = 100;

export function RunTable({ runs }: { runs: readonly Run[] }) {
  const roots = runs.filter(({ parent_run_id }) => parent_run_id === undefined);
  const { data } = useIncidents(roots, MAX_INCIDENTS);
  const names = useDefinitionNames(runs);
  const seesTenants = useSeesTenants(runs);
  const incidents = byRoot(data?.items.filter(({ parent_run_id }) => parent_run_id !== undefined) ?? []);
  return (
    <table className="runs">
      <thead>
        <tr>
          {COLUMNS.filter((name) => seesTenants || name !== "Tenant").map((name) => (
            <th key={name} scope="col">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {runs.map((run) => (
          <RunRow
            key={run.id}
            {...{ run, names, seesTenants }}
            incidents={(isLiving(run) && incidents.get(run.id)) || NONE}
            isCut={(data?.total ?? 0) > MAX_INCIDENTS}
          />
        ))}
      </tbody>
    </table>
  );
}

const NONE: readonly Run[] = [];
/** The incidents are those of a moment ago. */
const isLiving = ({ terminal_at }: Run) => terminal_at === undefined;

interface RowProps {
  readonly run: Run;
  readonly names: DefinitionNames;
  readonly seesTenants: boolean;
  readonly incidents: readonly Run[];
  /** There are more incidents than were read: perhaps of this run. */
  readonly isCut: boolean;
}

function RunRow({ run, names, seesTenants, incidents, isCut }: RowProps) {
  const { id, workflow_id: workflow, version, business_key: key } = run;
  const name = names.workflow(run);
  return (
    <tr>
      <td>
        <div className="states">
          <State state={run.state} reason={run.paused_reason} />
          {incidents.length > 0 && <span className="state failed">{belowWords(incidents.length, isCut)}</span>}
        </div>
      </td>
      <th scope="row">
        <Link href={`/runs/${id}`}>{key ?? id}</Link>
        {key !== undefined && <code className="quiet">{id}</code>}
        {run.parent_run_id !== undefined && <ChildOf {...{ run, names }} parent={run.parent_run_id} />}
      </th>
      <td>
        <Link href={`/workflows/${part(workflow)}?version=${version}`} title={workflow}>
          {name}
        </Link>{" "}
        <span className="quiet unit">v{version}</span>
      </td>
      {seesTenants && (
        <td className="of-tenant">
          <OfTenant id={run.tenant_id} />
        </td>
      )}
      <td className="why">
        <Why {...{ run, names, incidents }} />
      </td>
      <td>
        <When at={run.started_at} />
      </td>
      <td className="unit">{lasted(run)}</td>
    </tr>
  );
}

/** A branch or an item is a run of the workflow of its parent; the steps of the parent of a sub-saga are not known here. */
export const childIn = (run: Run, names: DefinitionNames): string =>
  childName(run, run.parent_branch_id === undefined ? undefined : (step) => names.step(run, step));

const ChildOf = ({ run, names, parent }: Pick<RowProps, "run" | "names"> & { parent: string }) => (
  <span className="quiet" title={childName(run)}>
    {childIn(run, names)} of <Link href={`/runs/${parent}`}>{parent}</Link>
  </span>
);

/** Leads to the runs of the tenant alone, of those that are listed. */
function OfTenant({ id }: { id: string | undefined }) {
  const href = useHref();
  if (id === undefined) return <Tenant id={id} />;
  return (
    <Link href={href({ tenant_id: id, cursor: undefined })} title="Only the runs of this tenant">
      <Tenant id={id} />
    </Link>
  );
}

/** The time that a run has taken; until now, if it goes on. */
const lasted = ({ started_at: from, terminal_at: to }: Run) =>
  duration(Math.max(0, (to === undefined ? Date.now() : Date.parse(to)) - Date.parse(from)));
