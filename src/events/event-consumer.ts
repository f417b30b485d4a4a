// Takes events from RabbitMQ: a message is acknowledged when its event is committed, or when it lies in the queue of those that cannot be
// taken. Until then the broker delivers it again, to this node or another; its id lets it count once.

import { setMaxListeners } from "node:events";
import type { Channel, ChannelModel, ConsumeMessage } from "amqplib";
import { MAX_EVENT_HEADERS } from "../../machines/index.js";
import { clearTimeout, delay, performance, setTimeout } from "../ambient.js";
import { uuidv7 } from "../ids.js";
import type { Log } from "../log.js";
import type { Metrics } from "../metrics/index.js";
import { backoff } from "../sdk/backoff.js";
import { BrokerLink, type BrokerLinkOptions, isRefusedDemand } from "../sdk/broker/index.js";
import { isStoreAway } from "../store/engine/failure.js";
import type { FairScheduler } from "../work/fair-scheduler.js";
import { withGrace } from "../work/loop.js";
import type { EventIntake } from "./announcer.js";
import type { EventPublisher } from "./event-publisher.js";
import { isOwn, type MessageLimits, REASON_HEADER, Refused, readMessage, TOPIC_HEADER } from "./message.js";
import { ensureTopology, isComplete, type Topology } from "./topology.js";

export interface EventConsumerOptions extends Pick<BrokerLinkOptions, "connect"> {
  readonly log: Log;
  readonly metrics: Pick<Metrics, "eventsIn" | "eventLinksAway" | "eventTopologyMissing">;
  /** Holds a password. */
  readonly url: string;
  readonly topology: Topology;
  readonly intake: Pick<EventIntake, "take">;
  /** Takes the messages that cannot be taken. */
  readonly publisher: Pick<EventPublisher, "publish">;
  readonly scheduler: Pick<FairScheduler, "compute">;
  readonly limits: MessageLimits;
  /** A header names the tenant of every message, in and out: one that names none is moved aside. Absent: there is no such header. */
  readonly namesTenant?: boolean;
  /** False: the node sheds load, and messages wait. */
  readonly admits: () => boolean;
  readonly backoffMs?: number;
  /** Between two looks at what the service has at the broker. Default 2000. */
  readonly lookMs?: number;
}

/** Messages in hand; the broker keeps the others. */
const PREFETCH = 32;
const BACKOFF_MS = 100;
const BACKOFF_MAX_MS = 5_000;
/** After so many failures that are not the store's absence, the message is at fault. */
const FAILURES = 5;
const LOOK_MS = 2_000;
/** How long a stop waits for commits. */
const GRACE_MS = 2_000;
/** Headers that are left out are said no more often. */
const SAYING_MS = 60_000;
/** A message with larger headers, and ours beside them, might not fit into a frame. */
const MOST_HEADER_BYTES = 65_536;

type Outcome = "taken" | "repeated" | "own" | "dead";

export class EventConsumer {
  private readonly link: BrokerLink;
  /** Aborted when the channel is gone: its messages will be delivered again. */
  private lost = new AbortController();
  private channel: Channel | undefined;
  private consumerTag = "";
  private looking: NodeJS.Timeout | undefined;
  /** The exchange and the queues were complete before: what is missing was deleted. */
  private wasComplete = false;
  /** What the broker refuses, as the log says. */
  private refused: string | undefined;
  private readonly underWay = new Set<Promise<void>>();
  /** When headers were last said to be left out. */
  private saidAt = Number.NEGATIVE_INFINITY;

  constructor(private readonly options: EventConsumerOptions) {
    const { url, log, metrics, connect } = options;
    this.link = new BrokerLink({
      ...{ url, log, connect, name: "saga events in" },
      opened: (connection) => this.consume(connection),
      lost: () => {
        metrics.eventLinksAway.set({ direction: "in" }, 1);
        this.forget();
      },
    });
  }

  start(): void {
    this.options.metrics.eventLinksAway.set({ direction: "in" }, 1);
    this.link.start();
  }

  /** Takes no more messages, and finishes those in hand within the grace period. The broker keeps the others. */
  async stop(): Promise<void> {
    const { channel, consumerTag } = this;
    const inHand = async () => {
      await channel?.cancel(consumerTag).catch(() => {});
      await Promise.all(this.underWay);
    };
    await withGrace(inHand(), { ms: GRACE_MS, cutShort: () => this.forget() });
    await this.link.stop();
    this.forget();
  }

  private forget(): void {
    clearTimeout(this.looking);
    this.channel = undefined;
    this.lost.abort();
  }

  private async consume(connection: ChannelModel): Promise<void> {
    const { topology, metrics } = this.options;
    const channel = await connection.createChannel();
    channel.on("error", (error) => this.link.reset(error.message, connection));
    channel.on("close", () => this.link.reset("the channel was closed", connection));
    await this.complete(connection);
    await channel.prefetch(PREFETCH);
    this.lost = new AbortController();
    // Each message in hand may wait for it; more, and Node would warn.
    setMaxListeners(PREFETCH, this.lost.signal);
    this.channel = channel;
    const deliver = (message: ConsumeMessage | null) => {
      // Without a message the broker has cancelled the consumer: the queue was deleted.
      if (message) this.begin(channel, message);
      else this.link.reset("the queue was deleted", connection);
    };
    this.consumerTag = (await channel.consume(topology.queue, deliver)).consumerTag;
    metrics.eventLinksAway.set({ direction: "in" }, 0);
    this.lookAgain(connection, channel);
  }

  /** An operator may delete what the service relies on. Without its binding, the broker would confirm events and drop them. */
  private lookAgain(connection: ChannelModel, channel: Channel): void {
    const { topology, lookMs = LOOK_MS } = this.options;
    clearTimeout(this.looking);
    this.looking = setTimeout(async () => {
      const complete = await isComplete(connection, topology);
      if (this.channel !== channel) return;
      try {
        if (!complete) await this.complete(connection);
        if (this.channel === channel) this.lookAgain(connection, channel);
      } catch (error) {
        this.link.reset(error instanceof Error ? error.message : String(error), connection);
      }
    }, lookMs).unref();
  }

  private async complete(connection: ChannelModel): Promise<void> {
    const { topology, metrics, log } = this.options;
    try {
      const missing = await ensureTopology(connection, topology);
      if (missing.length > 0) {
        const names = missing.map((part) => topology[part]);
        if (this.wasComplete)
          log.warn({ names }, "deleted at RabbitMQ, and declared again: events of others may be lost");
        else log.info({ names }, "declared at RabbitMQ");
      }
      this.wasComplete = true;
      this.refused = undefined;
      metrics.eventTopologyMissing.set(0);
    } catch (error) {
      metrics.eventTopologyMissing.set(1);
      if (isRefusedDemand(error) && this.refused !== error.message) {
        this.refused = error.message;
        log.error({ reason: error.message }, "no events are taken from RabbitMQ");
      }
      throw error;
    }
  }

  private begin(channel: Channel, message: ConsumeMessage): void {
    const work = this.untilTaken(channel, message)
      .then((outcome) => this.finish(channel, message, outcome))
      .finally(() => this.underWay.delete(work));
    this.underWay.add(work);
  }

  /** Undefined: the channel is gone. Never rejects. */
  private async untilTaken(channel: Channel, message: ConsumeMessage): Promise<Outcome | undefined> {
    const { admits, backoffMs = BACKOFF_MS } = this.options;
    const { signal } = this.lost;
    let failures = 0;
    for (let tries = 0; this.channel === channel; tries++) {
      try {
        const outcome = admits() ? await this.take(message, failures >= FAILURES) : undefined;
        if (outcome) return outcome;
      } catch (error) {
        if (!isStoreAway(error)) failures++;
        this.options.log.warn({ err: error }, "event not taken, trying again");
      }
      const pause = backoff(tries, { base: backoffMs, cap: BACKOFF_MAX_MS });
      await delay(pause, undefined, { signal }).catch(() => {});
    }
    return undefined;
  }

  /** Undefined: it cannot be moved aside now. Throws if it cannot be stored now. */
  private async take(message: ConsumeMessage, isFaulty: boolean): Promise<Outcome | undefined> {
    const { intake, scheduler, limits, namesTenant } = this.options;
    if (isOwn(message)) return "own";
    try {
      if (isFaulty) throw new Refused("the event could not be stored");
      const { event, leftOut } = await scheduler.compute("events", () => readMessage(message, limits, { namesTenant }));
      if (leftOut > 0) this.sayLeftOut(event.topic, leftOut);
      const taken = await intake.take(event);
      if (taken === "conflict") throw new Refused("another event was published with this message id");
      return taken.repeated ? "repeated" : "taken";
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return (await this.bury(message, error.message)) ? "dead" : undefined;
    }
  }

  /** Most likely all messages of a sender are like this. */
  private sayLeftOut(topic: string, leftOut: number): void {
    const now = performance.now();
    if (now - this.saidAt < SAYING_MS) return;
    this.saidAt = now;
    const why = `of an event's headers, the first ${MAX_EVENT_HEADERS} by name count: no run can wait for the others`;
    this.options.log.warn({ topic, leftOut }, why);
  }

  /** Whether the other queue has it. */
  private async bury({ content: body, fields, properties }: ConsumeMessage, reason: string): Promise<boolean> {
    const { messageId, contentType, appId } = properties;
    const headers = {
      ...movable(properties.headers ?? {}),
      [REASON_HEADER]: reason,
      [TOPIC_HEADER]: fields.routingKey,
    };
    const routingKey = this.options.topology.dead;
    const id = messageId || uuidv7();
    // The id is an idempotency key, and with the message itself.
    this.options.log.warn({ reason }, "event cannot be taken, moving its message aside");
    const outcome = await this.options.publisher.publish({
      ...{ exchange: "", routingKey, id, body, headers, contentType, appId },
    });
    if (outcome === "returned") this.link.reset(`the queue ${routingKey} was deleted`);
    return outcome === "confirmed";
  }

  private finish(channel: Channel, message: ConsumeMessage, outcome: Outcome | undefined): void {
    if (!outcome || this.channel !== channel) return;
    this.options.metrics.eventsIn.inc({ outcome });
    try {
      channel.ack(message);
    } catch {
      // The channel is closing: the broker delivers the message again.
    }
  }
}

/** `CC` and `BCC` would send copies elsewhere. */
function movable({ CC: _, BCC: __, ...headers }: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return Buffer.byteLength(JSON.stringify(headers)) > MOST_HEADER_BYTES ? {} : headers;
}
