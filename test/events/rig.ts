// A service with an exchange of its own at the broker, reached through a gate; and what a test does there itself: it publishes, and listens.
import { randomUUID } from "node:crypto";
import { type ConfirmChannel, type ConsumeMessage, connect, type GetMessage, type Options } from "amqplib";
import { TcpGate } from "../harness/tcp-gate.js";

export class Exchange {
  readonly name = `saga-test.${randomUUID()}`;
  readonly queue = `${this.name}.in`;
  readonly dead = `${this.name}.dead`;
  /** What a queue that is bound to everything got, in its order. */
  readonly heard: ConsumeMessage[] = [];

  private constructor(
    private readonly connection: Awaited<ReturnType<typeof connect>>,
    readonly channel: ConfirmChannel,
    /** The way of the service to the broker. */
    readonly gate: TcpGate,
  ) {}

  /** The test has a way of its own to the broker: it is the service's that is cut. */
  static async open(url: string): Promise<Exchange> {
    const gate = new TcpGate(new URL(url));
    await gate.open();
    const connection = await connect(url);
    const exchange = new Exchange(connection, await connection.createConfirmChannel(), gate);
    await exchange.listen();
    return exchange;
  }

  get env(): Readonly<Record<string, string>> {
    return { AMQP_URL: this.gate.url, SAGA_EVENTS_EXCHANGE: this.name };
  }

  private async listen(): Promise<void> {
    const { channel, name, heard } = this;
    await channel.assertExchange(name, "topic", { durable: true });
    const { queue } = await channel.assertQueue("", { exclusive: true });
    await channel.bindQueue(queue, name, "#");
    await channel.consume(queue, (message) => message && heard.push(message), { noAck: true });
  }

  /** The message is at the broker on return. */
  async send(topic: string, body: unknown, options: Options.Publish = {}): Promise<void> {
    const content = Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body));
    this.channel.publish(this.name, topic, content, options);
    await this.channel.waitForConfirms();
  }

  /** While it goes on, the service has no way to the broker. */
  async cut(work: () => Promise<void>): Promise<void> {
    await this.gate.shut();
    await work().finally(() => this.gate.open());
  }

  /** A queue for dispatches, which a worker consumes; its name. */
  async work(take: (message: ConsumeMessage) => Promise<void>): Promise<string> {
    const { queue } = await this.channel.assertQueue("", { exclusive: true });
    await this.channel.consume(queue, (message) => {
      if (message) void take(message).then(() => this.channel.ack(message));
    });
    return queue;
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
    for (const queue of [this.queue, this.dead]) await this.channel.deleteQueue(queue);
    await this.channel.deleteExchange(this.name);
    await this.connection.close();
  }
}
