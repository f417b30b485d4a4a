// The outlet of RabbitMQ workers: publishes a dispatch to the queue that the worker registered. A confirmed message is accepted: the broker
// keeps it. The answer comes over the API.
import type { ActionCall, Dispatch } from "../../../machines/index.js";
import type { Log } from "../../log.js";
import { type Published, Publisher, type PublisherOptions } from "../../sdk/broker/index.js";
import type { AwayDestination } from "../push/destinations.js";
import { type Delivery, type Destination, failed, type Outlet } from "../push/outlet.js";
import { type CallbackOptions, stepJson } from "../step-message.js";

export interface RabbitMqOutletOptions extends CallbackOptions, Pick<PublisherOptions, "connect"> {
  /** Holds a password. */
  readonly url: string;
  readonly log: Log;
  readonly messageBytes: number;
  /** Database time, epoch milliseconds. */
  readonly now: () => number;
}

export class RabbitMqOutlet implements Outlet {
  readonly ownWork = false;
  readonly busy = "RabbitMQ has as many messages for its queue to confirm as may be under way";
  private readonly publisher: Publisher;
  private opened: () => void = () => {};

  constructor(private readonly options: RabbitMqOutletOptions) {
    const { url, log, connect } = options;
    this.publisher = new Publisher({ url, log, connect, name: "saga dispatches", opened: () => this.opened() });
  }

  get isOpen(): boolean {
    return this.publisher.isOpen;
  }

  get away(): AwayDestination | undefined {
    const { closedSince: since } = this.publisher;
    return since === undefined
      ? undefined
      : { destination: "RabbitMQ", reason: "no_connection", why: NO_CONNECTION, since };
  }

  start(opened: () => void): void {
    this.opened = opened;
    this.publisher.start();
  }

  /** The actions of a queue share its slots, and take turns. */
  destinationOf({ address: queue = "" }: ActionCall): Destination {
    return { key: queue, pool: { group: "rmq", key: queue }, holder: { host: queue, sharer: queue } };
  }

  async deliver(dispatch: Dispatch, signal: AbortSignal): Promise<Delivery> {
    const { messageBytes, now } = this.options;
    const { dispatchId: id, deadlineAt, call, traceparent } = dispatch;
    const remainingMs = deadlineAt - now();
    const body = Buffer.from(stepJson(dispatch, remainingMs, this.options));
    if (body.length > messageBytes)
      return failed("limit_exceeded", `the message has ${body.length} bytes, more than ${messageBytes}`);
    const queue = call.address ?? "";
    const headers = {
      "idempotency-key": call.idempotencyKey,
      ...(traceparent !== undefined && { traceparent }),
    };
    const message = { exchange: "", routingKey: queue, id, body, headers, expirationMs: remainingMs };
    return deliveryOf(await unlessAborted(this.publisher.publish(message), signal), queue);
  }

  stop(): Promise<void> {
    return this.publisher.stop();
  }
}

const NO_CONNECTION = "there is no connection to RabbitMQ";

function deliveryOf(published: Published, queue: string): Delivery {
  switch (published) {
    case "confirmed":
      return { kind: "accepted" };
    case "returned":
      return { kind: "undelivered", reason: "no_queue", why: `there is no queue ${queue}` };
    case "unsent":
      return { kind: "undelivered", reason: "no_connection", why: NO_CONNECTION };
    case "unknown":
      return { kind: "lost", reason: "unconfirmed", why: "RabbitMQ has not confirmed the message" };
  }
}

function unlessAborted(publishing: Promise<Published>, signal: AbortSignal): Promise<Published> {
  if (signal.aborted) return Promise.resolve("unknown");
  return new Promise((resolve) => {
    const abort = () => resolve("unknown");
    signal.addEventListener("abort", abort, { once: true });
    void publishing.then(resolve).finally(() => signal.removeEventListener("abort", abort));
  });
}
