// The live stream of a run over a WebSocket: a snapshot, its events, its end. Which events there are is the feed's to know;
// here is the conversation with one client.
import type { WebSocket } from "@fastify/websocket";
import type { FastifyInstance } from "fastify";
import { isTerminal, type JsonObject, type RunState } from "../../machines/index.js";
import { badRequest } from "../errors.js";
import type { EventItem } from "../feed/index.js";
import { type RunView, readRun } from "../store/runs.js";
import type { ApiDeps } from "./index.js";
import * as q from "./query.js";
import { noSuchRun } from "./sagas.js";
import { responses } from "./schemas.js";
import { StreamBudget, StreamSocket } from "./stream-socket.js";

const CLOSE = { end: 1000, shutdown: 1001, fault: 1011, slow: 1013 } as const;
const PING_MS = 30_000;

const path = q.pathReader({ id: q.uuid });
const query = q.queryReader({ after_seq: q.integer(0, q.MAX_INT32) });

interface Opening {
  readonly view: RunView;
  readonly afterSeq: number;
}

export function streamRoutes(app: FastifyInstance, deps: ApiDeps): void {
  const openings = new WeakMap<object, Opening>();
  const budget = new StreamBudget();
  const response = responses({ 101: { description: "Text frames: snapshot, event, end." } }, 400, 404);
  const summary = "Watch a run live over a WebSocket";
  const schema = { tags: ["sagas"], summary, params: path.schema, querystring: query.schema, response };
  app.route({
    method: "GET",
    url: "/api/v1/sagas/:id/stream",
    schema,
    // Before the upgrade, so that a refusal is an HTTP answer.
    preValidation: async (request) => {
      const { id } = path.read(request.params);
      const { after_seq } = query.read(request.query);
      if (!request.ws) throw badRequest("this route is a WebSocket: ask for an upgrade");
      const view = await readRun(deps.sql, id);
      if (!view) throw noSuchRun(id);
      // A client cannot have seen what has not happened.
      openings.set(request, { view, afterSeq: Math.min(after_seq ?? view.lastSeq, view.lastSeq) });
    },
    handler: async () => {
      throw badRequest("this route is a WebSocket: ask for an upgrade");
    },
    wsHandler: (socket, request) => {
      const opening = openings.get(request);
      if (opening) converse(socket, opening, deps, budget);
    },
  });
}

/** Fastify's own way would close them without a reason. */
export function closeStreams(this: FastifyInstance, done: () => void): void {
  for (const client of this.websocketServer.clients) client.close(CLOSE.shutdown, "the service is shutting down");
  this.websocketServer.close();
  done();
}

function converse(socket: WebSocket, { view, afterSeq }: Opening, deps: ApiDeps, budget: StreamBudget): void {
  const { metrics, pingMs = PING_MS } = deps;
  const runId = String(view.run.id);
  const client = new StreamSocket(socket, () => client.close(CLOSE.slow, "the client is too slow"), budget);
  const end = new EndOfRun(view, afterSeq, () => readRun(deps.sql, runId));
  client.send({ type: "snapshot", run: view.run, last_seq: view.lastSeq }, false);
  metrics.streamsOpen.inc();

  const finish = (run: JsonObject) => {
    client.send({ type: "end", run });
    client.close(CLOSE.end, "the run has ended");
  };
  const settle = (found: Promise<JsonObject | undefined>) =>
    found.then(
      (run) => run && finish(run),
      () => client.close(CLOSE.fault, "the run cannot be read now"),
    );
  const watch = openWatch();
  const pings = setInterval(() => client.ping(), pingMs);
  socket.on("close", () => {
    clearInterval(pings);
    watch?.stop();
    metrics.streamsOpen.dec();
  });

  function openWatch() {
    if (end.run) return void finish(end.run);
    try {
      return deps.feed.watch(runId, afterSeq, {
        event(event: EventItem) {
          if (!client.open) return;
          client.send({ type: "event", event });
          if (end.mayBeAt(event)) void settle(end.reached(event.seq));
        },
        reached: (seq) => void (client.open && end.waits && settle(end.reached(seq))),
        drained: () => client.drained(),
      });
    } catch {
      // This node watches too much: the client may find another.
      return client.close(CLOSE.slow, "too many streams are open");
    }
  }
}

/** Finds out when a client has everything: the run is terminal and its last event was sent. */
class EndOfRun {
  /** Set if there is nothing to wait for. */
  readonly run: JsonObject | undefined;
  private last: RunView | undefined;
  private done = false;

  constructor(
    view: RunView,
    afterSeq: number,
    private readonly read: () => Promise<RunView | undefined>,
  ) {
    if (view.terminal) this.last = view;
    this.run = view.terminal && afterSeq >= view.lastSeq ? view.run : undefined;
  }

  /** The run is known to be over; only events are missing. */
  get waits(): boolean {
    return this.last !== undefined;
  }

  mayBeAt(event: EventItem): boolean {
    return this.last ? event.seq >= this.last.lastSeq : isTerminal(event.to_state as RunState);
  }

  /** The run as it ended, once. */
  async reached(seq: number): Promise<JsonObject | undefined> {
    if (!this.last) {
      const view = await this.read();
      if (view?.terminal) this.last ??= view;
    }
    if (this.done || !this.last || seq < this.last.lastSeq) return undefined;
    this.done = true;
    return this.last.run;
  }
}
