// The connections of a worker: one per node of the service. The nodes of a machine share one address, and a client cannot choose the
// node that a channel lands on. So the pool opens further channels, to each address in turn, until it has met all nodes, and drains those that
// land on a node it has met.
import type { HelloAck } from "../protocol/index.js";
import { Connection, type ConnectionOwner, type Place } from "./connection.js";
import type { Log } from "./log.js";
import { jitteredBackoff, type Timing } from "./timing.js";

export interface ConnectionPoolOptions {
  readonly place: Place;
  readonly owner: ConnectionOwner;
  readonly timing: Timing;
  readonly log: Log;
  /** Whether steps or answers are still tied to the connection. */
  readonly isBusy: (connection: Connection) => boolean;
}

/** Channels opened in search of further nodes before the pool rests, for each node there is. */
const TRIES_PER_NODE = 6;

export class ConnectionPool {
  private readonly connections = new Set<Connection>();
  private nodeCount = 1;
  private tries = 0;
  private timer: NodeJS.Timeout | undefined;
  private draining = false;
  private closed = false;

  constructor(private readonly options: ConnectionPoolOptions) {}

  open(): void {
    if (this.closed || this.draining) return;
    const { place, owner, timing, log } = this.options;
    this.connections.add(new Connection(place, owner, timing, log));
  }

  /** Call it with every acknowledgement: it shows which nodes are missing and which connections are redundant. */
  onHelloAck(connection: Connection, ack: HelloAck): void {
    if (ack.node_count !== this.nodeCount) {
      this.nodeCount = ack.node_count;
      this.tries = 0;
    }
    const isRedundant = this.serving().some((other) => other !== connection && other.nodeId === connection.nodeId);
    if (isRedundant) connection.drain();
    this.closeDrained();
    this.searchNodes();
  }

  /** A lost connection opens itself again, unless it was about to be closed. */
  onLost(connection: Connection): void {
    if (connection.draining && !this.draining) this.drop(connection);
  }

  /** The given connection if it is live, else any live one, preferably one that stays. */
  liveOr(connection: Connection): Connection | undefined {
    if (connection.live) return connection;
    const live = [...this.connections].filter((other) => other.live);
    return live.find((other) => !other.draining) ?? live[0];
  }

  /** Those that take steps, as far as their credit can be changed. */
  crediting(): Connection[] {
    return this.serving().filter((connection) => connection.takesCredit);
  }

  /** Closes the redundant connections that have nothing left to do. */
  closeDrained(): void {
    if (this.draining) return;
    for (const connection of [...this.connections]) {
      if (connection.draining && !this.options.isBusy(connection)) this.drop(connection);
    }
  }

  drain(): void {
    this.draining = true;
    clearTimeout(this.timer);
    for (const connection of this.connections) connection.drain();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    for (const connection of [...this.connections]) this.drop(connection);
  }

  /** Opens a further channel after a while, if a node is missing. */
  private searchNodes(): void {
    clearTimeout(this.timer);
    if (this.draining || this.closed) return;
    const met = new Set(this.serving().map((connection) => connection.nodeId));
    const connecting = [...this.connections].some((connection) => !connection.live && !connection.draining);
    if (met.size >= this.nodeCount || connecting) return;
    const { timing } = this.options;
    const rest = this.tries >= TRIES_PER_NODE * this.nodeCount;
    const wait = rest ? timing.lookAgainMs : jitteredBackoff(timing, Math.floor(this.tries / this.nodeCount)) / 4;
    this.tries = rest ? 0 : this.tries + 1;
    this.timer = setTimeout(() => this.open(), wait);
  }

  private serving(): Connection[] {
    return [...this.connections].filter((connection) => connection.live && !connection.draining);
  }

  private drop(connection: Connection): void {
    this.connections.delete(connection);
    connection.close();
  }
}
