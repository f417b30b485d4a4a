// The bus over Redis pub/sub. It keeps nothing for a Redis that is away: what is published meanwhile is dropped, and the
// subscriptions are made again when it is back.
import { Redis, type RedisOptions } from "ioredis";
import type { JsonObject } from "../../machines/index.js";
import { isUuid, shardOf } from "../ids.js";
import type { Logger } from "../log.js";
import type { Bus, BusOptions } from "./bus.js";
import { Exchange, fits, parsedObject } from "./exchange.js";
import { Window } from "./window.js";

export interface RedisBusOptions extends BusOptions {
  /** `redis:` or `rediss:` URL. */
  readonly url: string;
  /** Stands before every channel name: one Redis can serve several installations. */
  readonly prefix: string;
}

/** A connection that went dead without a word is found within this and the command timeout. */
const PING_MS = 5_000;
const MAX_BACKOFF_MS = 1_000;
/** What ioredis says of a command that had no reply in `commandTimeout`. */
const TIMED_OUT = "Command timed out";

const CONNECTION: RedisOptions = {
  lazyConnect: true,
  connectTimeout: 2_000,
  // Without it a command whose connection breaks would never settle: ioredis forgets it when it does not send it again.
  commandTimeout: 2_000,
  disconnectTimeout: 200,
  keepAlive: 10_000,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  autoResubscribe: false,
  maxRetriesPerRequest: null,
  disableClientInfo: true,
  retryStrategy: (tries) => Math.min(20 * 2 ** Math.min(tries, 10), MAX_BACKOFF_MS),
};

/** A Redis that is down does not fail this: the bus is silent until it is there. Waits for the first try, whatever its end. */
export async function createRedisBus(options: RedisBusOptions): Promise<Bus> {
  const bus = new RedisBus(options);
  await bus.start();
  return bus;
}

class RedisBus implements Bus {
  private readonly publisher: Redis;
  private readonly subscriber: Redis;
  private readonly exchange: Exchange;
  private readonly window = new Window();
  private readonly log: Logger;
  private readonly advanceChannels: string;
  private readonly nodeChannels: string;
  private readonly ownChannel: string;
  private wanted: ReadonlySet<string>;
  private subscribed: Promise<void> = Promise.resolve();
  /** A subscription failed on a living connection: the next tick makes them all again. */
  private incomplete = false;
  private reached: boolean | undefined;
  private lastError = "";
  private ticking: NodeJS.Timeout | undefined;
  private stopping: Promise<void> | undefined;

  constructor({ url, prefix, nodeId, handlers, log }: RedisBusOptions) {
    this.log = log;
    // Public names (docs/contract, "Settings"): must never change.
    this.advanceChannels = `${prefix}saga:advance:`;
    this.nodeChannels = `${prefix}saga:node:`;
    this.ownChannel = `${this.nodeChannels}${nodeId}`;
    this.wanted = new Set([this.ownChannel]);
    const send = (to: string, text: string, askId?: string) => this.publish(`${this.nodeChannels}${to}`, text, askId);
    this.exchange = new Exchange({ nodeId, handlers, log, send });
    const connectionName = `saga-bus:${nodeId.replace(/[^\w.-]/g, "_")}`;
    this.publisher = this.watched(new Redis(url, { ...CONNECTION, connectionName }));
    this.subscriber = this.watched(new Redis(url, { ...CONNECTION, connectionName }));
    this.subscriber.on("ready", () => this.subscribe([...this.wanted]));
    this.subscriber.on("message", (channel: string, text: string) => this.heard(channel, text));
  }

  async start(): Promise<void> {
    this.ticking = setInterval(() => this.tick(), PING_MS).unref();
    try {
      await Promise.all([this.publisher.connect(), this.subscriber.connect()]);
      await this.subscribed;
    } catch {
      // Said by `noteReached`; ioredis goes on trying.
    }
  }

  advance(runId: string): void {
    if (!isUuid(runId)) return this.exchange.tally.drop("malformed");
    this.publish(`${this.advanceChannels}${shardOf(runId)}`, JSON.stringify({ run_id: runId }));
  }

  listen(shards: ReadonlySet<number>): void {
    this.exchange.listen(shards);
    const before = this.wanted;
    this.wanted = new Set([this.ownChannel, ...[...shards].map((shard) => `${this.advanceChannels}${shard}`)]);
    if (this.stopping || this.subscriber.status !== "ready") return;
    const fresh = [...this.wanted].filter((channel) => !before.has(channel));
    const gone = [...before].filter((channel) => !this.wanted.has(channel));
    if (fresh.length > 0) this.subscribe(fresh);
    // Should it fail, the exchange drops what still comes.
    if (gone.length > 0) this.subscriber.unsubscribe(...gone).catch(() => this.exchange.tally.drop("lost under way"));
  }

  ask(nodeId: string, request: JsonObject, withinMs: number): Promise<JsonObject | undefined> {
    return this.exchange.ask(nodeId, request, withinMs);
  }

  tell(nodeId: string, message: JsonObject): void {
    this.exchange.tell(nodeId, message);
  }

  stop(): Promise<void> {
    this.stopping ??= this.end();
    return this.stopping;
  }

  private publish(channel: string, text: string, askId?: string): void {
    const sent = this.publisher.status === "ready" && !this.stopping && this.window.take(text.length);
    if (!sent) {
      this.exchange.tally.drop("nothing takes it");
      if (askId !== undefined) this.exchange.unheard(askId);
      return;
    }
    this.publisher
      .publish(channel, text)
      .then((hearers) => {
        if (hearers === 0 && askId !== undefined) this.exchange.unheard(askId);
      })
      .catch(() => this.exchange.tally.drop("lost under way"))
      .finally(() => this.window.giveBack(text.length));
  }

  private heard(channel: string, text: string): void {
    if (channel === this.ownChannel) return this.exchange.heard(text);
    const runId = fits(text) ? parsedObject(text)?.run_id : undefined;
    const inPlace = typeof runId === "string" && channel === `${this.advanceChannels}${shardOf(runId)}`;
    this.exchange.heardAdvance(inPlace ? runId : undefined);
  }

  private subscribe(channels: readonly string[]): void {
    this.incomplete = false;
    this.subscribed = this.subscriber.subscribe(...channels).then(
      () => undefined,
      () => {
        this.incomplete = true;
      },
    );
  }

  private tick(): void {
    if (this.incomplete && this.subscriber.status === "ready") this.subscribe([...this.wanted]);
    for (const connection of [this.publisher, this.subscriber]) {
      if (connection.status !== "ready") continue;
      connection.ping().catch((error: Error) => {
        if (error.message === TIMED_OUT && !this.stopping) connection.disconnect(true);
      });
    }
  }

  private watched(connection: Redis): Redis {
    connection.on("error", (error: Error) => {
      // The words alone: an error of ioredis carries its command, and that of AUTH has the password.
      this.lastError = error.message;
    });
    connection.on("ready", () => {
      if (this.publisher.status === "ready" && this.subscriber.status === "ready") this.noteReached(true);
    });
    connection.on("close", () => this.noteReached(false));
    return connection;
  }

  /** One line when Redis goes and one when it comes, however many tries lie between. */
  private noteReached(reached: boolean): void {
    if (this.stopping || reached === this.reached) return;
    this.reached = reached;
    if (reached) this.log.info("the bus is connected to Redis");
    else this.log.warn({ err: this.lastError }, "Redis is away; bus messages are dropped until it is back");
  }

  private async end(): Promise<void> {
    this.exchange.stop();
    clearInterval(this.ticking);
    await Promise.all([close(this.publisher), close(this.subscriber)]);
  }
}

/** What was published before goes out first, if Redis takes it within the command timeout. */
async function close(connection: Redis): Promise<void> {
  const ended = new Promise<void>((resolve) => {
    connection.once("end", () => resolve());
  });
  if (connection.status === "ready") await connection.quit().catch(() => undefined);
  const idle = ["end", "close", "reconnecting"].includes(connection.status);
  connection.disconnect();
  // Between two tries there is no socket whose end could be awaited.
  if (!idle) await ended;
}
