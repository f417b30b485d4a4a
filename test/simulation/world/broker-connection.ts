// A connection to the simulated broker, and its channels, with those members of amqplib's that the service uses. What is asked travels there and back; on a
// connection that is lost some of it is never answered.
import { EventEmitter } from "node:events";
import type { ChannelModel } from "amqplib";
import type { Surroundings } from "../../../src/cluster/foundations.js";
import type { BrokerMessage, Connected, Consumer, SimulatedBroker } from "./broker.js";
import type { Life } from "./world.js";

/** The reply codes of the protocol. */
const NOT_FOUND = 404;

/** A node's way to the broker. */
export function connectorOf(broker: SimulatedBroker, life: Life): Surroundings["connectBroker"] {
  return () =>
    new Promise((resolve, reject) => {
      const open = () => {
        if (broker.isAway) return reject(Object.assign(new Error("ECONNREFUSED"), { code: "ECONNREFUSED" }));
        const connection = new SimulatedConnection(broker, life);
        broker.began(connection);
        // amqplib's own has much more, which no code asks for.
        resolve(connection as unknown as ChannelModel);
      };
      broker.world.later(broker.latency(), open, life);
    });
}

class SimulatedConnection extends EventEmitter implements Connected {
  /** As amqplib has it. */
  readonly connection: { readonly stream: FakeStream };
  isOpen = true;
  private readonly channels = new Set<SimulatedChannel>();

  constructor(
    readonly broker: SimulatedBroker,
    readonly life: Life,
  ) {
    super();
    this.connection = { stream: new FakeStream(() => this.end()) };
  }

  createChannel(): Promise<SimulatedChannel> {
    return this.ask(() => this.opened());
  }

  createConfirmChannel(): Promise<SimulatedChannel> {
    return this.ask(() => this.opened());
  }

  async close(): Promise<void> {
    if (!this.isOpen) throw new Error("the connection is closed");
    await this.ask(() => this.end());
  }

  /** Both sides find out, the node after a while. */
  lose(why: string): void {
    if (!this.isOpen) return;
    this.end();
    const error = new Error(why);
    this.later(() => {
      this.emit("error", error);
      this.emit("close", error);
    });
  }

  tell(event: "blocked" | "unblocked"): void {
    this.later(() => this.isOpen && this.emit(event, "short of memory"));
  }

  later(happen: () => void, ms = this.broker.latency()): void {
    this.broker.world.later(ms, happen, this.life);
  }

  /** There, and back. Without a connection there is no answer. */
  ask<Value>(act: () => Value): Promise<Value> {
    return new Promise((resolve, reject) => {
      const { world } = this.broker;
      const there = () => {
        if (!this.isOpen) return;
        try {
          const value = act();
          this.later(() => resolve(value));
        } catch (error) {
          this.later(() => reject(error));
        }
      };
      world.later(this.broker.latency(), there, null);
    });
  }

  private opened(): SimulatedChannel {
    const channel = new SimulatedChannel(this);
    this.channels.add(channel);
    return channel;
  }

  private end(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.broker.ended(this);
    for (const channel of this.channels) channel.end();
    this.later(() => this.connection.stream.emit("close"));
    this.connection.stream.destroy();
  }
}

interface Options {
  readonly messageId?: string;
  readonly appId?: string;
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly expiration?: number | string;
  readonly mandatory?: boolean;
}

interface Consuming {
  readonly queue: string;
  readonly consumer: Consumer;
  readonly tag: string;
}

class SimulatedChannel extends EventEmitter {
  private isOpen = true;
  private most = 1_000;
  private consuming: Consuming | undefined;

  constructor(private readonly connection: SimulatedConnection) {
    super();
  }

  private get broker(): SimulatedBroker {
    return this.connection.broker;
  }

  checkQueue(queue: string): Promise<void> {
    return this.ask(() => this.demand(this.broker.queues.has(queue), `no queue ${queue}`));
  }

  checkExchange(exchange: string): Promise<void> {
    return this.ask(() => this.demand(this.broker.exchanges.has(exchange), `no exchange ${exchange}`));
  }

  assertQueue(queue: string): Promise<void> {
    return this.ask(() => this.broker.declare(queue));
  }

  assertExchange(exchange: string): Promise<void> {
    return this.ask(() => {
      if (!this.broker.exchanges.has(exchange)) this.broker.exchanges.set(exchange, new Set());
    });
  }

  bindQueue(queue: string, exchange: string): Promise<void> {
    return this.ask(() => {
      this.demand(this.broker.queues.has(queue) && this.broker.exchanges.has(exchange), `nothing to bind to ${queue}`);
      this.broker.bind(queue, exchange);
    });
  }

  async prefetch(count: number): Promise<void> {
    await this.ask(() => {
      this.most = count;
    });
  }

  consume(queue: string, deliver: (message: object | null) => void): Promise<{ readonly consumerTag: string }> {
    return this.ask(() => {
      this.demand(this.broker.queues.has(queue), `no queue ${queue}`);
      const consumer: Consumer = {
        ...{ prefetch: this.most, unacknowledged: new Map() },
        deliver: (tag, { message, isAgain }) => {
          this.connection.later(() => this.isOpen && deliver(asDelivered(message, tag, isAgain)));
        },
      };
      this.consuming = { queue, consumer, tag: "in" };
      this.broker.consume(queue, consumer);
      return { consumerTag: "in" };
    });
  }

  /** Those in hand may still be acknowledged. */
  cancel(): Promise<void> {
    return this.ask(() => {
      const { consuming } = this;
      if (consuming) this.broker.leave(consuming.queue, consuming.consumer, true);
    });
  }

  ack({ fields }: { readonly fields: { readonly deliveryTag: number } }): void {
    if (!this.isOpen) throw new Error("the channel is closed");
    const { consuming, broker, connection } = this;
    if (!consuming) return;
    const there = () => {
      if (connection.isOpen) broker.acknowledge(consuming.queue, consuming.consumer, fields.deliveryTag);
    };
    broker.world.later(broker.latency(), there, null);
  }

  publish(
    exchange: string,
    routingKey: string,
    body: Buffer,
    options: Options,
    confirmed: (error: unknown) => void,
  ): boolean {
    if (!this.isOpen) throw new Error("the channel is closed");
    const { messageId = "", appId, headers = {}, expiration, mandatory } = options;
    const { world } = this.broker;
    const message: BrokerMessage = {
      ...{ exchange, routingKey, body, messageId, appId, headers },
      ...(expiration !== undefined && { until: world.now + Number(expiration) }),
    };
    world.later(this.broker.latency(), () => this.arrived(message, mandatory === true, confirmed), null);
    return true;
  }

  async close(): Promise<void> {
    if (!this.isOpen) throw new Error("the channel is closed");
    await this.ask(() => this.end());
  }

  /** What it had in hand is delivered again. */
  end(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    const { consuming } = this;
    if (consuming) this.broker.leave(consuming.queue, consuming.consumer);
  }

  private arrived(message: BrokerMessage, mandatory: boolean, confirmed: (error: unknown) => void): void {
    const { connection, broker } = this;
    const { faults } = broker;
    if (!connection.isOpen) return;
    const drawn = broker.chance();
    if (drawn < faults.lostBefore) {
      broker.count("lostBefore");
      return connection.lose("the connection was reset");
    }
    const isNacked = drawn < faults.lostBefore + faults.nacked;
    const isRouted = !isNacked && broker.take(message);
    if (drawn > 1 - faults.lostAfter) {
      broker.count("lostAfter");
      return connection.lose("the connection was reset");
    }
    if (isNacked) broker.count("nacked");
    const { messageId } = message;
    // In this order, as the protocol says.
    const back = () => {
      if (!connection.isOpen) return;
      if (!isRouted && !isNacked && mandatory) this.emit("return", { properties: { messageId } });
      confirmed(isNacked ? new Error("nacked") : null);
    };
    if (!isRouted && !isNacked && mandatory) broker.count("returned");
    connection.later(back, broker.heldMs());
  }

  private ask<Value>(act: () => Value): Promise<Value> {
    if (!this.isOpen) return Promise.reject(new Error("the channel is closed"));
    return this.connection.ask(() => {
      if (!this.isOpen) throw new Error("the channel is closed");
      return act();
    });
  }

  /** The broker closes a channel over what it refuses. */
  private demand(isThere: boolean, what: string): void {
    if (isThere) return;
    const error = Object.assign(new Error(what), { code: NOT_FOUND });
    this.end();
    this.connection.later(() => {
      this.emit("error", error);
      this.emit("close");
    });
    throw error;
  }
}

const asDelivered = (message: BrokerMessage, deliveryTag: number, redelivered: boolean) => ({
  content: message.body,
  fields: { deliveryTag, redelivered, routingKey: message.routingKey, exchange: message.exchange },
  properties: { messageId: message.messageId, appId: message.appId, headers: message.headers },
});

/** What amqplib calls the stream of a connection. */
class FakeStream extends EventEmitter {
  private isDestroyed = false;

  constructor(private readonly gone: () => void) {
    super();
  }

  destroy(): void {
    if (this.isDestroyed) return;
    this.isDestroyed = true;
    this.gone();
  }
}
