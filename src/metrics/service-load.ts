// The load of workers by service, for those who scale them: what waits and what is in progress. A backlog alone scales workers down while they
// are busy.
import { OTHER } from "./family.js";
import type { Metrics } from "./index.js";

/** Of one node. */
export interface ServiceLoads {
  /** Of connected workers, and of addresses that calls are handed to. */
  connectedWorkers(): Iterable<{ readonly service: string; readonly inFlight: number }>;
  waitingCalls(): Iterable<{ readonly service: string; readonly transport: string; readonly calls: number }>;
}

/** Services with series of their own; those that come after them by name share one. */
const SERVICES = 200;

export function gaugeServices({ serviceQueued, serviceInFlight }: Metrics, loads: ServiceLoads): void {
  const services = new Map<string, { queued: number; inFlight: number }>();
  const of = (service: string) => {
    const load = services.get(service) ?? { queued: 0, inFlight: 0 };
    services.set(service, load);
    return load;
  };
  for (const { service, inFlight } of loads.connectedWorkers()) of(service).inFlight += inFlight;
  // No worker carries out the requests of the service itself.
  for (const { service, transport, calls } of loads.waitingCalls())
    if (transport !== "request") of(service).queued += calls;
  serviceQueued.reset();
  serviceInFlight.reset();
  for (const [nth, name] of [...services.keys()].sort().entries()) {
    const { queued, inFlight } = of(name);
    const service = nth < SERVICES ? name : OTHER;
    serviceQueued.inc({ service }, queued);
    serviceInFlight.inc({ service }, inFlight);
  }
}
