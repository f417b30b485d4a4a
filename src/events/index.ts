// The events of a node over RabbitMQ, composed: those that it takes from the exchange, and those that runs owe to it.
import { Incoming, type IncomingOptions } from "./incoming.js";
import { Outgoing, type OutgoingOptions } from "./outgoing.js";
import { topologyOf } from "./topology.js";

export interface BrokerEventsOptions
  extends Omit<IncomingOptions, "topology" | "outgoing" | "metrics">,
    Omit<OutgoingOptions, "topology"> {
  readonly exchange: string;
  readonly metrics: IncomingOptions["metrics"] & OutgoingOptions["metrics"];
}

export class BrokerEvents {
  private readonly outgoing: Outgoing;
  private readonly incoming: Incoming;

  constructor(options: BrokerEventsOptions) {
    const topology = topologyOf(options.exchange);
    this.outgoing = new Outgoing({ ...options, topology });
    this.incoming = new Incoming({ ...options, topology, outgoing: this.outgoing });
  }

  start(): void {
    this.outgoing.start();
    this.incoming.start();
  }

  /** Takes no more messages; the broker keeps them for other nodes. */
  stopIntake(): Promise<void> {
    return this.incoming.stop();
  }

  /** After the intake, and before the store is closed. What is owed by then is published by another node, or after the next start. */
  stop(): Promise<void> {
    return this.outgoing.stop();
  }

  /** A commit of this node owes events. */
  soon(): void {
    this.outgoing.soon();
  }
}
