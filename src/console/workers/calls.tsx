// The calls of actions over all services, in numbers from the metrics: held by workers, waiting for one, and the addresses and queues that take none.
import { useQuery } from "@tanstack/react-query";
import { metricsText } from "../browser/client.js";
import { type Metrics, parseMetrics, type Sample, total } from "../cluster/metrics.js";
import { Answer } from "../parts/notes.js";
import { transportName } from "./workers.js";

const EVERY_MS = 2_000;

export function Calls() {
  const metrics = useQuery({
    queryKey: ["metrics", "calls"],
    queryFn: async ({ signal }) => parseMetrics(await metricsText(signal)),
    refetchInterval: EVERY_MS,
    structuralSharing: false,
  });
  return (
    <section aria-labelledby="calls">
      <h2 id="calls">Queues</h2>
      <Answer of={metrics}>{(metrics) => <Numbers metrics={metrics} />}</Answer>
    </section>
  );
}

function Numbers({ metrics }: { metrics: Metrics }) {
  const away = (metrics.get("saga_destinations_away") ?? []).filter(({ value }) => value > 0);
  return (
    <>
      <dl>
        <dt>Held by workers</dt>
        <dd>{number(total(metrics, "saga_dispatches_in_flight"))}</dd>
        <dt>Waiting for a worker</dt>
        <dd>{number(total(metrics, "saga_dispatches_queued"))}</dd>
        <dt>Addresses and queues away</dt>
        <dd>{away.length === 0 ? "none" : away.map(inWords).join("; ")}</dd>
      </dl>
      <p className="quiet">These are the numbers of the machine that answered.</p>
    </>
  );
}

const number = (value = 0): string => value.toLocaleString();

/** "2 over RabbitMQ: no_queue" */
const inWords = ({ labels: { transport, reason }, value }: Sample): string =>
  `${value} over ${transportName(transport ?? "")}: ${reason}`;
