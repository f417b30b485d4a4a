// What the service has at the broker: a topic exchange, the queue of the events that it takes from it, and the queue of the messages that it
// could not take. The names are a format: others bind to the exchange.
import type { Channel } from "amqplib";

export interface Topology {
  readonly exchange: string;
  readonly queue: string;
  readonly dead: string;
}

export function topologyOf(exchange: string): Topology {
  return { exchange, queue: `${exchange}.in`, dead: `${exchange}.dead` };
}

/** Fails if there is another exchange of that name. */
export async function declareExchange(channel: Channel, { exchange }: Topology): Promise<void> {
  await channel.assertExchange(exchange, "topic", { durable: true });
}

/** Every node consumes the one queue, so each event is taken by one of them. */
export async function declareQueues(channel: Channel, topology: Topology): Promise<void> {
  const { exchange, queue, dead } = topology;
  await declareExchange(channel, topology);
  await channel.assertQueue(dead, { durable: true });
  await channel.assertQueue(queue, { durable: true });
  await channel.bindQueue(queue, exchange, "#");
}
