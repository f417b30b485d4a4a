// What the service has at the broker: a topic exchange, the queue of the events that it takes from it, and the queue of the messages that it
// could not take. The names are a format: others bind to the exchange.
import type { ChannelModel } from "amqplib";
import { ensureQueue, ensureTopicExchange, onChannel, refuseStream } from "../sdk/broker/index.js";

export interface Topology {
  readonly exchange: string;
  readonly queue: string;
  readonly dead: string;
}

export type Part = keyof Topology;

export function topologyOf(exchange: string): Topology {
  return { exchange, queue: `${exchange}.in`, dead: `${exchange}.dead` };
}

/**
 * Every node consumes the one queue, so each event is taken by one of them. The answer names the parts that were missing. The broker does
 * not tell whether the binding was there: it is made again. Throws UnfitTopology if a part is there and cannot serve.
 */
export async function ensureTopology(connection: ChannelModel, topology: Topology): Promise<readonly Part[]> {
  const missing: Part[] = [];
  if (await ensureTopicExchange(connection, topology.exchange)) missing.push("exchange");
  return [...missing, ...(await ensureQueues(connection, topology))];
}

/** The queues behind the exchange, which is there. The answer names those that were missing. */
export async function ensureQueues(connection: ChannelModel, topology: Topology): Promise<readonly Part[]> {
  const { exchange, queue, dead } = topology;
  const missing: Part[] = [];
  if (await ensureQueue(connection, dead)) missing.push("dead");
  if (await ensureQueue(connection, queue)) missing.push("queue");
  await refuseStream(connection, queue);
  await onChannel(connection, (channel) => channel.bindQueue(queue, exchange, "#"));
  return missing;
}

/**
 * Whether all parts are there, and the exchange is the one that would be declared: asked in one channel, and cheap enough to be asked every few
 * seconds. If it is not, ensureTopology tells whether it serves nevertheless.
 */
export async function isComplete(connection: ChannelModel, { exchange, queue, dead }: Topology): Promise<boolean> {
  try {
    await onChannel(connection, async (channel) => {
      await channel.checkExchange(exchange);
      await channel.assertExchange(exchange, "topic", { durable: true });
      await channel.checkQueue(dead);
      await channel.checkQueue(queue);
      await channel.bindQueue(queue, exchange, "#");
    });
    return true;
  } catch {
    return false;
  }
}
