// The actions that runs wait for and no connected worker serves. Runs that wait for a busy worker are not among them.
import { Link } from "wouter";
import type { Unserved } from "../browser/resources.js";
import { Scroll } from "../parts/scroll.js";
import { transportName } from "./workers.js";

/** No filter of the list of runs knows the action: a run is running, or compensating, while it waits for a worker. */
const WAITING = "/runs?state=running,compensating";

export function UnservedActions({ actions }: { actions: readonly Unserved[] }) {
  if (actions.length === 0) return <p className="served">Every action that runs wait for is served.</p>;
  return (
    <section aria-labelledby="unserved" className="unserved">
      <h2 id="unserved">Runs wait for actions that no worker serves</h2>
      <Scroll label="Actions that no worker serves">
        <table>
          <thead>
            <tr>
              <th scope="col">Action</th>
              <th scope="col">Transport</th>
              <th scope="col">Calls that wait</th>
              <th scope="col">Detail</th>
            </tr>
          </thead>
          <tbody>
            {actions.map((action) => (
              <Row key={`${action.transport} ${action.action}`} of={action} />
            ))}
          </tbody>
        </table>
      </Scroll>
      <p>
        Start a worker that serves them. <Link href={WAITING}>The runs that are running or rolling back</Link> include
        those that wait.
      </p>
    </section>
  );
}

const Row = ({ of: { action, transport, waiting, detail } }: { of: Unserved }) => (
  <tr>
    <td>
      <code>{action}</code>
    </td>
    <td>{transportName(transport)}</td>
    <td>{waiting.toLocaleString()}</td>
    <td>{detail ?? "no worker is connected that serves it"}</td>
  </tr>
);
