// The bus over Redis pub/sub. It keeps nothing while Redis is unreachable: messages published meanwhile are dropped, and the subscriptions
// are made again when Redis is back.

import { Redis, type RedisOptions } from "ioredis";
import type { JsonObject, RunId } from "../../machines/index.js";
import { clearInterval, setInterval } from "../ambient.js";
import { isUuid, type ShardId, shardOf } from "../ids.js";
import type { Logger } from "../log.js";
import { backoff } from "../sdk/backoff.js";
import type { Bus, BusOptions } from "./bus.js";
import { MAX_MESSAGE_BYTES } from "./bus.js";
import { parsedObject } from "./envelope.js";
import { Exchange } from "./exchange.js";
import { InFlightLimit } from "./in-flight-limit.js";
import { asSealed, Seal, type SealOptions } from "./seal.js";

export interface RedisBusOptions<Ask, Tell> extends BusOptions<Ask, Tell> {
  /** `redis:` or `rediss:` URL. */
  readonly url: string;
  /** The beginning of every channel name: one Redis can serve several installations. */
  readonly prefix: string;
  readonly seal: SealOptions;
}

/** A connection that died silently is noticed within this and the command timeout. */
const PING_MS = 5_000;
const RECONNECT_MS = { base: 20, cap: 1_000 };
/** A sealed message is a third longer than what it seals. */
const MAX_SEALED = 1.5 * MAX_MESSAGE_BYTES;
/** The message of ioredis for a command that had no reply within `commandTimeout`. */
const TIMED_OUT = "Command timed out";

const CONNECTION: RedisOptions = {
  lazyConnect: true,
  connectTimeout: 2_000,
  // Without it, a command whose connection breaks would never settle: with autoResendUnfulfilledCommands off, ioredis forgets it.
  commandTimeout: 2_000,
  disconnectTimeout: 200,
  keepAlive: 10_000,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  autoResubscribe: false,
  maxRetriesPerRequest: null,
  disableClientInfo: true,
  retryStrategy: (tries) => backoff(tries, RECONNECT_MS),
};

/** Waits for the first attempt to connect, and does not fail with it: the bus is silent until Redis is reachable. */
export async function createRedisBus<Ask, Tell>(options: RedisBusOptions<Ask, Tell>): Promise<Bus> {
  const bus = new RedisBus(options);
  await bus.start();
  return bus;
}

class RedisBus<Ask, Tell> implements Bus {
  private readonly publisher: Redis;
  private readonly subscriber: Redis;
  private readonly exchange: Exchange<Ask, Tell>;
  private readonly inFlight = new InFlightLimit();
  private readonly log: Logger;
  private readonly seal: Seal;
  private readonly advanceChannels: string;
  private readonly nodeChannels: string;
  private readonly ownChannel: string;
  private wanted: ReadonlySet<string>;
  private subscribed: Promise<void> = Promise.resolve();
  /** A subscription failed on a live connection: the next tick makes all of them again. */
  private incomplete = false;
  private reachable: boolean | undefined;
  private lastError = "";
  private ticker: NodeJS.Timeout | undefined;
  private stopping: Promise<void> | undefined;

  constructor({ url, prefix, nodeId, seal, log, ...options }: RedisBusOptions<Ask, Tell>) {
    this.log = log;
    this.seal = new Seal(seal);
    // Public names (README.md of this room): must never change.
    this.advanceChannels = `${prefix}saga:advance:`;
    this.nodeChannels = `${prefix}saga:node:`;
    this.ownChannel = `${this.nodeChannels}${nodeId}`;
    this.wanted = new Set([this.ownChannel]);
    const send = (to: string, text: string, askId?: string) => {
      const channel = `${this.nodeChannels}${to}`;
      this.publish(channel, this.seal.encrypt(channel, text), askId);
    };
    this.exchange = new Exchange({ ...options, nodeId, log, send });
    const connectionName = `saga-bus:${nodeId.replace(/[^\w.-]/g, "_")}`;
    this.publisher = this.observed(new Redis(url, { ...CONNECTION, connectionName }));
    this.subscriber = this.observed(new Redis(url, { ...CONNECTION, connectionName }));
    this.subscriber.on("ready", () => this.subscribe([...this.wanted]));
    this.subscriber.on("message", (channel: string, text: string) => this.receive(channel, text));
  }

  async start(): Promise<void> {
    this.ticker = setInterval(() => this.tick(), PING_MS).unref();
    try {
      await Promise.all([this.publisher.connect(), this.subscriber.connect()]);
      await this.subscribed;
    } catch {
      // `noteReachable` logs it; ioredis keeps trying.
    }
  }

  advance(runId: RunId): void {
    if (!isUuid(runId)) return this.exchange.drops.dropped("malformed");
    const channel = `${this.advanceChannels}${shardOf(runId)}`;
    this.publish(channel, { run_id: runId, ...this.seal.sign(channel, runId) });
  }

  listen(shards: ReadonlySet<ShardId>): void {
    this.exchange.listen(shards);
    const before = this.wanted;
    this.wanted = new Set([this.ownChannel, ...[...shards].map((shard) => `${this.advanceChannels}${shard}`)]);
    if (this.stopping || this.subscriber.status !== "ready") return;
    const fresh = [...this.wanted].filter((channel) => !before.has(channel));
    const gone = [...before].filter((channel) => !this.wanted.has(channel));
    if (fresh.length > 0) this.subscribe(fresh);
    // If it fails, the exchange drops the messages that still arrive.
    if (gone.length > 0) this.subscriber.unsubscribe(...gone).catch(() => undefined);
  }

  ask(nodeId: string, request: object, withinMs: number): Promise<JsonObject | undefined> {
    return this.exchange.ask(nodeId, request, withinMs);
  }

  tell(nodeId: string, message: object): void {
    this.exchange.tell(nodeId, message);
  }

  stop(): Promise<void> {
    this.stopping ??= this.end();
    return this.stopping;
  }

  private publish(channel: string, message: object, askId?: string): void {
    const text = JSON.stringify(message);
    const sent = this.publisher.status === "ready" && !this.stopping && this.inFlight.reserve(text.length);
    if (!sent) {
      this.exchange.drops.dropped("not connected or too much unsent");
      if (askId !== undefined) this.exchange.undelivered(askId);
      return;
    }
    this.publisher
      .publish(channel, text)
      .then((receivers) => {
        if (receivers === 0 && askId !== undefined) this.exchange.undelivered(askId);
      })
      .catch(() => this.exchange.drops.dropped("lost in transit"))
      .finally(() => this.inFlight.release(text.length));
  }

  private receive(channel: string, text: string): void {
    const message = text.length <= MAX_SEALED ? parsedObject(text) : undefined;
    const sealed = asSealed(message);
    const { body, run_id: runId } = message ?? {};
    if (channel === this.ownChannel) {
      const opened = sealed && typeof body === "string" ? this.seal.decrypt(channel, { ...sealed, body }) : undefined;
      if (opened === undefined) this.exchange.drops.dropped("unauthentic");
      else this.exchange.receive(opened);
    } else if (sealed && typeof runId === "string" && this.seal.verify(channel, sealed, runId)) {
      this.exchange.receiveAdvance(channel === `${this.advanceChannels}${shardOf(runId)}` ? runId : undefined);
    } else this.exchange.drops.dropped("unauthentic");
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

  private observed(connection: Redis): Redis {
    connection.on("error", (error: Error) => {
      // The message only: an error of ioredis contains its command, and that of AUTH contains the password.
      this.lastError = error.message;
    });
    connection.on("ready", () => {
      if (this.publisher.status === "ready" && this.subscriber.status === "ready") this.noteReachable(true);
    });
    connection.on("close", () => this.noteReachable(false));
    return connection;
  }

  /** One line when the connection is lost and one when it is back, however many attempts are between them. */
  private noteReachable(reachable: boolean): void {
    if (this.stopping || reachable === this.reachable) return;
    this.reachable = reachable;
    if (reachable) this.log.info("bus connected to Redis");
    else this.log.warn({ err: this.lastError }, "Redis unreachable, bus messages are dropped until it is back");
  }

  private async end(): Promise<void> {
    this.exchange.stop();
    clearInterval(this.ticker);
    await Promise.all([close(this.publisher), close(this.subscriber)]);
  }
}

/** Earlier messages are sent first, if Redis takes them within the command timeout. */
async function close(connection: Redis): Promise<void> {
  const ended = new Promise<void>((resolve) => {
    connection.once("end", () => resolve());
  });
  if (connection.status === "ready") await connection.quit().catch(() => undefined);
  const idle = ["end", "close", "reconnecting"].includes(connection.status);
  connection.disconnect();
  // Between two attempts there is no socket to wait for.
  if (!idle) await ended;
}
