// A node as its log lines name it: the host and the process, with the id. What else is known of it is on the page of the cluster.
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useMay } from "../browser/access.js";
import { get } from "../browser/client.js";
import type { Cluster } from "../browser/resources.js";

type Named = Pick<Cluster["nodes"][number], "node_id" | "host" | "process_id">;

/** By id. */
export type KnownNodes = ReadonlyMap<string, Named>;

export const NodeName = ({ of: { node_id: id, host, process_id: process } }: { of: Named }) => (
  <>
    {host !== undefined && (
      <div>
        {host} <span className="quiet">process {process}</span>
      </div>
    )}
    <code className="quiet">{id}</code>
  </>
);

/** The same in a sentence. */
export function nodeText(id: string, nodes: KnownNodes): string {
  const { host, process_id } = nodes.get(id) ?? {};
  return host === undefined ? id : `${host}, process ${process_id} (${id})`;
}

export const nodesById = (nodes: readonly Named[]): KnownNodes => new Map(nodes.map((node) => [node.node_id, node]));

/** Nodes come and go seldom. */
const EVERY_MS = 10_000;

/** For a page that is about something else. */
export function useKnownNodes(): KnownNodes {
  const may = useMay();
  const { data } = useQuery({
    queryKey: ["cluster"],
    queryFn: ({ signal }) => get<Cluster>("/cluster", { signal }),
    refetchInterval: EVERY_MS,
    enabled: may("getCluster"),
  });
  return useMemo(() => nodesById(data?.nodes ?? []), [data]);
}
