// The nodes of the cluster, the shards that each of them owns, and what is owed: read from the database, so any node answers for all. Rates
// and latencies are metrics.
import { EVERYTHING } from "../access/index.js";
import { packageVersion } from "../config/package.js";
import { STALE_SECONDS } from "../shard/membership.js";
import { Placement, SHARDS } from "../shard/placement.js";
import { type KnownNode, knownNodes, readBacklog } from "../store/lists/backlog.js";
import { present } from "../store/lists/item.js";
import type { ApiDeps } from "./deps.js";
import { readerOf } from "./http/reader.js";
import { one, responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";

/** The owner of a shard that no node owns. No node has this id. */
const NONE = "";

type Deps = Pick<ApiDeps, "config" | "readPool" | "workers" | "ready" | "nodeId">;

export function clusterRoutes(app: Api, deps: Deps): void {
  const { config, readPool, workers } = deps;
  // Kept: it places the shards anew only when other nodes are alive.
  const placement = new Placement(NONE);
  const response = responses({ 200: one("The nodes, their shards and the backlog.", "Cluster") }, 400);
  const schema = {
    tags: ["probes"],
    "x-saga-role": "platform" as const,
    summary: "Get the nodes, their shards and the backlog",
    response,
  };
  app.get("/api/v1/cluster", { schema }, async (request, reply) => {
    const { waiting, silent } = await workers.report();
    const waitingCalls = waiting.reduce((sum, { calls }) => sum + calls, 0);
    // Nodes have no tenant: a principal with the right to ask sees all of them.
    return readPool.run({ ...readerOf(request, reply), reach: EVERYTHING }, async (sql) => {
      const nodes = await knownNodes(sql, { staleSeconds: STALE_SECONDS });
      placement.place(nodes.filter(({ alive }) => alive).map(({ node_id }) => node_id));
      return {
        access: config.auth,
        ...(config.authRollout && { access_rollout: true }),
        ...placed(nodes, placement, deps),
        backlog: { ...(await readBacklog(sql, SHARDS)), waiting_for_workers: waitingCalls },
        ...(silent.length > 0 && { silent_nodes: silent }),
      };
    });
  });
}

function placed(nodes: readonly KnownNode[], placement: Placement, { nodeId, ready }: Deps) {
  const counts = new Map<string, number>();
  for (const owner of SHARDS.map((shard) => placement.owner(shard))) counts.set(owner, (counts.get(owner) ?? 0) + 1);
  return {
    nodes: nodes.map((node) => {
      const shards = counts.get(node.node_id) ?? 0;
      const own = node.node_id === nodeId && { version: packageVersion(), ...(!ready() && { draining: true }) };
      return present({ ...node, shards, ...own });
    }),
    shards: { count: SHARDS.length, unowned: counts.get(NONE) ?? 0 },
  };
}
