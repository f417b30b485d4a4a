// A broker, as its clients see it over amqplib: durable queues and exchanges, confirms, returns, acknowledgements and redelivery. It is cut at the connection of
// amqplib, not at its socket: frames are not spoken here. It refuses, loses connections before and after it has a message, and holds back what it confirms.
import type { Chance, Life, World } from "./world.js";

export interface BrokerMessage {
  readonly exchange: string;
  readonly routingKey: string;
  readonly body: Buffer;
  readonly messageId: string;
  readonly appId: string | undefined;
  readonly headers: Readonly<Record<string, unknown>>;
  /** It is dropped then, in simulated time. Absent: never. */
  readonly until?: number;
}

export interface Delivered {
  readonly message: BrokerMessage;
  readonly isAgain: boolean;
}

/** Who takes messages of a queue. What it does not acknowledge goes to another when it is gone. */
export interface Consumer {
  readonly prefetch: number;
  readonly unacknowledged: Map<number, BrokerMessage>;
  deliver(tag: number, delivered: Delivered): void;
}

/** A connection of a node. */
export interface Connected {
  readonly life: Life;
  /** Both sides find out. */
  lose(why: string): void;
  tell(event: "blocked" | "unblocked"): void;
}

interface Queue {
  readonly messages: Delivered[];
  readonly consumers: Consumer[];
}

/** Of a message that is published or delivered, from 0 to 1. */
export interface BrokerFaults {
  /** The connection is lost, and the message with it; or the broker has it. */
  readonly lostBefore: number;
  readonly lostAfter: number;
  readonly heldConfirm: number;
  readonly nacked: number;
  readonly redelivered: number;
}

export const NO_BROKER_FAULTS: BrokerFaults = {
  ...{ lostBefore: 0, lostAfter: 0, heldConfirm: 0, nacked: 0, redelivered: 0 },
};

const LATENCY_MS = 3;
const HELD_MS = 15_000;

export class SimulatedBroker {
  faults: BrokerFaults = NO_BROKER_FAULTS;
  isAway = false;
  readonly seen: Record<string, number> = {};
  readonly queues = new Map<string, Queue>();
  /** The queues that are bound to all of an exchange. */
  readonly exchanges = new Map<string, Set<string>>();
  /** What has come to an exchange, in order. */
  readonly published: BrokerMessage[] = [];
  private readonly connections = new Set<Connected>();
  private tags = 0;

  constructor(
    readonly world: World,
    readonly chance: Chance,
  ) {}

  latency(): number {
    return this.chance() * LATENCY_MS;
  }

  /** Connections of one node, or all of them, are lost. */
  cut(life?: Life): void {
    for (const connection of [...this.connections])
      if (!life || connection.life === life) connection.lose("the connection was reset");
  }

  /** A node that is gone has no connections any more. */
  sweep(): void {
    for (const connection of [...this.connections]) if (!connection.life.isAlive) connection.lose("it is gone");
  }

  block(isBlocked: boolean): void {
    for (const connection of this.connections) connection.tell(isBlocked ? "blocked" : "unblocked");
  }

  began(connection: Connected): void {
    this.connections.add(connection);
  }

  ended(connection: Connected): void {
    this.connections.delete(connection);
  }

  declare(queue: string): void {
    if (!this.queues.has(queue)) this.queues.set(queue, { messages: [], consumers: [] });
  }

  /** With all that is in it. */
  remove(queue: string): void {
    this.queues.delete(queue);
    for (const bound of this.exchanges.values()) bound.delete(queue);
  }

  bind(queue: string, exchange: string): void {
    this.exchanges.get(exchange)?.add(queue);
  }

  /** Whether a queue has it. */
  take(message: BrokerMessage): boolean {
    const { exchange, routingKey } = message;
    this.count(exchange === "" ? routingKey : exchange);
    if (exchange !== "") this.published.push(message);
    const names = exchange === "" ? [routingKey] : [...(this.exchanges.get(exchange) ?? [])];
    const queues = names.flatMap((name) => this.queues.get(name) ?? []);
    for (const queue of queues) {
      queue.messages.push({ message, isAgain: false });
      this.serve(queue);
    }
    return queues.length > 0;
  }

  consume(name: string, consumer: Consumer): void {
    const queue = this.queues.get(name);
    if (!queue) return;
    queue.consumers.push(consumer);
    this.serve(queue);
  }

  acknowledge(name: string, consumer: Consumer, tag: number): void {
    consumer.unacknowledged.delete(tag);
    const queue = this.queues.get(name);
    if (queue) this.serve(queue);
  }

  /** What it has not acknowledged is delivered again. */
  leave(name: string, consumer: Consumer, keeps = false): void {
    const queue = this.queues.get(name);
    const at = queue?.consumers.indexOf(consumer) ?? -1;
    if (at >= 0) queue?.consumers.splice(at, 1);
    if (keeps) return;
    const again = [...consumer.unacknowledged.values()].map((message) => ({ message, isAgain: true }));
    consumer.unacknowledged.clear();
    queue?.messages.unshift(...again);
    if (queue) this.serve(queue);
  }

  count(what: string): void {
    this.seen[what] = (this.seen[what] ?? 0) + 1;
  }

  heldMs(): number {
    if (this.chance() >= this.faults.heldConfirm) return this.latency();
    this.count("heldConfirm");
    return this.chance() * HELD_MS;
  }

  private serve(queue: Queue): void {
    while (queue.messages.length > 0) {
      const [first] = queue.messages as [Delivered];
      const consumer = queue.consumers.find(({ prefetch, unacknowledged }) => unacknowledged.size < prefetch);
      if (!consumer) return;
      queue.messages.shift();
      const { until = Number.POSITIVE_INFINITY } = first.message;
      if (until <= this.world.now) continue;
      // The consumers take turns.
      queue.consumers.push(...queue.consumers.splice(queue.consumers.indexOf(consumer), 1));
      const tag = ++this.tags;
      consumer.unacknowledged.set(tag, first.message);
      consumer.deliver(tag, first);
    }
  }
}
