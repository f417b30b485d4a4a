// A RabbitMQ worker: takes steps from its queue, as many at once as its prefetch allows, and acknowledges each when its answer is recorded.
// What cannot be read goes to a queue of its own, with the reason.
import type { ChannelModel, ConfirmChannel, ConsumeMessage } from "amqplib";
import { BrokerLink, ensureQueue, refuseStream } from "../../broker/index.js";
import { CalledWorkerCore } from "../callback/core.js";
import { type CalledStep, readMessage, readStep } from "../callback/message.js";
import { CALLED_MEMBERS, type CalledWorkerOptions } from "../callback/options.js";
import { type Handles, HandlingWorker } from "../handlers.js";
import { checkWorker } from "../options.js";

export interface RabbitMqWorkerOptions extends CalledWorkerOptions {
  /** "amqp://user:password@host:port/vhost". */
  readonly url: string;
  /** The queue that the actions are registered with. */
  readonly queue: string;
  /** Steps in progress at once. Default 16. */
  readonly prefetch?: number;
  /** Declare the queue, durable, and the queue of unreadable messages. False: both exist. Default true. */
  readonly declare?: boolean;
  /** Where unreadable messages go. Default: the queue's name with `.dead`. */
  readonly deadQueue?: string;
}

export interface RabbitMqWorker extends Handles {
  /** Resolves when the queue is consumed and the actions are registered. Rejects if the orchestrator refuses them or there are none. */
  start(): Promise<void>;
  /** Takes no more steps, finishes those in progress and reports their answers. Never rejects. */
  stop(): Promise<void>;
}

const MEMBERS: Readonly<Record<keyof RabbitMqWorkerOptions, true>> = {
  ...CALLED_MEMBERS,
  ...{ url: true, queue: true, prefetch: true, declare: true, deadQueue: true },
};

/** Throws TypeError if an option is missing, malformed or unknown. Connects to nothing before `start`. */
export function createRabbitMqWorker(options: RabbitMqWorkerOptions): RabbitMqWorker {
  checkWorker(options, MEMBERS);
  return new QueueWorker(options);
}

class QueueWorker extends HandlingWorker implements RabbitMqWorker {
  private readonly core: CalledWorkerCore;
  private readonly link: BrokerLink;
  private channel: ConfirmChannel | undefined;
  private consumerTag: string | undefined;
  private started: Promise<void> | undefined;
  private stopped: Promise<void> | undefined;
  private onConsuming: () => void = () => {};

  constructor(private readonly options: RabbitMqWorkerOptions) {
    super(options.service);
    this.core = new CalledWorkerCore(options, this.handlers, true);
    const { backoffMs, backoffMaxMs } = this.core.timing;
    this.link = new BrokerLink({
      ...{ url: options.url, name: `saga worker ${options.service}`, log: this.core.log, backoffMs, backoffMaxMs },
      opened: (connection) => this.consume(connection),
      lost: () => {
        this.channel = undefined;
      },
    });
  }

  start(): Promise<void> {
    this.started ??= this.begin();
    return this.started;
  }

  stop(): Promise<void> {
    this.stopped ??= this.end();
    return this.stopped;
  }

  private async begin(): Promise<void> {
    // Before a step can come.
    this.handlers.seal();
    const consuming = new Promise<void>((resolve) => {
      this.onConsuming = resolve;
    });
    this.link.start();
    await consuming;
    // The queue exists before the first step is sent to it.
    await this.core.register({ transport: "rmq", address: this.options.queue });
  }

  private async end(): Promise<void> {
    const { channel, consumerTag } = this;
    if (channel && consumerTag !== undefined) await channel.cancel(consumerTag).catch(() => {});
    await this.core.stop();
    // Messages that are moved aside are acknowledged once the broker has them.
    await channel?.waitForConfirms().catch(() => {});
    this.onConsuming();
    await this.link.stop();
  }

  private async consume(connection: ChannelModel): Promise<void> {
    const { queue, prefetch = 16, declare = true } = this.options;
    const channel = await connection.createConfirmChannel();
    channel.on("error", (error) => this.link.reset(error.message, connection));
    channel.on("close", () => this.link.reset("the channel was closed", connection));
    if (declare) {
      for (const name of [queue, this.deadQueue]) await ensureQueue(connection, name);
      await refuseStream(connection, queue);
    }
    await channel.prefetch(prefetch);
    this.channel = channel;
    const take = (message: ConsumeMessage | null) => {
      // Without a message the broker has cancelled the consumer: the queue was deleted.
      if (message) void this.take(channel, message);
      else this.link.reset("the queue was deleted", connection);
    };
    this.consumerTag = (await channel.consume(queue, take)).consumerTag;
    this.onConsuming();
    this.core.cameBack();
  }

  private get deadQueue(): string {
    return this.options.deadQueue ?? `${this.options.queue}.dead`;
  }

  private async take(channel: ConfirmChannel, message: ConsumeMessage): Promise<void> {
    let call: CalledStep;
    try {
      call = readStep(readMessage(message.content));
    } catch (error) {
      return this.bury(channel, message, error instanceof Error ? error.message : "it cannot be read");
    }
    const answer = await this.core.execute(call);
    if (answer) await this.core.report(call, answer);
    this.acknowledge(channel, message);
  }

  /** The message is acknowledged when the other queue has it. */
  private bury(channel: ConfirmChannel, message: ConsumeMessage, reason: string): void {
    this.core.log.error({ messageId: message.properties.messageId, reason }, "message cannot be read, moving it aside");
    const { headers, messageId, contentType } = message.properties;
    const properties = { persistent: true, messageId, contentType, headers: { ...headers, "x-saga-reason": reason } };
    try {
      channel.sendToQueue(this.deadQueue, message.content, properties, (error) => {
        if (!error) this.acknowledge(channel, message);
      });
    } catch {
      // The channel is closing: the broker delivers the message again.
    }
  }

  /** A message of a channel that is gone is delivered again, and gets the same answer. */
  private acknowledge(channel: ConfirmChannel, message: ConsumeMessage): void {
    if (this.channel !== channel) return;
    try {
      channel.ack(message);
    } catch {
      // The channel is closing: the broker delivers the message again.
    }
  }
}
