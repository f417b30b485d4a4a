// A run in the Stately inspector: the page, and the WebSocket that speaks its protocol. This file is the conversation with one viewer;
// frames and page are made in inspect/. Nothing is read or computed for a run that no one inspects.

import type { WebSocket } from "@fastify/websocket";
import { sharerOf } from "../access/index.js";
import { clearInterval, setInterval } from "../ambient.js";
import { SagaError } from "../errors.js";
import { Charts, Inspection, type InspectionPorts, inspectPage, type Shown, type Viewer } from "../inspect/index.js";
import { eventsAfter } from "../store/lists/history.js";
import { definitionOf, type InspectedRun, inspectedChildren, inspectedRun } from "../store/lists/inspected-runs.js";
import type { Reader } from "../store/lists/read-pool.js";
import { Shares } from "../work/shares.js";
import type { ApiDeps } from "./deps.js";
import { ACCESS_TOKEN } from "./http/credentials.js";
import { path, query, RunIdText } from "./http/parameters.js";
import { readerOf, socketReader } from "./http/reader.js";
import { empty, responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";
import { noSuchRun } from "./sagas.js";
import { CLOSE, GONE, PING_MS, requireUpgrade } from "./stream.js";
import { StreamBudget, StreamSocket } from "./stream-socket.js";

/** Inspections that a process serves at a time. Each may follow a hundred runs. */
const MAX_INSPECTIONS = 50;
/** Unsent bytes of all of them. */
const MAX_UNSENT = 32 * 1024 * 1024;

const SCHEMA = {
  tags: ["sagas"],
  "x-saga-role": "viewer" as const,
  summary: "Inspect a run and its children over a WebSocket, in the frames of @statelyai/inspect",
  params: path({ id: RunIdText }),
  querystring: query(ACCESS_TOKEN),
  response: responses({ 101: empty("Text frames: @xstate.actor, @xstate.event, @xstate.snapshot.") }, 400, 404, 426),
};

export function inspectRoutes(app: Api, deps: ApiDeps): void {
  if (!deps.config.inspector) return;
  pageRoute(app, deps, { ...deps.config.inspector, console: deps.config.console !== undefined });
  const found = new WeakMap<object, InspectedRun>();
  const inspections = new Inspections(deps);
  app.route({
    method: "GET",
    url: "/api/v1/sagas/:id/inspect",
    schema: SCHEMA,
    onRequest: requireUpgrade,
    // Before the upgrade, so that a refusal is an HTTP answer.
    preHandler: async (request) => {
      const { id } = request.params;
      const reader = socketReader(request, request.raw.socket);
      const run = await deps.readPool.look(reader, (sql, reach) => inspectedRun(sql, reach, id));
      if (!run) throw noSuchRun(id);
      found.set(request, run);
    },
    handler: requireUpgrade,
    wsHandler: (socket, request) => {
      const run = found.get(request);
      if (run) inspections.open(socket, run, socketReader(request, socket), sharerOf(request.principal));
    },
  });
}

function pageRoute(app: Api, { readPool }: ApiDeps, shown: Shown): void {
  const content = { "text/html": { schema: { type: "string" } } };
  const schema = {
    tags: ["sagas"],
    "x-saga-role": "viewer" as const,
    summary: "Show a run in the Stately inspector, if the service has one: a page",
    params: path({ run_id: RunIdText }),
    response: responses({ 200: { description: "The page.", content } }, 400, 404),
  };
  app.get("/inspect/:run_id", { schema }, async (request, reply) => {
    const { run_id: id } = request.params;
    const run = await readPool.look(readerOf(request, reply), (sql, reach) => inspectedRun(sql, reach, id));
    if (!run) throw noSuchRun(id);
    const { html, policy } = inspectPage(run, shown);
    const headers = { "content-type": "text/html; charset=utf-8", "content-security-policy": policy };
    return reply.headers(headers).serializer(String).send(html);
  });
}

class Inspections {
  private readonly budget = new StreamBudget(MAX_UNSENT);
  private readonly charts: Charts;
  private readonly places = new Shares(MAX_INSPECTIONS);

  constructor(private readonly deps: ApiDeps) {
    this.charts = new Charts((definitionId) => deps.catalog.program(definitionId));
  }

  open(socket: WebSocket, run: InspectedRun, reader: Reader, viewer: string | undefined): void {
    const { metrics, pingMs = PING_MS } = this.deps;
    const client: StreamSocket = new StreamSocket(
      socket,
      () => client.close(CLOSE.slow, "the client is too slow"),
      this.budget,
    );
    const release = this.places.take(viewer);
    if (release === "share") return client.close(CLOSE.slow, "too many inspections of yours are open");
    if (release === "full") return client.close(CLOSE.slow, "too many inspections are open");
    metrics.streamsOpen.inc();
    const inspection = new Inspection(portsOf(this.deps, this.charts, reader), viewerOf(client), run);
    const pings = setInterval(() => client.ping(), pingMs);
    socket.on("close", () => {
      clearInterval(pings);
      inspection.stop();
      metrics.streamsOpen.dec();
      release();
    });
    void inspection.start();
  }
}

/** What an inspection reads counts as lists: it waits for a session when others read. */
function portsOf({ readPool, feed, scheduler }: ApiDeps, charts: Charts, reader: Reader): InspectionPorts {
  return {
    follow: (runId, onHead) => feed.follow(runId, onHead),
    events: (runId, seq) => readPool.run(reader, (sql, reach) => eventsAfter(sql, reach, runId, seq)),
    children: (parents, known, limit) =>
      readPool.run(reader, (sql, reach) => inspectedChildren(sql, reach, parents, { known, limit })),
    chart: (definitionId) => charts.of(definitionId),
    chartOf: async (workflowId, version) => {
      const definitionId = await readPool.run(reader, (sql) => definitionOf(sql, workflowId, version));
      return definitionId === undefined ? undefined : charts.of(definitionId);
    },
    compute: (piece) => scheduler.compute("inspect", piece),
  };
}

function viewerOf(client: StreamSocket): Viewer {
  return {
    get open() {
      return client.open;
    },
    send: (frame) => client.send(frame),
    drained: () => client.drained(),
    ended: () => client.close(CLOSE.end, "the run has ended"),
    gone: () => client.close(CLOSE.fault, GONE),
    failed: (error) => {
      const busy = error instanceof SagaError && error.status === 503;
      client.close(busy ? CLOSE.slow : CLOSE.fault, busy ? error.message : "the run cannot be read now");
    },
  };
}
