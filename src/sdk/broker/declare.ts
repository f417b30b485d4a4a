// Queues and exchanges that must exist. One that is there is taken as it is: its type and arguments are the matter of its owner, and declaring
// it with others is an error of the protocol.
import type { Channel, ChannelModel } from "amqplib";

/** It exists, and cannot serve. The message says which, why, and what to do. */
export class UnfitTopology extends Error {
  override readonly name = "UnfitTopology";
}

/** A durable queue. True: it was missing, and is there now. */
export async function ensureQueue(connection: ChannelModel, queue: string): Promise<boolean> {
  if (await exists(connection, queue, (channel) => channel.checkQueue(queue))) return false;
  await onChannel(connection, (channel) => channel.assertQueue(queue, { durable: true }));
  return true;
}

/**
 * Throws UnfitTopology if the queue, which is there, is a stream: every consumer of a stream gets all of its messages, and none that came
 * while it was away.
 */
export async function refuseStream(connection: ChannelModel, queue: string): Promise<void> {
  try {
    await onChannel(connection, (channel) => channel.assertQueue(queue, { durable: true }));
  } catch (error) {
    // The broker tells the type of a queue only where it refuses to declare it.
    if (isRefusal(error, PRECONDITION_FAILED) && /'x-queue-type'.*'stream'/.test(error.message))
      throw new UnfitTopology(`the queue ${queue} is a stream: delete it, or name another one`);
    if (!isRefusal(error, PRECONDITION_FAILED) && !isRefusal(error, ACCESS_REFUSED)) throw error;
  }
}

/**
 * A durable topic exchange. True: it was missing, and is there now. Throws UnfitTopology if one of that name routes in another way. A user
 * who may declare nothing is not told its type, and uses it as it is.
 */
export async function ensureTopicExchange(connection: ChannelModel, exchange: string): Promise<boolean> {
  const isThere = await exists(connection, exchange, (channel) => channel.checkExchange(exchange));
  try {
    await onChannel(connection, (channel) => channel.assertExchange(exchange, "topic", { durable: true }));
  } catch (error) {
    if (isThere && isRefusal(error, ACCESS_REFUSED)) return false;
    if (!isThere || !isRefusal(error, PRECONDITION_FAILED)) throw error;
    // Other arguments, an alternate exchange for example, are its owner's; another type would not route by topics.
    if (error.message.includes("inequivalent arg 'type'"))
      throw new UnfitTopology(`the exchange ${exchange} has another type than topic: delete it, or name another one`);
  }
  return !isThere;
}

const [ACCESS_REFUSED, NOT_FOUND, RESOURCE_LOCKED, PRECONDITION_FAILED] = [403, 404, 405, 406];
const REFUSALS = [ACCESS_REFUSED, NOT_FOUND, RESOURCE_LOCKED, PRECONDITION_FAILED];

async function exists(
  connection: ChannelModel,
  name: string,
  check: (channel: Channel) => Promise<unknown>,
): Promise<boolean> {
  try {
    await onChannel(connection, check);
    return true;
  } catch (error) {
    if (isRefusal(error, NOT_FOUND)) return false;
    if (isRefusal(error, RESOURCE_LOCKED))
      throw new UnfitTopology(
        `the queue ${name} is exclusive to the connection of another program: delete it, or name another one`,
      );
    throw error;
  }
}

/** The broker has refused this one demand. The connection goes on. */
export function isRefusedDemand(error: unknown): error is Error {
  return error instanceof UnfitTopology || REFUSALS.some((code) => isRefusal(error, code));
}

const isRefusal = (error: unknown, code: number): error is Error =>
  error instanceof Error && (error as { code?: unknown }).code === code;

/** A channel of its own: the broker closes the one over which it was asked for what does not exist. */
export async function onChannel<T>(connection: ChannelModel, ask: (channel: Channel) => Promise<T>): Promise<T> {
  const channel = await connection.createChannel();
  channel.on("error", () => {});
  try {
    return await ask(channel);
  } finally {
    void end(channel);
  }
}

/** Not awaited: if the connection is lost before the broker has answered, amqplib waits for the answer without end. */
async function end(channel: Channel): Promise<void> {
  try {
    await channel.close();
  } catch {
    // The broker has closed it.
  }
}
