// Publishes messages that must arrive: persistent, confirmed by the broker, and returned if no queue takes them. It does not try again: its
// owner knows whether that is wanted.
import type { ChannelModel, ConfirmChannel } from "amqplib";
import { BrokerLink, type BrokerLinkOptions, type BrokerLog } from "./link.js";

/** Ten years of 365 days. RabbitMQ closes the channel over a longer one. */
const LONGEST_EXPIRATION_MS = 315_360_000_000;

export interface Message {
  /** Empty: the default exchange, where the routing key is the name of a queue. */
  readonly exchange: string;
  readonly routingKey: string;
  /** Unique among those that are not confirmed yet. */
  readonly id: string;
  readonly body: Buffer;
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, unknown>>;
  /** The broker drops it after this time, unless it is longer than the broker takes. */
  readonly expirationMs?: number;
  /** False: it is confirmed also if no queue takes it. Default true. */
  readonly mandatory?: boolean;
  /** Default `saga`; undefined: none. */
  readonly appId?: string | undefined;
}

/** `confirmed`: a queue has it. `returned`: no queue took it. `unsent`: there was no connection. `unknown`: a queue may have it. */
export type Published = "confirmed" | "returned" | "unsent" | "unknown";

export interface PublisherOptions extends Pick<BrokerLinkOptions, "connect"> {
  readonly url: string;
  readonly name: string;
  readonly log: BrokerLog;
  /** Declares what messages are published to, on every new connection. */
  readonly declare?: (connection: ChannelModel) => Promise<unknown>;
  /** It can publish (again). */
  readonly opened?: () => void;
  /** It can publish no more, for now. */
  readonly closed?: () => void;
  readonly backoffMs?: number;
  readonly backoffMaxMs?: number;
}

export class Publisher {
  private readonly link: BrokerLink;
  private channel: ConfirmChannel | undefined;
  /** When it lost its connection, or the broker ran short of memory or disk and takes nothing. Epoch milliseconds; undefined: it publishes. */
  closedSince: number | undefined = Date.now();
  /** Messages that are not confirmed yet. */
  private readonly unconfirmed = new Map<string, (outcome: Published) => void>();
  private readonly returned = new Set<string>();

  constructor(private readonly options: PublisherOptions) {
    this.link = new BrokerLink({
      ...options,
      opened: (connection) => this.open(connection),
      lost: () => this.lost(),
    });
  }

  get isOpen(): boolean {
    return this.closedSince === undefined;
  }

  start(): void {
    this.link.start();
  }

  async stop(): Promise<void> {
    await this.link.stop();
    this.lost();
  }

  publish(message: Message): Promise<Published> {
    const { channel } = this;
    if (!channel) return Promise.resolve("unsent");
    if (this.unconfirmed.has(message.id)) return Promise.resolve("unknown");
    return new Promise((resolve) => {
      this.unconfirmed.set(message.id, resolve);
      try {
        send(channel, message, (error) => this.settle(message.id, error ? "unknown" : "confirmed"));
      } catch {
        // The channel is closing.
        this.settle(message.id, "unsent");
      }
    });
  }

  private async open(connection: ChannelModel): Promise<void> {
    const channel = await connection.createConfirmChannel();
    channel.on("error", (error) => this.link.reset(error.message, connection));
    channel.on("close", () => this.link.reset("the channel was closed", connection));
    // The broker confirms a message that it has returned.
    channel.on("return", ({ properties }) => {
      if (this.unconfirmed.has(properties.messageId)) this.returned.add(properties.messageId);
    });
    await this.options.declare?.(connection);
    connection.on("blocked", () => this.block(true));
    connection.on("unblocked", () => this.block(false));
    this.channel = channel;
    this.block(false);
  }

  private block(blocked: boolean): void {
    const { name, log, opened, closed } = this.options;
    if (blocked) log.warn({ name }, "RabbitMQ takes no messages, it is short of resources");
    this.closedSince = blocked ? Date.now() : undefined;
    if (blocked) closed?.();
    else opened?.();
  }

  private lost(): void {
    this.channel = undefined;
    this.closedSince ??= Date.now();
    this.options.closed?.();
    for (const id of [...this.unconfirmed.keys()]) this.settle(id, "unknown");
  }

  private settle(id: string, outcome: Published): void {
    const resolve = this.unconfirmed.get(id);
    this.unconfirmed.delete(id);
    const isReturned = this.returned.delete(id);
    resolve?.(isReturned ? "returned" : outcome);
  }
}

function send(channel: ConfirmChannel, message: Message, confirmed: (error: unknown) => void): void {
  const {
    exchange,
    routingKey,
    id: messageId,
    body,
    contentType = "application/json",
    headers,
    expirationMs,
    mandatory = true,
  } = message;
  const appId = "appId" in message ? message.appId : "saga";
  const properties = { persistent: true, mandatory, messageId, contentType, headers, appId };
  const ms = Math.max(Math.ceil(expirationMs ?? Number.POSITIVE_INFINITY), 0);
  const expiration = ms > LONGEST_EXPIRATION_MS ? {} : { expiration: ms };
  channel.publish(exchange, routingKey, body, { ...properties, ...expiration }, confirmed);
}
