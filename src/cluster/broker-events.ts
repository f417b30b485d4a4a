// The events over RabbitMQ, composed from the parts of a node. Without `AMQP_URL` there are none.
import { BrokerEvents } from "../events/index.js";
import type { Admission } from "../run/admission.js";
import { EventIntake } from "../run/event-intake.js";
import type { EventAnnouncer } from "../run/ports.js";
import type { Placement } from "../shard/placement.js";
import type { Foundations } from "./foundations.js";

export interface BrokerEventsParts {
  readonly placement: Pick<Placement, "mine">;
  readonly announcer: EventAnnouncer;
  readonly admission: Pick<Admission, "shedding">;
}

export function composeBrokerEvents(
  { config, sql, log, metrics, scheduler }: Foundations,
  { placement, announcer, admission }: BrokerEventsParts,
): BrokerEvents | undefined {
  const { amqpUrl: url, eventsExchange: exchange, limits } = config;
  if (url === undefined) return undefined;
  return new BrokerEvents({
    ...{ url, exchange, sql, log, metrics, scheduler, limits },
    intake: new EventIntake(sql, announcer),
    admits: () => admission.shedding === undefined,
    shards: () => [...placement.mine],
  });
}
