// The live stream of a run without HTTP: the service's own route, its socket with bounds and its feed, and between them and a client a connection of
// the simulation. What is sent arrives in order and takes time; a connection breaks with its node, and a client that does not answer a ping is dropped.
import { EventEmitter } from "node:events";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { RunId } from "../../../machines/index.js";
import { ANYONE } from "../../../src/access/index.js";
import type { ApiDeps } from "../../../src/api/deps.js";
import type { Api } from "../../../src/api/http/validation.js";
import { streamRoutes } from "../../../src/api/stream.js";
import type { Core } from "../../../src/cluster/core.js";
import type { Chance, Life, World } from "../world/world.js";

/** The client's end of a connection. */
export interface StreamClient {
  frame(text: string): void;
  /** `broken`: there is no code. */
  closed(code: number | "broken"): void;
}

export interface ConnectionOptions {
  readonly world: World;
  readonly node: Life;
  readonly chance: Chance;
  readonly client: StreamClient;
  /** Milliseconds that the client takes for a frame. */
  readonly paceMs: () => number;
}

const LATENCY_MS = 3;
/** After this a client knows that its node has gone. */
const NOTICED_MS = 300;

/** The node's end of a connection, as the package of WebSockets gives it to the service. */
export class Connection extends EventEmitter {
  readonly OPEN = 1;
  readyState = 1;
  /** Not before this does the next message reach the client: they come in order. */
  private arrived = 0;
  private isLeft = false;

  constructor(private readonly options: ConnectionOptions) {
    super();
    this.look();
  }

  send(text: string, sent: () => void): void {
    const { world, node, client } = this.options;
    const ms = this.turn();
    world.later(ms, () => this.isLeft || client.frame(text), null);
    world.later(ms, sent, node);
  }

  ping(): void {
    const { world, node } = this.options;
    world.later(this.turn(), () => this.isLeft || world.later(LATENCY_MS, () => this.emit("pong"), node), null);
  }

  close(code: number): void {
    if (this.readyState !== this.OPEN) return;
    this.readyState = 2;
    const { world, node } = this.options;
    const ms = this.turn();
    world.later(ms, () => this.leave(code), null);
    world.later(ms + LATENCY_MS, () => this.end(), node);
  }

  terminate(): void {
    this.options.world.later(0, () => this.leave("broken"), null);
    this.end();
  }

  /** The client goes away. */
  hangUp(): void {
    const { world, chance, node } = this.options;
    this.leave("broken");
    world.later(chance() * LATENCY_MS, () => this.end(), node);
  }

  private turn(): number {
    const { world, chance, paceMs } = this.options;
    this.arrived = Math.max(this.arrived + paceMs(), world.now + chance() * LATENCY_MS);
    return this.arrived - world.now;
  }

  private leave(code: number | "broken"): void {
    if (this.isLeft) return;
    this.isLeft = true;
    this.options.client.closed(code);
  }

  private end(): void {
    if (this.readyState === 3) return;
    this.readyState = 3;
    this.emit("close");
  }

  private look(): void {
    const { world, node } = this.options;
    if (this.isLeft) return;
    if (node.isAlive) world.later(NOTICED_MS, () => this.look(), null);
    else this.leave("broken");
  }
}

/** What the service registers for a stream. */
interface StreamRoute {
  preHandler(request: FastifyRequest, reply: FastifyReply): Promise<void>;
  wsHandler(socket: Connection, request: FastifyRequest): void;
}

/** A request for a stream that has not been answered yet. */
export interface StreamRequest {
  readonly runId: RunId;
  /** Absent: from now on. */
  readonly afterSeq?: number;
  /** Emits `close` when its client has gone. */
  readonly socket: EventEmitter;
}

/** The streams of all nodes. */
export class Streams {
  private readonly routes = new WeakMap<Core, StreamRoute>();

  /** In the node's own life. Throws what the service answers before the upgrade. Undefined: the client had gone by then. */
  async open<Socket extends Connection>(
    core: Core,
    { runId, afterSeq, socket }: StreamRequest,
    connect: () => Socket | undefined,
  ): Promise<Socket | undefined> {
    const query = afterSeq === undefined ? {} : { after_seq: afterSeq };
    const request = { params: { id: runId }, query, principal: ANYONE, raw: { socket } } as unknown as FastifyRequest;
    const route = this.routeOf(core);
    await route.preHandler(request, {} as FastifyReply);
    const connection = connect();
    if (connection) route.wsHandler(connection, request);
    return connection;
  }

  private routeOf(core: Core): StreamRoute {
    const known = this.routes.get(core);
    if (known) return known;
    const { feed, metrics, readPool } = core.foundations;
    const registered: StreamRoute[] = [];
    const app = { route: (route: StreamRoute) => void registered.push(route) } as unknown as Api;
    streamRoutes(app, { feed, metrics, readPool, workers: core.dispatcher.directory } as unknown as ApiDeps);
    const [route] = registered;
    if (!route) throw new Error("the service has no stream");
    this.routes.set(core, route);
    return route;
  }
}
