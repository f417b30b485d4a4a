// A connection to RabbitMQ that comes back: opened again, after a pause that doubles, whenever it is lost. What runs on the connection is its
// owner's; a channel that fails takes its connection with it, so there is one way to recover.
import type { Duplex } from "node:stream";
import type { ChannelModel } from "amqplib";
import { backoff } from "../backoff.js";

/** As amqplib's own. */
export type ConnectBroker = (url: string, options: object) => Promise<ChannelModel>;

type Line = (fields: Readonly<Record<string, unknown>>, message: string) => void;

export interface BrokerLog {
  readonly info: Line;
  readonly warn: Line;
}

export interface BrokerLinkOptions {
  /** Messages and errors never show it: it holds a password. */
  readonly url: string;
  /** Shown in the broker's list of connections. */
  readonly name: string;
  readonly log: BrokerLog;
  /** Sets up what runs on a new connection. A rejection closes it; another follows. */
  readonly opened: (connection: ChannelModel) => Promise<void>;
  /** What ran on the connection is gone. */
  readonly lost: () => void;
  /** Pause before a further try: doubled with every failure, with jitter. In milliseconds. */
  readonly backoffMs?: number;
  readonly backoffMaxMs?: number;
  /** A simulation's, in place of amqplib. */
  readonly connect?: ConnectBroker | undefined;
}

const CONNECT_MS = 10_000;
const CLOSE_MS = 1_000;
/** Both sides send one every half of it; a connection that is silent for twice as long is lost. */
const HEARTBEAT_SECONDS = 10;

export class BrokerLink {
  private connection: ChannelModel | undefined;
  private connecting: Promise<void> | undefined;
  private timer: NodeJS.Timeout | undefined;
  private failures = 0;
  /** Why there is no connection, as the log says. */
  private said: string | undefined;
  private stopped = false;
  /** Ends the try that sets up the connection. */
  private giveUp = () => {};

  constructor(private readonly options: BrokerLinkOptions) {}

  start(): void {
    if (!this.stopped)
      this.connecting ??= this.open().finally(() => {
        this.connecting = undefined;
      });
  }

  /** Safe to call twice. */
  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    await this.connecting;
    const { connection } = this;
    this.connection = undefined;
    if (connection) await close(connection);
  }

  /**
   * Closes the connection, on which nothing works any more. Another follows. `of`: the connection that the reason is about. What is heard late of an
   * earlier one changes nothing.
   */
  reset(reason: string, of = this.connection): void {
    const { connection } = this;
    if (!connection || connection !== of) return;
    this.lose(connection, reason);
    void close(connection);
  }

  private async open(): Promise<void> {
    const { url, name, opened, log } = this.options;
    try {
      // Loaded where it is used: most services and workers have no broker.
      const connect = this.options.connect ?? (await import("amqplib")).default.connect;
      const clientProperties = { connection_name: name };
      const connection = await connect(withHeartbeat(url), {
        timeout: CONNECT_MS,
        noDelay: true,
        clientProperties,
      });
      // Without a listener an error would end the process; the event `close` follows it.
      connection.on("error", () => {});
      connection.on("close", (error?: Error) => this.lose(connection, error?.message ?? "closed"));
      this.connection = connection;
      if (this.stopped) return;
      // A request over a connection that is lost may wait without end, and its close takes longer than a pause: the next try waits for neither.
      const gone = new Promise<void>((resolve) => {
        this.giveUp = resolve;
      });
      await Promise.race([opened(connection), gone]);
      if (this.connection !== connection) return;
      if (this.failures > 0) log.info({ name }, "connected to RabbitMQ again");
      this.failures = 0;
      this.said = undefined;
    } catch (error) {
      if (this.connection) this.reset(messageOf(error));
      else this.again(messageOf(error));
    }
  }

  private lose(connection: ChannelModel, reason: string): void {
    if (this.connection !== connection) return;
    this.connection = undefined;
    this.giveUp();
    this.options.lost();
    this.again(reason);
  }

  private again(reason: string): void {
    if (this.stopped) return;
    const { name, log, backoffMs: base = 100, backoffMaxMs: cap = 5_000 } = this.options;
    // Another reason, such as a permission that was taken away, is one that an operator can do something about.
    if (this.said !== reason) log.warn({ name, reason }, "connection to RabbitMQ lost, connecting again");
    this.said = reason;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.start(), backoff(this.failures++, { base, cap }));
  }
}

/** Closes the connection in order if the broker answers in time. */
async function close(connection: ChannelModel): Promise<void> {
  const { stream } = connection.connection as unknown as { readonly stream: Duplex };
  const timer = setTimeout(() => stream.destroy(), CLOSE_MS);
  const gone = new Promise((resolve) => stream.once("close", resolve));
  await Promise.race([connection.close().catch(() => {}), gone]);
  clearTimeout(timer);
  // amqplib ends its side only, and a broker that hangs never ends the other.
  stream.destroy();
}

/** Unless the URL has one. */
function withHeartbeat(url: string): string {
  const parsed = new URL(url);
  if (!parsed.searchParams.has("heartbeat")) parsed.searchParams.set("heartbeat", String(HEARTBEAT_SECONDS));
  return parsed.href;
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));
