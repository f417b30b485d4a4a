// The workers of all nodes: who is connected, what each serves, holds and may take; and the actions that runs wait for and nobody serves.
// The nodes are asked for each request; a node without an answer is named.
import type { Static } from "typebox";
import { actionText, type JsonObject } from "../../machines/index.js";
import { reachOf } from "../access/index.js";
import type { NodeWorker, Workers } from "../dispatch/workers.js";
import { listOf, readCursor, writeCursor } from "../store/lists/cursor.js";
import type { PageQuery } from "../store/lists/page.js";
import { isEverything, type Reach } from "../store/lists/reach.js";
import type { ApiDeps } from "./deps.js";
import { Id, OneOf, PAGE, pageOf, query } from "./http/parameters.js";
import { page, ref, responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";

const listQuery = query({ service: Id, transport: OneOf("grpc", "http", "rmq"), ...PAGE });

const MORE = {
  unserved: {
    type: "array",
    description: "Actions that runs wait for and no worker serves.",
    items: ref("UnservedAction"),
  },
  silent_nodes: { type: "array", items: { type: "string" }, description: "Nodes that did not answer in time." },
  left_off: { type: "integer", description: "Workers that the answers of their nodes had no room for." },
};

export function workerRoutes(app: Api, { workers }: Pick<ApiDeps, "workers">): void {
  const listed = page("A page of workers: one item a connection.", "Worker");
  const schema = {
    tags: ["registry"],
    "x-saga-role": ["viewer", "platform"] as const,
    summary: "List the connected workers of all nodes, and the actions that no worker serves",
    querystring: listQuery,
    response: responses({ 200: { ...listed, properties: { ...listed.properties, ...MORE } } }, 400),
  };
  app.get("/api/v1/workers", { schema }, async ({ query, principal }) => {
    const report = await workers.report();
    const { silent, leftOff } = report;
    const reach = reachOf(principal);
    const shown = report.workers.filter(matches(query)).filter(servesWithin(reach));
    const waiting = report.waiting.filter(matches(query)).filter(waitsWithin(reach));
    return {
      ...pageOfWorkers(shown, reach, pageOf(query)),
      unserved: await unserved(waiting, workers),
      ...(silent.length > 0 && { silent_nodes: silent }),
      // Whose they are is not known.
      ...(leftOff > 0 && isEverything(reach) && { left_off: leftOff }),
    };
  });
}

function matches({ service, transport }: Static<typeof listQuery>) {
  return (one: { readonly service: string; readonly transport: string }) =>
    (service === undefined || one.service === service) && (transport === undefined || one.transport === transport);
}

async function unserved(waiting: Awaited<ReturnType<Workers["report"]>>["waiting"], workers: Workers) {
  const obstacles = await workers.obstacles(waiting);
  return waiting.flatMap((action, index) => {
    const { reason, detail } = obstacles[index] ?? {};
    if (reason !== "no_worker") return [];
    const { transport, calls } = action;
    return { action: actionText(action), transport, waiting: calls, ...(detail !== undefined && { detail }) };
  });
}

/** The key of a worker's connection: a list of them is in its order. */
const KEY = ["service", "worker_id", "node_id", "connected_at"].map((name) => ({
  column: { name },
  kind: "text" as const,
}));

/** A worker serves the runs of some tenants. One that serves all of them is the platform's, and nothing of it is a tenant's to know. */
function servesWithin({ tenants: seen }: Reach) {
  return ({ tenants }: { readonly service: string; readonly tenants?: readonly string[] }) =>
    seen === "*" || tenants?.every((tenant) => seen.includes(tenant)) === true;
}

/** A call that waits is of a run's tenant. Of which workflow is not known: a narrowed principal is told of none. */
function waitsWithin({ tenants, workflows }: Reach) {
  return ({ tenantId }: { readonly service: string; readonly tenantId?: string }) =>
    !workflows && (tenants === "*" || (tenantId !== undefined && tenants.includes(tenantId)));
}

/** Like the pages of stored lists (store/lists/page.ts), of a list in memory. */
function pageOfWorkers(all: readonly NodeWorker[], reach: Reach, { limit, offset, cursor }: PageQuery) {
  const list = listOf("workers", reach);
  const after = cursor === undefined ? undefined : readCursor(list, KEY, cursor).join(" ");
  const sorted = all
    .map((worker) => ({ key: keyOf(worker), worker }))
    .sort((left, right) => compare(left.key, right.key));
  const from = after === undefined ? offset : sorted.filter(({ key }) => key.join(" ") <= after).length;
  const shown = sorted.slice(from, from + limit);
  const last = shown.at(-1);
  return {
    items: shown.map(({ worker }) => workerItem(worker)),
    total: all.length,
    limit,
    offset: after === undefined ? offset : 0,
    ...(last && from + limit < sorted.length && { next_cursor: writeCursor(list, last.key) }),
  };
}

function keyOf({ service, workerId, nodeId, since }: NodeWorker): readonly string[] {
  return [service, workerId, nodeId, String(since).padStart(15, "0")];
}

function compare(left: readonly string[], right: readonly string[]): number {
  const [one, other] = [left.join(" "), right.join(" ")];
  return one < other ? -1 : one > other ? 1 : 0;
}

function workerItem({
  workerId,
  service,
  actions,
  transport,
  nodeId,
  tenants,
  since,
  inFlight,
  maxInFlight,
  draining,
}: NodeWorker): JsonObject {
  return {
    ...{ worker_id: workerId, service, actions, transport, node_id: nodeId, ...(tenants && { tenants }) },
    ...{ connected_at: new Date(since).toISOString(), in_flight: inFlight, max_in_flight: maxInFlight },
    ...(draining && { draining }),
  };
}
