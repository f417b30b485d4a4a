// Connected workers as tables, one a service, each with its load. Which of them is asked next is the service's matter.
import type { Worker } from "../browser/resources.js";
import { Scroll } from "../parts/scroll.js";
import { When } from "../parts/values.js";
import { byService, inWords, type Served } from "./workers.js";

export function Services({ workers }: { workers: readonly Worker[] }) {
  if (workers.length === 0) return <p className="quiet">No worker is connected.</p>;
  return byService(workers).map((served) => <Service key={served.service} of={served} />);
}

function Service({ of }: { of: Served<Worker> }) {
  return (
    <section className="card service" aria-label={`Workers of ${of.service}`}>
      <h3>{of.service}</h3>
      <p className="quiet">{inWords(of)}</p>
      <Scroll label={`Table of ${of.service}`}>
        <table>
          <thead>
            <tr>
              <th scope="col">Worker</th>
              <th scope="col">Load</th>
              <th scope="col">Serves</th>
              <th scope="col">Transport</th>
              <th scope="col">Node</th>
              <th scope="col">Connected</th>
            </tr>
          </thead>
          <tbody>
            {of.workers.map((worker) => (
              <Row key={`${worker.worker_id} ${worker.node_id} ${worker.connected_at}`} worker={worker} />
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

function Row({ worker }: { worker: Worker }) {
  return (
    <tr>
      <td>
        <code>{worker.worker_id}</code>
      </td>
      <td>
        <Load worker={worker} />
      </td>
      <td>
        <Serves actions={worker.actions} />
      </td>
      <td>{worker.transport}</td>
      <td>
        <code>{worker.node_id}</code>
      </td>
      <td>
        <When at={worker.connected_at} />
      </td>
    </tr>
  );
}

function Load({ worker: { in_flight: held, max_in_flight: max, draining, worker_id: id } }: { worker: Worker }) {
  return (
    <span className="load">
      <progress value={held} max={Math.max(max, 1)} aria-label={`Load of ${id}`} />
      <span>
        {held} of {max}
      </span>
      {draining && <span className="state compensating">draining</span>}
    </span>
  );
}

const SHOWN = 4;

function Serves({ actions }: { actions: readonly string[] }) {
  if (actions.length === 0) return <>every action of its service</>;
  if (actions.length <= SHOWN) return <>{actions.join(", ")}</>;
  return (
    <details>
      <summary>{actions.length} actions</summary>
      {actions.join(", ")}
    </details>
  );
}
