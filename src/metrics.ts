// What a service instance counts about itself, in a registry of its own: two instances in one process (tests) do not mix.
// Metrics that workflows emit (`metric_emit`) join the registry from run/emitted.ts.
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";

/** Names are public: dashboards and alerts rely on them, and they must not change. */
export interface Metrics {
  readonly registry: Registry;
  readonly transitions: Counter;
  readonly commits: Counter;
  /** Runs in one group commit. */
  readonly commitRows: Histogram;
  readonly commitSeconds: Histogram;
  /** Compare-and-sets lost: two nodes had the same run, or a command was repeated. */
  readonly commitConflicts: Counter;
  readonly runsResident: Gauge;
  readonly runsInHand: Gauge;
  readonly residentBytes: Gauge;
  /** Nodes that refuse new work. */
  readonly overloaded: Gauge;
  readonly loadShed: Counter<"shortage">;
  readonly dispatchesInFlight: Gauge;
  readonly dispatchesQueued: Gauge;
  /** Unfinished runs with neither a wake row nor a named outside thing to wait for (law 7). It reads 0. */
  readonly runsUnwatched: Gauge;
  /** Figures of workflows that did not fit on the page. */
  readonly emittedDropped: Counter<"reason">;
  readonly streamsOpen: Gauge;
  /** Attempts to deliver a webhook, by what became of them. */
  readonly webhooks: Counter<"outcome">;
  readonly httpSeconds: Histogram<"method" | "route" | "status">;
}

export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  const counter = (name: string, help: string) => new Counter({ name, help, registers });
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers });
  return {
    registry,
    transitions: counter("saga_transitions_total", "Transitions of runs that became durable."),
    commits: counter("saga_commits_total", "Group commits."),
    commitRows: new Histogram({
      name: "saga_commit_rows",
      help: "Runs in one group commit.",
      buckets: [1, 2, 5, 10, 20, 50, 100, 200, 500],
      registers,
    }),
    commitSeconds: new Histogram({
      name: "saga_commit_seconds",
      help: "Duration of one group commit.",
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5],
      registers,
    }),
    commitConflicts: counter("saga_commit_conflicts_total", "Runs of a group commit that lost their compare-and-set."),
    runsResident: gauge("saga_runs_resident", "Runs whose actor is in memory."),
    runsInHand: gauge("saga_runs_in_hand", "Runs with a command, a load or a commit under way."),
    residentBytes: gauge("saga_resident_bytes", "What the runs at rest in memory weigh, estimated."),
    overloaded: gauge("saga_overloaded", "Nodes that refuse new work."),
    loadShed: new Counter({
      name: "saga_load_shed_total",
      help: "Requests and commands refused with 503, by what was short.",
      labelNames: ["shortage"] as const,
      registers,
    }),
    dispatchesInFlight: gauge("saga_dispatches_in_flight", "Dispatches that are with a worker."),
    dispatchesQueued: gauge("saga_dispatches_queued", "Action calls that wait for a worker's credit."),
    runsUnwatched: new Gauge({
      name: "saga_runs_unwatched",
      help: "Unfinished runs with neither a wake row nor a named wait. Must be 0.",
      registers,
      // Every node counts the whole store.
      aggregator: "max",
    }),
    emittedDropped: new Counter({
      name: "saga_workflow_metrics_dropped_total",
      help: "Figures of metric_emit steps that are not, or not as they are, on this page, by the limit that they met.",
      labelNames: ["reason"] as const,
      registers,
    }),
    streamsOpen: gauge("saga_streams_open", "Open worker streams and run streams."),
    webhooks: new Counter({
      name: "saga_webhooks_total",
      help: "Attempts to deliver a webhook: delivered, put_off, given_up.",
      labelNames: ["outcome"] as const,
      registers,
    }),
    httpSeconds: new Histogram({
      name: "saga_http_request_seconds",
      help: "Duration of HTTP requests, by route pattern.",
      labelNames: ["method", "route", "status"] as const,
      buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
      registers,
    }),
  };
}
