// A page of runs as a table. Which runs are on it, and what comes next, is for the list.
import { Link } from "wouter";
import { part } from "../browser/client.js";
import { byRoot, useIncidents } from "../browser/incidents.js";
import type { Run } from "../browser/resources.js";
import { childName } from "../parts/belongs.js";
import { duration, State, When } from "../parts/values.js";
import { Why } from "./why.js";

const COLUMNS = ["State", "Run", "Workflow", "Where and why", "Started", "Duration"];
/** The most incidents that are asked for, of all families on a page of the list together. */
const MAX_INCIDENTS = 100;

export function RunTable({ runs }: { runs: readonly Run[] }) {
  const roots = runs.filter(({ parent_run_id }) => parent_run_id === undefined);
  const { data } = useIncidents(roots, MAX_INCIDENTS);
  const incidents = byRoot(data?.items.filter(({ parent_run_id }) => parent_run_id !== undefined) ?? []);
  return (
    <table className="runs">
      <thead>
        <tr>
          {COLUMNS.map((name) => (
            <th key={name} scope="col">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {runs.map((run) => (
          <RunRow key={run.id} run={run} incidents={(isLiving(run) && incidents.get(run.id)) || NONE} />
        ))}
      </tbody>
    </table>
  );
}

const NONE: readonly Run[] = [];
/** The incidents are those of a moment ago. */
const isLiving = ({ terminal_at }: Run) => terminal_at === undefined;

function RunRow({ run, incidents }: { run: Run; incidents: readonly Run[] }) {
  const { id, workflow_id: workflow, version, business_key: key } = run;
  return (
    <tr>
      <td>
        <State state={run.state} reason={run.paused_reason} />
        {incidents.length > 0 && <span className="state failed">an incident below</span>}
      </td>
      <th scope="row">
        <Link href={`/runs/${id}`}>{key ?? id}</Link>
        {key !== undefined && <code className="quiet">{id}</code>}
        {run.parent_run_id !== undefined && <ChildOf run={run} parent={run.parent_run_id} />}
      </th>
      <td>
        <Link href={`/workflows/${part(workflow)}?version=${version}`}>{workflow}</Link>{" "}
        <span className="quiet">v{version}</span>
      </td>
      <td className="why">
        <Why run={run} incidents={incidents} />
      </td>
      <td>
        <When at={run.started_at} />
      </td>
      <td>{lasted(run)}</td>
    </tr>
  );
}

const ChildOf = ({ run, parent }: { run: Run; parent: string }) => (
  <span className="quiet">
    {childName(run)} of <Link href={`/runs/${parent}`}>{parent}</Link>
  </span>
);

/** The time that a run has taken; until now, if it goes on. */
const lasted = ({ started_at: from, terminal_at: to }: Run) =>
  duration(Math.max(0, (to === undefined ? Date.now() : Date.parse(to)) - Date.parse(from)));
