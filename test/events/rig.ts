// A service with an exchange of its own at the broker, reached through a gate; and what a test does there itself: it publishes, and listens,
// also after the broker was away.
import type { Channel, ChannelModel, ConfirmChannel, ConsumeMessage, GetMessage, Options } from "amqplib";
import { topologyOf } from "../../src/events/topology.js";
import { BrokerLink } from "../../src/sdk/broker/index.js";
import { tenantHeader } from "../harness/access.js";
import { ownExchange, ownQueue } from "../harness/rabbitmq.js";
import { TcpGate } from "../harness/tcp-gate.js";
import { until } from "../harness/until.js";

/** A durable queue of the test. */
interface Listener {
  readonly queue: string;
  /** The binding to the exchange. Absent: only what is published to the queue itself. */
  readonly pattern?: string;
  readonly take: (message: ConsumeMessage) => void;
}

const HEARD = ".heard";
const silent = { info() {}, warn() {} };

export class Exchange {
  readonly name = ownExchange(HEARD);
  readonly queue = topologyOf(this.name).queue;
  readonly dead = topologyOf(this.name).dead;
  /** What a queue that is bound to everything got, in its order. */
  readonly heard: ConsumeMessage[] = [];
  private readonly listeners: Listener[] = [
    { queue: this.name + HEARD, pattern: "#", take: (message) => void this.heard.push(message) },
  ];
  private readonly link: BrokerLink;
  private current: ConfirmChannel | undefined;
  /** The way of the service to the broker. */
  readonly gate: TcpGate;

  private constructor(url: string) {
    this.gate = new TcpGate(new URL(url));
    this.link = new BrokerLink({
      ...{ url, name: "saga test", log: silent, backoffMaxMs: 500 },
      opened: (connection) => this.listen(connection),
      lost: () => {
        this.current = undefined;
      },
    });
  }

  /** The test has a way of its own to the broker, so that the service's alone can be cut. Where its own breaks, it comes back. */
  static async open(url: string): Promise<Exchange> {
    const exchange = new Exchange(url);
    await exchange.gate.open();
    exchange.link.start();
    await exchange.connected();
    return exchange;
  }

  private connected(): Promise<ConfirmChannel> {
    return until(() => this.current, { what: "the test's connection to the broker" });
  }

  /** Throws while the broker is away. */
  get channel(): ConfirmChannel {
    if (!this.current) throw new Error("the test has no connection to the broker");
    return this.current;
  }

  get env(): Readonly<Record<string, string>> {
    return this.envAt(this.gate.url);
  }

  /** For a service with another way to the broker. */
  envAt(url: string): Readonly<Record<string, string>> {
    return { AMQP_URL: url, SAGA_EVENTS_EXCHANGE: this.name };
  }

  private async listen(connection: ChannelModel): Promise<void> {
    const channel = await connection.createConfirmChannel();
    channel.on("error", (error) => this.link.reset(error.message, connection));
    channel.on("close", () => this.link.reset("the channel was closed", connection));
    await channel.assertExchange(this.name, "topic", { durable: true });
    for (const listener of this.listeners) await this.consume(channel, listener);
    this.current = channel;
  }

  private async consume(channel: Channel, { queue, pattern, take }: Listener): Promise<void> {
    await channel.assertQueue(queue, { durable: true });
    if (pattern !== undefined) await channel.bindQueue(queue, this.name, pattern);
    await channel.consume(queue, (message) => {
      if (!message) return;
      take(message);
      acknowledge(channel, message);
    });
  }

  /**
   * The message is at the broker on return. Until the broker has confirmed it, it is published again, unchanged: give it an id where the
   * connection may break.
   */
  async send(topic: string, body: unknown, options: Options.Publish = {}): Promise<void> {
    const content = Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body));
    const published = { persistent: true, ...options, headers: { ...tenantHeader(), ...options.headers } };
    const confirmed = () =>
      new Promise<boolean>((resolve) => {
        this.channel.publish(this.name, topic, content, published, (error) => resolve(!error));
      });
    await until(confirmed, { within: 120_000, pause: 200, what: `the broker's confirmation of ${topic}` });
  }

  /** While it goes on, the service has no way to the broker. */
  async cut(work: () => Promise<void>): Promise<void> {
    await this.gate.shut();
    await work().finally(() => this.gate.open());
  }

  /** A queue for the dispatches of this service, which a worker consumes; its name. */
  async work(service: string, take: (message: ConsumeMessage) => void): Promise<string> {
    const listener = { queue: ownQueue(service), take };
    this.listeners.push(listener);
    await this.consume(this.channel, listener);
    return listener.queue;
  }

  /** Messages that the queue has ready: neither taken nor in hand. */
  async ready(queue = this.queue): Promise<number> {
    return (await this.channel.checkQueue(queue)).messageCount;
  }

  /** Whether the message is among those that the queue has ready. They stay there. */
  async has(messageId: string): Promise<boolean> {
    const seen: GetMessage[] = [];
    for (let next = await this.channel.get(this.queue); next; next = await this.channel.get(this.queue))
      seen.push(next);
    for (const message of seen) this.channel.nack(message);
    return seen.some(({ properties }) => properties.messageId === messageId);
  }

  /** The next message that could not be taken. */
  async buried(): Promise<GetMessage | false> {
    return this.channel.get(this.dead, { noAck: true });
  }

  async close(): Promise<void> {
    await this.gate.shut();
    await this.link.stop();
  }
}

function acknowledge(channel: Channel, message: ConsumeMessage): void {
  try {
    channel.ack(message);
  } catch {
    // The channel is closing: the broker delivers the message again.
  }
}
