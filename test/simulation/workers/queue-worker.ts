// A RabbitMQ worker: it declares its queue, takes steps from it, and acknowledges each when its answer is recorded, as the SDK's does. It forgets, and loses its
// connection with messages in hand. It looks at no deadline: its clock may be another one than the store's, and the broker drops what is too late.

import type { Cluster } from "../cluster.js";
import type { BrokerMessage, Consumer, Delivered, SimulatedBroker } from "../world/broker.js";
import type { Chance } from "../world/world.js";
import { type Message, messageOf, type PushWorker } from "./push-worker.js";

export interface QueueWorkerFaults {
  /** Of a message: its connection breaks while it is at it; or it acknowledges, and never reports. */
  readonly redelivered: number;
  readonly forgotten: number;
}

export const NO_QUEUE_WORKER_FAULTS: QueueWorkerFaults = { redelivered: 0, forgotten: 0 };

const PREFETCH = 8;
const LOOK_MS = 2_000;

export class QueueWorker {
  faults: QueueWorkerFaults = NO_QUEUE_WORKER_FAULTS;
  private readonly broker: SimulatedBroker;
  private consumer: Consumer | undefined;

  constructor(
    private readonly queue: string,
    private readonly cluster: Cluster,
    private readonly chance: Chance,
    private readonly worker: PushWorker,
  ) {
    this.broker = cluster.broker;
    this.look();
  }

  /** The queue is there, and it takes from it, unless the broker is away. */
  private look(): void {
    if (this.broker.isAway) this.leave();
    else if (!this.broker.queues.has(this.queue) || !this.consumer) this.begin();
    this.cluster.world.later(LOOK_MS * (0.5 + this.chance()), () => this.look(), null);
  }

  private begin(): void {
    const consumer: Consumer = {
      ...{ prefetch: PREFETCH, unacknowledged: new Map<number, BrokerMessage>() },
      deliver: (tag, delivered) => {
        const happen = () => this.consumer === consumer && this.work(consumer, tag, delivered);
        this.cluster.world.later(this.broker.latency(), happen, null);
      },
    };
    this.consumer = consumer;
    this.broker.declare(this.queue);
    this.broker.consume(this.queue, consumer);
  }

  private leave(): void {
    const { consumer } = this;
    this.consumer = undefined;
    if (consumer) this.broker.leave(this.queue, consumer);
  }

  private work(consumer: Consumer, tag: number, { message }: Delivered): void {
    const { broker, queue, worker, faults, chance } = this;
    const step = messageOf(message.body.toString());
    this.check(message, step);
    const acknowledge = () => broker.acknowledge(queue, consumer, tag);
    const drawn = chance();
    if (drawn < faults.forgotten) {
      broker.count("forgotten");
      worker.take(step);
      return acknowledge();
    }
    const isLost = drawn < faults.forgotten + faults.redelivered;
    if (isLost) broker.count("redelivered");
    worker.take(step, (answer) => {
      if (isLost && this.consumer === consumer) this.leave();
      else void worker.report(step, answer).then(acknowledge);
    });
  }

  private check({ messageId, headers, appId }: BrokerMessage, step: Message): void {
    const { ledger } = this.cluster;
    const { dispatch_id: id, idempotency_key: key } = step;
    if (messageId !== id || headers["idempotency-key"] !== key || appId !== "saga")
      ledger.broken.push(`the message of ${id} has the id ${messageId}, and the key ${headers["idempotency-key"]}`);
  }
}
