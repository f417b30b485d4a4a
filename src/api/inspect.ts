// A run in the Stately inspector: the page, and the WebSocket that speaks its protocol. This file is the conversation with one viewer;
// frames and page are made in inspect/. Nothing is read or computed for a run that no one inspects.
import type { WebSocket } from "@fastify/websocket";
import { SagaError } from "../errors.js";
import { Charts, Inspection, type InspectionPorts, inspectPage, type Shown, type Viewer } from "../inspect/index.js";
import { eventsAfter } from "../store/lists/history.js";
import { definitionOf, type InspectedRun, inspectedChildren, inspectedRun } from "../store/lists/inspected-runs.js";
import type { ApiDeps } from "./deps.js";
import { closeSignal, closeSignalOf } from "./http/close-signal.js";
import { path, RunIdText } from "./http/parameters.js";
import { empty, responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";
import { noSuchRun } from "./sagas.js";
import { CLOSE, PING_MS, requireUpgrade } from "./stream.js";
import { StreamBudget, StreamSocket } from "./stream-socket.js";

/** Inspections that a process serves at a time. Each may follow a hundred runs. */
const MAX_INSPECTIONS = 50;
/** Unsent bytes of all of them. */
const MAX_UNSENT = 32 * 1024 * 1024;

const SCHEMA = {
  tags: ["sagas"],
  summary: "Inspect a run and its children over a WebSocket, in the frames of @statelyai/inspect",
  params: path({ id: RunIdText }),
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
      const run = await deps.readPool.look(closeSignalOf(request.raw.socket), (sql) => inspectedRun(sql, id));
      if (!run) throw noSuchRun(id);
      found.set(request, run);
    },
    handler: requireUpgrade,
    wsHandler: (socket, request) => {
      const run = found.get(request);
      if (run) inspections.open(socket, run);
    },
  });
}

function pageRoute(app: Api, { readPool }: ApiDeps, shown: Shown): void {
  const content = { "text/html": { schema: { type: "string" } } };
  const schema = {
    tags: ["sagas"],
    summary: "Show a run in the Stately inspector, if the service has one: a page",
    params: path({ run_id: RunIdText }),
    response: responses({ 200: { description: "The page.", content } }, 400, 404),
  };
  app.get("/inspect/:run_id", { schema }, async ({ params: { run_id: id } }, reply) => {
    const run = await readPool.look(closeSignal(reply), (sql) => inspectedRun(sql, id));
    if (!run) throw noSuchRun(id);
    const { html, policy } = inspectPage(run, shown);
    const headers = { "content-type": "text/html; charset=utf-8", "content-security-policy": policy };
    return reply.headers(headers).serializer(String).send(html);
  });
}

class Inspections {
  private readonly budget = new StreamBudget(MAX_UNSENT);
  private readonly charts: Charts;
  private count = 0;

  constructor(private readonly deps: ApiDeps) {
    this.charts = new Charts((definitionId) => deps.catalog.program(definitionId));
  }

  open(socket: WebSocket, run: InspectedRun): void {
    const { metrics, pingMs = PING_MS } = this.deps;
    const client: StreamSocket = new StreamSocket(
      socket,
      () => client.close(CLOSE.slow, "the client is too slow"),
      this.budget,
    );
    if (this.count >= MAX_INSPECTIONS) return client.close(CLOSE.slow, "too many inspections are open");
    this.count++;
    metrics.streamsOpen.inc();
    const inspection = new Inspection(portsOf(this.deps, this.charts, closeSignalOf(socket)), viewerOf(client), run);
    const pings = setInterval(() => client.ping(), pingMs);
    socket.on("close", () => {
      clearInterval(pings);
      inspection.stop();
      metrics.streamsOpen.dec();
      this.count--;
    });
    void inspection.start();
  }
}

/** What an inspection reads counts as lists: it waits for a session when others read. */
function portsOf({ readPool, feed, scheduler }: ApiDeps, charts: Charts, closed: AbortSignal): InspectionPorts {
  return {
    follow: (runId, onHead) => feed.follow(runId, onHead),
    events: (runId, seq) => readPool.run(closed, (sql) => eventsAfter(sql, runId, seq)),
    children: (parents, known, limit) =>
      readPool.run(closed, (sql) => inspectedChildren(sql, parents, { known, limit })),
    chart: (definitionId) => charts.of(definitionId),
    chartOf: async (workflowId, version) => {
      const definitionId = await readPool.run(closed, (sql) => definitionOf(sql, workflowId, version));
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
    failed: (error) => {
      const busy = error instanceof SagaError && error.status === 503;
      client.close(busy ? CLOSE.slow : CLOSE.fault, busy ? error.message : "the run cannot be read now");
    },
  };
}
