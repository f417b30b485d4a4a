// The cluster: its nodes and their shards, what is owed, and how it commits while the page is open. All of it is asked again every two seconds.
import { useQuery } from "@tanstack/react-query";
import { get } from "../browser/client.js";
import type { Cluster } from "../browser/resources.js";
import { useTitle } from "../browser/title.js";
import { Answer } from "../parts/notes.js";
import { duration } from "../parts/values.js";
import { Live } from "./live.js";
import { nodesById, nodeText } from "./node-name.js";
import { Nodes } from "./nodes.js";
import "./cluster.css";

const EVERY_MS = 2_000;

export default function Page() {
  useTitle("Cluster");
  const cluster = useQuery({
    queryKey: ["cluster"],
    queryFn: ({ signal }) => get<Cluster>("/cluster", { signal }),
    refetchInterval: EVERY_MS,
  });
  return (
    <>
      <h1>Cluster</h1>
      <Answer of={cluster}>
        {(cluster) => (
          <>
            <Warnings cluster={cluster} />
            <Nodes cluster={cluster} />
            <Backlog of={cluster.backlog} />
          </>
        )}
      </Answer>
      <Live />
    </>
  );
}

function Warnings({ cluster: { nodes, shards, silent_nodes: silent = [] } }: { cluster: Cluster }) {
  return (
    <>
      {shards.unowned > 0 && (
        <p className="refused">
          No node owns {shards.unowned} of {shards.count} shards: their runs stand until a node is up.
        </p>
      )}
      {silent.length > 0 && (
        <p className="refused">
          These nodes did not answer in time: {silent.map((id) => nodeText(id, nodesById(nodes))).join("; ")}
        </p>
      )}
    </>
  );
}

function Backlog({ of }: { of: Cluster["backlog"] }) {
  const { wakes_due, oldest_due_ms: oldest, inbox, outbox, waiting_for_workers: waiting } = of;
  return (
    <section aria-labelledby="backlog">
      <h2 id="backlog">Backlog</h2>
      <ul className="figures">
        <Figure
          value={wakes_due}
          one="run to wake"
          many="runs to wake"
          more={oldest !== undefined ? `the oldest for ${duration(oldest)}` : undefined}
        />
        <Figure value={inbox} one="command from run to run" many="commands from run to run" />
        <Figure value={outbox} one="dispatch or post to deliver" many="dispatches and posts to deliver" />
        <Figure value={waiting} one="call that waits for a worker" many="calls that wait for a worker" />
      </ul>
      {of.count_is_lower_bound && <p className="quiet">A number of 10,000 means that there are more.</p>}
    </section>
  );
}

interface FigureProps {
  readonly value: number;
  readonly one: string;
  readonly many: string;
  readonly more?: string | undefined;
}

function Figure({ value, one, many, more }: FigureProps) {
  return (
    <li>
      <strong>{value.toLocaleString()}</strong> {value === 1 ? one : many}
      {more !== undefined && <span className="quiet">, {more}</span>}
    </li>
  );
}
