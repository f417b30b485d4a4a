// Connected workers as tables, one a service, each with its load. Which of them is asked next is the service's matter.
import type { Worker } from "../browser/resources.js";
import { type KnownNodes, NodeName } from "../cluster/node-name.js";
import { Scroll } from "../parts/scroll.js";
import { Tenant, useSeesTenants } from "../parts/tenants.js";
import { When } from "../parts/values.js";
import { byService, inWords, type Served, transportName } from "./workers.js";

export function Services({ workers, nodes }: { workers: readonly Worker[]; nodes: KnownNodes }) {
  if (workers.length === 0) return <p className="quiet">No worker is connected.</p>;
  return byService(workers).map((served) => <Service key={served.service} of={served} nodes={nodes} />);
}

/** A worker that serves all tenants is the platform's. */
const Tenants = ({ of: { tenants } }: { of: Worker }) =>
  tenants ? (
    tenants.map((id) => (
      <span key={id}>
        <Tenant id={id} />{" "}
      </span>
    ))
  ) : (
    <span className="quiet">all</span>
  );

function Service({ of, nodes }: { of: Served<Worker>; nodes: KnownNodes }) {
  const seesTenants = useSeesTenants(
    of.workers.flatMap(({ tenants = [] }) => tenants.map((tenant_id) => ({ tenant_id }))),
  );
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
              {seesTenants && <th scope="col">Tenant</th>}
              <th scope="col">Serves</th>
              <th scope="col">Transport</th>
              <th scope="col">Node</th>
              <th scope="col">Connected</th>
            </tr>
          </thead>
          <tbody>
            {of.workers.map((worker) => (
              <Row
                key={`${worker.worker_id} ${worker.node_id} ${worker.connected_at}`}
                {...{ worker, nodes, seesTenants }}
              />
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

function Row({ worker, nodes, seesTenants }: { worker: Worker; nodes: KnownNodes; seesTenants: boolean }) {
  return (
    <tr>
      <td>
        <code>{worker.worker_id}</code>
      </td>
      <td>
        <Load worker={worker} />
      </td>
      {seesTenants && (
        <td>
          <Tenants of={worker} />
        </td>
      )}
      <td>
        <Serves actions={worker.actions} />
      </td>
      <td>{transportName(worker.transport)}</td>
      <td>
        <NodeName of={nodes.get(worker.node_id) ?? { node_id: worker.node_id }} />
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
