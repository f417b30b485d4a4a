// Publishes the events that runs owe to RabbitMQ: in the order of each run, the next one only when the broker has the one before it. A row is
// removed after that and never before, so whatever stops, the event is published, possibly twice, under the same id.

import type { ChannelModel } from "amqplib";
import type { Sql } from "postgres";
import { revealedText, TENANT_HEADER } from "../../machines/index.js";
import type { ShardId } from "../ids.js";
import type { Log } from "../log.js";
import type { Metrics } from "../metrics/index.js";
import {
  ensureTopicExchange,
  isRefusedDemand,
  type Message,
  type Published,
  Publisher,
  type PublisherOptions,
} from "../sdk/broker/index.js";
import { firstOutgoing, type OutgoingEvent, removeOutgoing } from "../store/engine/outgoing-events.js";
import { WorkLoop } from "../work/loop.js";
import { ensureQueues, type Topology } from "./topology.js";

export interface EventPublisherOptions extends Pick<PublisherOptions, "connect"> {
  readonly sql: Sql;
  readonly log: Log;
  readonly metrics: Pick<Metrics, "eventsOut" | "eventLinksAway">;
  /** Holds a password. */
  readonly url: string;
  readonly topology: Topology;
  /** Messages have the tenant of their event in a header. */
  readonly namesTenant?: boolean;
  /** The shards of this node. */
  readonly shards: () => readonly ShardId[];
  /** Milliseconds between two polls. */
  readonly intervalMs?: number;
}

const INTERVAL_MS = 500;
/** How long a stop waits for confirmations. */
const GRACE_MS = 1_000;

export class EventPublisher {
  private readonly publisher: Publisher;
  private readonly loop: WorkLoop;
  /** The log says so. */
  private queuesRefused = false;

  constructor(private readonly options: EventPublisherOptions) {
    const { url, log, metrics, connect, intervalMs: pauseMs = INTERVAL_MS } = options;
    this.loop = new WorkLoop({ what: "outgoing events", log, polls: { pauseMs, round: () => this.round() } });
    this.publisher = new Publisher({
      ...{ url, log, connect, name: "saga events out" },
      declare: (connection) => this.declare(connection),
      opened: () => {
        metrics.eventLinksAway.set({ direction: "out" }, 0);
        this.soon();
      },
      closed: () => metrics.eventLinksAway.set({ direction: "out" }, 1),
    });
  }

  start(): void {
    this.options.metrics.eventLinksAway.set({ direction: "out" }, 1);
    this.publisher.start();
    this.loop.start();
  }

  /** What the broker has not confirmed by then is published again, by another node or after the next start. */
  async stop(): Promise<void> {
    await this.loop.stop({ ms: GRACE_MS, cutShort: () => void this.publisher.stop() });
    await this.publisher.stop();
  }

  /** A commit of this node owes events. A hint: the poll finds them as well. */
  soon(): void {
    this.loop.pollSoon();
  }

  /** Publishes a message that cannot be an event: one that is moved aside. */
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

  /** True: another round may find more. What the broker does not take now waits for the next poll. */
  private async round(): Promise<boolean> {
    if (!this.publisher.isOpen) return false;
    const { sql, shards } = this.options;
    const { events, more } = await firstOutgoing(sql, shards());
    const byRun = new Map<string, OutgoingEvent[]>();
    for (const event of events) byRun.set(event.runId, [...(byRun.get(event.runId) ?? []), event]);
    const done: string[] = [];
    await Promise.all([...byRun.values()].map((ofRun) => this.publishInOrder(ofRun, done)));
    if (done.length > 0) await removeOutgoing(sql, done);
    return more && done.length === events.length;
  }

  /** An event that the broker does not have holds up the later ones of its run. */
  private async publishInOrder(events: readonly OutgoingEvent[], done: string[]): Promise<void> {
    for (const event of events) {
      if (this.loop.stopping || !(await this.tryPublish(event))) return;
      done.push(event.id);
    }
  }

  private async tryPublish(event: OutgoingEvent): Promise<boolean> {
    const { log, metrics, topology, namesTenant } = this.options;
    const message = messageOf(namesTenant ? withTenant(event) : event, topology);
    if (!message) {
      log.error({ eventId: event.id, runId: event.runId }, "event is gone, it cannot be published to RabbitMQ");
      return true;
    }
    const outcome = await this.publisher.publish(message);
    metrics.eventsOut.inc({ outcome: outcome === "confirmed" ? "confirmed" : "unconfirmed" });
    return outcome === "confirmed";
  }
}

/** An event of no tenant has no such header: another service does not take it for a tenant's. */
function withTenant(event: OutgoingEvent): OutgoingEvent {
  const { headers, tenantId } = event;
  return tenantId === null ? event : { ...event, headers: { ...headers, [TENANT_HEADER]: tenantId } };
}

/** Not mandatory: it is no fault if no queue wants the event. */
function messageOf({ id, topic, headers, payload }: OutgoingEvent, { exchange }: Topology): Message | undefined {
  if (topic === null || payload === null) return undefined;
  // Those outside have no marks: they get secret values plain, as servers do.
  const body = Buffer.from(revealedText(payload));
  return { exchange, routingKey: topic, id, body, mandatory: false, ...(headers && { headers }) };
}
