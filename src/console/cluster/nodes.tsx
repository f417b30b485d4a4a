// The nodes as a table, each with the shards that it owns. A node that is gone stays in it for ten minutes.
import type { Cluster } from "../browser/resources.js";
import { Scroll } from "../parts/scroll.js";
import { When } from "../parts/values.js";
import { NodeName } from "./node-name.js";

type Node = Cluster["nodes"][number];

export function Nodes({ cluster: { nodes, shards } }: { cluster: Cluster }) {
  const alive = nodes.filter((node) => node.alive).length;
  return (
    <section aria-labelledby="nodes">
      <h2 id="nodes">Nodes</h2>
      <p className="quiet">
        {alive === 1 ? "1 node is alive. It owns" : `${alive} nodes are alive. They own`}{" "}
        {shards.count - shards.unowned} of {shards.count} shards.
      </p>
      <Scroll label="Table of the nodes">
        <table>
          <thead>
            <tr>
              <th scope="col">Node</th>
              <th scope="col">State</th>
              <th scope="col">Shards</th>
              <th scope="col">Started</th>
              <th scope="col">Last heartbeat</th>
              <th scope="col">Release</th>
            </tr>
          </thead>
          <tbody>
            {nodes.map((node) => (
              <Row key={node.node_id} node={node} count={shards.count} />
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

function Row({ node, count }: { node: Node; count: number }) {
  return (
    <tr>
      <td>
        <NodeName of={node} />
      </td>
      <td>
        <Standing of={node} />
      </td>
      <td className="shards">
        <meter value={node.shards} max={count} aria-label={`Shards of ${node.node_id}`} /> {node.shards}
      </td>
      <td>
        <When at={node.started_at} />
      </td>
      <td>
        <When at={node.heartbeat_at} />
      </td>
      <td>
        {node.version ?? <span className="quiet">–</span>}{" "}
        <span className="quiet">reads format {node.record_format}</span>
      </td>
    </tr>
  );
}

function Standing({ of: { alive, draining } }: { of: Node }) {
  if (!alive) return <span className="state failed">gone</span>;
  return draining ? (
    <span className="state compensating">draining</span>
  ) : (
    <span className="state succeeded">alive</span>
  );
}
