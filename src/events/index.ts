// The events of a node over RabbitMQ, composed: those that it takes from the exchange, and those that runs owe to it.
import { EventConsumer, type EventConsumerOptions } from "./event-consumer.js";
import { EventPublisher, type EventPublisherOptions } from "./event-publisher.js";
import { topologyOf } from "./topology.js";

export interface BrokerEventsOptions
  extends Omit<EventConsumerOptions, "topology" | "publisher" | "metrics">,
    Omit<EventPublisherOptions, "topology"> {
  readonly exchange: string;
  readonly metrics: EventConsumerOptions["metrics"] & EventPublisherOptions["metrics"];
}

export class BrokerEvents {
  private readonly publisher: EventPublisher;
  private readonly consumer: EventConsumer;

  constructor(options: BrokerEventsOptions) {
    const topology = topologyOf(options.exchange);
    this.publisher = new EventPublisher({ ...options, topology });
    this.consumer = new EventConsumer({ ...options, topology, publisher: this.publisher });
  }

  start(): void {
    this.publisher.start();
    this.consumer.start();
  }

  /** Takes no more messages; the broker keeps them for other nodes. */
  stopIntake(): Promise<void> {
    return this.consumer.stop();
  }

  /** After the intake, and before the store is closed. What is owed by then is published by another node, or after the next start. */
  stop(): Promise<void> {
    return this.publisher.stop();
  }

  /** A commit of this node owes events. */
  soon(): void {
    this.publisher.soon();
  }
}
