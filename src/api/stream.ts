// The live stream of a run over a WebSocket: a snapshot, the events as they are committed, the end. This file is the
// conversation with one client; the feed supplies the events.

import type { WebSocket } from "@fastify/websocket";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { isTerminal, type JsonObject, MAX_INT32, type RunId, type RunState } from "../../machines/index.js";
import { clearInterval, setInterval } from "../ambient.js";
import { upgradeRequired } from "../errors.js";
import type { EventItem, Feed } from "../feed/index.js";
import type { Reader } from "../store/lists/read-pool.js";
import type { RunView } from "../store/lists/runs.js";
import type { ApiDeps } from "./deps.js";
import { ACCESS_TOKEN } from "./http/credentials.js";
import { Int, path, query, RunIdText } from "./http/parameters.js";
import { socketReader } from "./http/reader.js";
import { empty, responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";
import { RunReader } from "./run-reader.js";
import { noSuchRun } from "./sagas.js";
import { StreamBudget, StreamSocket } from "./stream-socket.js";

export const CLOSE = { end: 1000, shutdown: 1001, fault: 1011, slow: 1013 } as const;
/** The reason of a close. */
export const GONE = "the run does not exist any more";
export const PING_MS = 30_000;

const SCHEMA = {
  tags: ["sagas"],
  "x-saga-role": "viewer" as const,
  summary: "Watch a run live over a WebSocket",
  params: path({ id: RunIdText }),
  querystring: query({ after_seq: Int(0, MAX_INT32), ...ACCESS_TOKEN }),
  response: responses({ 101: empty("Text frames: snapshot, event, end.") }, 400, 404, 426),
};

/** Where a stream begins. */
interface Start {
  readonly runId: RunId;
  readonly view: RunView;
  readonly afterSeq: number;
}

export function streamRoutes(app: Api, deps: ApiDeps): void {
  const starts = new WeakMap<object, Start>();
  const budget = new StreamBudget();
  const runs = new RunReader(deps.readPool, deps.workers);
  app.route({
    method: "GET",
    url: "/api/v1/sagas/:id/stream",
    schema: SCHEMA,
    onRequest: requireUpgrade,
    // Before the upgrade, so that a refusal is an HTTP answer.
    preHandler: async (request) => {
      const { id } = request.params;
      const view = await runs.read(id, socketReader(request, request.raw.socket));
      if (!view) throw noSuchRun(id);
      // A client cannot have seen events that have not happened.
      const afterSeq = Math.min(request.query.after_seq ?? view.lastSeq, view.lastSeq);
      starts.set(request, { runId: id, view, afterSeq });
    },
    handler: requireUpgrade,
    wsHandler: (socket, request) => {
      const start = starts.get(request);
      if (start) new RunStream(socket, start, { ...deps, runs, reader: socketReader(request, socket) }, budget).open();
    },
  });
}

/** Refuses a plain request to a route that is a WebSocket only. Throws 426. */
export async function requireUpgrade({ ws }: FastifyRequest, reply: FastifyReply): Promise<void> {
  if (ws) return;
  reply.header("Upgrade", "websocket").header("Connection", "close, Upgrade");
  throw upgradeRequired("this route is a WebSocket: ask for an upgrade");
}

/** Replaces the plugin's own way, which closes clients without a reason. */
export function closeStreams(this: FastifyInstance, done: () => void): void {
  for (const client of this.websocketServer.clients) client.close(CLOSE.shutdown, "the service is shutting down");
  this.websocketServer.close();
  done();
}

/** One client that watches one run. */
class RunStream {
  private readonly client: StreamSocket;
  private readonly runId: RunId;
  private readonly end: EndOfRun;
  private watch: ReturnType<Feed["watch"]> | undefined;

  constructor(
    private readonly socket: WebSocket,
    private readonly start: Start,
    private readonly deps: Pick<ApiDeps, "feed" | "metrics" | "pingMs"> & {
      readonly runs: RunReader;
      readonly reader: Reader;
    },
    budget: StreamBudget,
  ) {
    this.runId = start.runId;
    this.client = new StreamSocket(socket, () => this.client.close(CLOSE.slow, "the client is too slow"), budget);
    this.end = new EndOfRun(start.view, start.afterSeq, () => deps.runs.read(this.runId, deps.reader));
  }

  open(): void {
    const { view } = this.start;
    const { metrics, pingMs = PING_MS } = this.deps;
    this.client.send({ type: "snapshot", run: view.run, last_seq: view.lastSeq }, false);
    metrics.streamsOpen.inc();
    if (this.end.run) this.finish(this.end.run);
    else this.follow();
    const pings = setInterval(() => this.client.ping(), pingMs);
    this.socket.on("close", () => {
      clearInterval(pings);
      this.watch?.stop();
      metrics.streamsOpen.dec();
    });
  }

  private follow(): void {
    try {
      this.watch = this.deps.feed.watch(this.runId, this.start.afterSeq, {
        event: (event) => this.send(event),
        reached: (seq) => {
          if (this.client.open && this.end.isKnown) void this.finishAt(seq);
        },
        drained: () => this.client.drained(),
        gone: () => this.client.close(CLOSE.fault, GONE),
      });
    } catch {
      // This node has too many watchers; the client may find another node.
      this.client.close(CLOSE.slow, "too many streams are open");
    }
  }

  private send(event: EventItem): void {
    if (!this.client.open) return;
    this.client.send({ type: "event", event });
    if (this.end.mayBeAt(event)) void this.finishAt(event.seq);
  }

  private async finishAt(seq: number): Promise<void> {
    try {
      const run = await this.end.reached(seq);
      if (run) this.finish(run);
    } catch {
      this.client.close(CLOSE.fault, "the run cannot be read now");
    }
  }

  private finish(run: JsonObject): void {
    this.client.send({ type: "end", run });
    this.client.close(CLOSE.end, "the run has ended");
  }
}

/** Decides when a client has everything: the run is terminal and its last event was sent. */
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

  /** The run has ended; only events are missing. */
  get isKnown(): boolean {
    return this.last !== undefined;
  }

  mayBeAt(event: EventItem): boolean {
    return this.last ? event.seq >= this.last.lastSeq : isTerminal(event.to_state as RunState);
  }

  /** Resolves with the run as it ended, once. */
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
