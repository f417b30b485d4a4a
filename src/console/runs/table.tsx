// A page of runs as a table. Which runs are on it, and what comes next, is for the list.
import { Link } from "wouter";
import { part } from "../browser/client.js";
import type { Run } from "../browser/resources.js";
import { duration, State, When } from "../parts/values.js";

const COLUMNS = ["State", "Run", "Workflow", "Step", "Started", "Duration"];

export const RunTable = ({ runs }: { runs: readonly Run[] }) => (
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
        <RunRow key={run.id} run={run} />
      ))}
    </tbody>
  </table>
);

function RunRow({ run }: { run: Run }) {
  const { id, workflow_id: workflow, version, current_step: step, business_key: key } = run;
  return (
    <tr>
      <td>
        <State state={run.state} reason={run.paused_reason} />
      </td>
      <th scope="row">
        <Link href={`/runs/${id}`}>{key ?? id}</Link>
        {key !== undefined && <code className="quiet">{id}</code>}
        {run.parent_run_id !== undefined && <span className="quiet">{childOf(run)}</span>}
      </th>
      <td>
        <Link href={`/workflows/${part(workflow)}?version=${version}`}>{workflow}</Link>{" "}
        <span className="quiet">v{version}</span>
      </td>
      <td>{step !== undefined && <code>{step}</code>}</td>
      <td>
        <When at={run.started_at} />
      </td>
      <td>{lasted(run)}</td>
    </tr>
  );
}

const childOf = ({ parent_step_id: step, parent_branch_id: branch }: Run) =>
  [`of ${step ?? "another run"}`, branch].filter((text) => text !== undefined).join(", ");

/** Of a run that goes on: until now. */
const lasted = ({ started_at: from, terminal_at: to }: Run) =>
  duration(Math.max(0, (to === undefined ? Date.now() : Date.parse(to)) - Date.parse(from)));
