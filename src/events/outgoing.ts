// Publishes the events that runs owe to RabbitMQ: in the order of each run, the next one only when the broker has the one before it. A row is
// removed after that and never before, so whatever stops, the event is published, possibly twice, under the same id.

import type { ChannelModel } from "amqplib";
import type { Sql } from "postgres";
import type { ShardId } from "../ids.js";
import type { Log } from "../log.js";
import type { Metrics } from "../metrics.js";
import { ensureTopicExchange, isRefusedDemand, type Message, type Published, Publisher } from "../sdk/broker/index.js";
import { firstOutgoing, type OutgoingEvent, removeOutgoing } from "../store/outgoing-events.js";
import { ensureQueues, type Topology } from "./topology.js";

export interface OutgoingOptions {
  readonly sql: Sql;
  readonly log: Log;
  readonly metrics: Pick<Metrics, "eventsOut" | "eventLinksAway">;
  /** Holds a password. */
  readonly url: string;
  readonly topology: Topology;
  /** The shards of this node. */
  readonly shards: () => readonly ShardId[];
  /** Milliseconds between two polls. */
  readonly intervalMs?: number;
}

const INTERVAL_MS = 500;
/** How long a stop waits for confirmations. */
const GRACE_MS = 1_000;

export class Outgoing {
  private readonly publisher: Publisher;
  private timer: NodeJS.Timeout | undefined;
  private working: Promise<void> | undefined;
  /** There may be more than the round in progress has read. */
  private again = false;
  private started = false;
  private stopped = false;
  /** The log says so. */
  private queuesRefused = false;

  constructor(private readonly options: OutgoingOptions) {
    const { url, log, metrics } = options;
    this.publisher = new Publisher({
      ...{ url, log, name: "saga events out" },
      declare: (connection) => this.declare(connection),
      opened: () => {
        metrics.eventLinksAway.set({ direction: "out" }, 0);
        this.soon();
      },
      closed: () => metrics.eventLinksAway.set({ direction: "out" }, 1),
    });
  }

  start(): void {
    this.started = true;
    this.options.metrics.eventLinksAway.set({ direction: "out" }, 1);
    this.publisher.start();
    this.schedule();
  }

  /** What the broker has not confirmed by then is published again, by another node or after the next start. */
  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    const grace = setTimeout(() => void this.publisher.stop(), GRACE_MS);
    await this.working;
    clearTimeout(grace);
    await this.publisher.stop();
  }

  /** A commit of this node owes events. A hint: the poll finds them as well. */
  soon(): void {
    if (this.working) this.again = true;
    else void this.work();
  }

  /** For what cannot be published as an event. */
  publish(message: Message): Promise<Published> {
    return this.publisher.publish(message);
  }

  /**
   * Events need the exchange alone. Without the queue behind it, the broker would confirm events of others and drop them: so it is declared
   * as well, but where it cannot be, events of runs are published all the same. The gauge of what is missing is the intake's.
   */
  private async declare(connection: ChannelModel): Promise<void> {
    const { topology, log } = this.options;
    await ensureTopicExchange(connection, topology.exchange);
    try {
      await ensureQueues(connection, topology);
      this.queuesRefused = false;
    } catch (error) {
      if (!isRefusedDemand(error)) throw error;
      if (!this.queuesRefused)
        log.warn({ reason: error.message }, "events are published, but RabbitMQ refuses their queues");
      this.queuesRefused = true;
    }
  }

  private schedule(): void {
    if (this.stopped) return;
    this.timer = setTimeout(() => {
      this.soon();
      this.schedule();
    }, this.options.intervalMs ?? INTERVAL_MS).unref();
  }

  /** One round after the other, as long as rounds find events and the broker takes them. Never rejects. */
  private async work(): Promise<void> {
    if (!this.started || this.stopped || !this.publisher.isOpen) return;
    this.again = false;
    this.working = this.round()
      .catch((error: unknown) => {
        this.options.log.warn({ err: error }, "events could not be read or removed, retrying at the next interval");
        return false;
      })
      .then((more) => {
        this.working = undefined;
        if (more || this.again) void this.work();
      });
  }

  /** Whether another round may find more. */
  private async round(): Promise<boolean> {
    const { sql, shards } = this.options;
    const { events, more } = await firstOutgoing(sql, shards());
    const byRun = new Map<string, OutgoingEvent[]>();
    for (const event of events) byRun.set(event.runId, [...(byRun.get(event.runId) ?? []), event]);
    const done: string[] = [];
    await Promise.all([...byRun.values()].map((ofRun) => this.publishInOrder(ofRun, done)));
    if (done.length > 0) await removeOutgoing(sql, done);
    // What the broker does not take now waits for the next poll.
    if (done.length < events.length) this.again = false;
    return more && done.length === events.length;
  }

  /** An event that the broker does not have holds up the later ones of its run. */
  private async publishInOrder(events: readonly OutgoingEvent[], done: string[]): Promise<void> {
    for (const event of events) {
      if (this.stopped || !(await this.isPublished(event))) return;
      done.push(event.id);
    }
  }

  private async isPublished(event: OutgoingEvent): Promise<boolean> {
    const { log, metrics, topology } = this.options;
    const message = messageOf(event, topology);
    if (!message) {
      log.error({ eventId: event.id, runId: event.runId }, "event is gone, it cannot be published to RabbitMQ");
      return true;
    }
    const outcome = await this.publisher.publish(message);
    metrics.eventsOut.inc({ outcome: outcome === "confirmed" ? "confirmed" : "unconfirmed" });
    return outcome === "confirmed";
  }
}

/** Not mandatory: it is no fault if no queue wants the event. */
function messageOf({ id, topic, headers, payload }: OutgoingEvent, { exchange }: Topology): Message | undefined {
  if (topic === null || payload === null) return undefined;
  const body = Buffer.from(payload);
  return { exchange, routingKey: topic, id, body, mandatory: false, ...(headers && { headers }) };
}
