// Workers by their service, and what a service may take. It is pure: the page of workers that was read comes in.

/** What is read of a worker here. */
export interface Loaded {
  readonly service: string;
  readonly in_flight: number;
  readonly max_in_flight: number;
  readonly draining?: boolean;
}

export interface Served<Worker extends Loaded = Loaded> {
  readonly service: string;
  readonly workers: readonly Worker[];
  readonly inFlight: number;
  readonly maxInFlight: number;
  readonly draining: number;
}

/** The workers of each service, in the order of the page, which is that of the services. */
export function byService<Worker extends Loaded>(workers: readonly Worker[]): Served<Worker>[] {
  const services = [...new Set(workers.map(({ service }) => service))];
  return services.map((service) =>
    served(
      service,
      workers.filter((worker) => worker.service === service),
    ),
  );
}

const served = <Worker extends Loaded>(service: string, workers: readonly Worker[]): Served<Worker> => ({
  service,
  workers,
  inFlight: sum(workers, ({ in_flight }) => in_flight),
  maxInFlight: sum(workers, ({ max_in_flight }) => max_in_flight),
  draining: workers.filter(({ draining }) => draining).length,
});

const sum = (workers: readonly Loaded[], of: (worker: Loaded) => number) =>
  workers.reduce((total, worker) => total + of(worker), 0);

const TRANSPORTS: Readonly<Record<string, string>> = { grpc: "gRPC", http: "HTTP", rmq: "RabbitMQ" };

/** As people write it. One of a later release is shown as the service calls it. */
export const transportName = (transport: string): string => TRANSPORTS[transport] ?? transport;

/** "3 workers hold 4 of 24 steps, 1 is draining". */
export function inWords({ workers, inFlight, maxInFlight, draining }: Served): string {
  const count = workers.length === 1 ? "1 worker holds" : `${workers.length} workers hold`;
  const tail = draining === 0 ? "" : `, ${draining} ${draining === 1 ? "is" : "are"} draining`;
  return `${count} ${inFlight} of ${maxInFlight} steps${tail}`;
}
