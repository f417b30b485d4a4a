// The connections of a worker: one per node of the service. All nodes share an address, and nobody chooses on which one
// a channel lands, so it opens further ones until it has met them all, and gives up those that land where it is already.
import { Connection, type ConnectionOwner } from "./connection.js";
import type { Log } from "./log.js";
import type { HelloAck } from "./protocol.js";
import { jitteredBackoff, type Timing } from "./timing.js";

export interface FleetOptions {
  readonly target: string;
  readonly owner: ConnectionOwner;
  readonly timing: Timing;
  readonly log: Log;
  /** Whether steps or answers are still tied to the connection. */
  readonly busy: (connection: Connection) => boolean;
}

/** Channels opened in search of further nodes before it rests, for each node there is. */
const TRIES_PER_NODE = 6;

export class Fleet {
  readonly #connections = new Set<Connection>();
  #nodeCount = 1;
  #tries = 0;
  #timer: NodeJS.Timeout | undefined;
  #draining = false;
  #closed = false;

  constructor(private readonly options: FleetOptions) {}

  get size(): number {
    return this.#connections.size;
  }

  open(): void {
    if (this.#closed || this.#draining) return;
    const { target, owner, timing, log } = this.options;
    this.#connections.add(new Connection(target, owner, timing, log));
  }

  /** To be told of every acknowledgement: what is missing or too much is known from them. */
  acknowledged(connection: Connection, ack: HelloAck): void {
    if (ack.node_count !== this.#nodeCount) {
      this.#nodeCount = ack.node_count;
      this.#tries = 0;
    }
    const twin = this.#serving().some((other) => other !== connection && other.nodeId === connection.nodeId);
    if (twin) connection.drain();
    this.sweep();
    this.#look();
  }

  /** A connection that was lost: it opens itself again unless it was being given up. */
  lost(connection: Connection): void {
    if (connection.draining && !this.#draining) this.#drop(connection);
  }

  /** The one given if it is live, else any that is, rather one that stays. */
  liveOr(connection: Connection): Connection | undefined {
    if (connection.live) return connection;
    const live = [...this.#connections].filter((other) => other.live);
    return live.find((other) => !other.draining) ?? live[0];
  }

  /** Closes what was given up and has nothing left to do. */
  sweep(): void {
    if (this.#draining) return;
    for (const connection of [...this.#connections]) {
      if (connection.draining && !this.options.busy(connection)) this.#drop(connection);
    }
  }

  drain(): void {
    this.#draining = true;
    clearTimeout(this.#timer);
    for (const connection of this.#connections) connection.drain();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    for (const connection of [...this.#connections]) this.#drop(connection);
  }

  #look(): void {
    clearTimeout(this.#timer);
    if (this.#draining || this.#closed) return;
    const serving = this.#serving();
    const met = new Set(serving.map((connection) => connection.nodeId));
    const connecting = [...this.#connections].some((connection) => !connection.live && !connection.draining);
    if (met.size >= this.#nodeCount || connecting) return;
    const { timing } = this.options;
    const rest = this.#tries >= TRIES_PER_NODE * this.#nodeCount;
    const wait = rest ? timing.lookAgainMs : jitteredBackoff(timing, Math.floor(this.#tries / this.#nodeCount)) / 4;
    this.#tries = rest ? 0 : this.#tries + 1;
    this.#timer = setTimeout(() => this.open(), wait);
  }

  #serving(): Connection[] {
    return [...this.#connections].filter((connection) => connection.live && !connection.draining);
  }

  #drop(connection: Connection): void {
    this.#connections.delete(connection);
    connection.close();
  }
}
