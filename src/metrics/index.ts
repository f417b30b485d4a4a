// The service's own metrics, in a registry of their own: two instances in one process (tests) do not share counters. Metrics
// that workflows emit (`metric_emit`) join the registry in metrics/workflow-metrics.ts.
import { Counter, collectDefaultMetrics, Gauge, Histogram, type LabelValues, Registry } from "prom-client";
import { type Logger, lostLines } from "../log.js";
import { BoundedFamily, type BoundedOptions } from "./family.js";

/** The names of the metrics are public: dashboards and alerts depend on them, so they must not change. */
export interface Metrics {
  readonly registry: Registry;
  readonly transitions: Counter;
  readonly commits: Counter;
  /** Runs in one group commit. */
  readonly commitRows: Histogram;
  readonly commitSeconds: Histogram;
  /** Lost compare-and-sets: two nodes had the same run, or a command was repeated. */
  readonly commitConflicts: Counter;
  /** Of the first run of a group, from when its commit is ready until the statement is sent. */
  readonly commitWaitSeconds: Histogram;
  readonly runsFinished: BoundedFamily<"workflow" | "state">;
  readonly runSeconds: BoundedFamily<"workflow">;
  readonly undoFailures: BoundedFamily<"workflow" | "code">;
  /** Attempts of action calls that ended. */
  readonly attempts: BoundedFamily<"service" | "action" | "phase" | "code">;
  readonly attemptSeconds: BoundedFamily<"service" | "action">;
  readonly scheduleToStart: BoundedFamily<"service" | "action">;
  readonly runsResident: Gauge;
  readonly runsInHand: Gauge;
  readonly residentBytes: Gauge;
  /** 1 while the node refuses new work. */
  readonly overloaded: Gauge;
  readonly loadShed: Counter<"shortage">;
  readonly dispatchesInFlight: Gauge;
  readonly dispatchesQueued: Gauge;
  readonly serviceQueued: Gauge<"service">;
  readonly serviceInFlight: Gauge<"service">;
  /** Tries to hand a dispatch over to a worker without a stream, by their outcome. */
  readonly handOvers: Counter<"transport" | "outcome">;
  /** Messages about runs to other nodes. */
  readonly relayed: Counter<"what">;
  /** Messages between nodes that were dropped. */
  readonly busDropped: Counter<"reason">;
  /** Destinations of dispatches that take none at present. */
  readonly destinationsAway: Gauge<"transport" | "reason">;
  /** The keys that values are sealed with, by the master key that wraps them. */
  readonly dataKeys: Gauge<"master_key">;
  /** Unfinished runs without a wake row that wait for nothing that is named (law 7). It reads 0. */
  readonly runsUnwatched: Gauge;
  readonly incidentsOpen: Gauge;
  readonly runsInReview: Gauge;
  /** For how long the run that is due longest has been due: the poll is so far behind. */
  readonly wakeOverdueSeconds: Gauge;
  readonly heartbeatAgeSeconds: Gauge;
  readonly concurrencyWaiting: Gauge;
  readonly concurrencyHeld: Gauge;
  readonly concurrencyLeaked: Gauge;
  readonly rateLimitWaiting: Gauge;
  readonly rateLimitLeaked: Gauge;
  /** Runs that the poll of this node met and could not read. */
  readonly runsUnreadable: Gauge;
  /** Suspects tried in the trial process, by outcome. */
  readonly trials: Counter<"outcome">;
  /** Measurements of workflows that did not fit on the page. */
  readonly emittedDropped: Counter<"reason">;
  readonly streamsOpen: Gauge;
  /** Attempts to deliver a webhook, by their outcome. */
  readonly webhooks: Counter<"outcome">;
  /** Fires of triggers, by their outcome. */
  readonly triggerFires: Counter<"outcome">;
  readonly triggersFailing: Gauge;
  /** Acts of bulk jobs, by their outcome. */
  readonly bulkActs: Counter<"outcome">;
  /** Messages of RabbitMQ's events that are acknowledged, by what became of them. */
  readonly eventsIn: Counter<"outcome">;
  /** Tries to publish an event to RabbitMQ. */
  readonly eventsOut: Counter<"outcome">;
  readonly eventsOwed: Gauge;
  readonly eventLinksAway: Gauge<"direction">;
  /** 1 while the exchange or a queue of events is missing, or is there and cannot serve. */
  readonly eventTopologyMissing: Gauge;
  /** Starts that needed startup variables over HTTP, by what they got. */
  readonly startupVariables: Counter<"outcome">;
  /** Requests for them. */
  readonly startupSeconds: Histogram<"outcome">;
  readonly httpSeconds: Histogram<"method" | "route" | "status">;
  /** Spans of traces that the collector has received, and those that it has not. */
  readonly spansExported: Counter;
  readonly spansDropped: Counter<"reason">;
  /** Runs that were written to the archive before retention deleted them. */
  readonly runsArchived: Counter;
  /** Rounds of retention that deleted no more runs, because the archive could not be written. */
  readonly archiveFailures: Counter;
  /** It has a value where the ports have TLS. */
  readonly tlsExpires: Gauge;
}

/** Counts `emittedDropped`. The page of all nodes adds what it drops itself. */
export const DROPPED_METRIC = "saga_workflow_metrics_dropped_total";

/** What a parser takes for a sample of a family, beside its name. OpenMetrics is stricter than the format of this page, so its list is used. */
const SUFFIXES: Readonly<Record<string, readonly string[]>> = {
  counter: ["_total", "_created"],
  histogram: ["_bucket", "_sum", "_count", "_created"],
  summary: ["_sum", "_count", "_created"],
};

/** Two families that share one of these names cannot stand on one page. */
export function sampleNames(name: string, type: string): readonly string[] {
  return [name, ...(SUFFIXES[type] ?? []).map((suffix) => `${name}${suffix}`)];
}

const COMMIT_ROWS = [1, 2, 5, 10, 20, 50, 100, 200, 500];
const COMMIT_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];
/** From one step in memory to a worker that takes minutes. */
const ATTEMPT_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
/** Runs take milliseconds or weeks. */
const RUN_SECONDS = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 600, 3_600, 21_600, 86_400, 604_800];
/** The most series of a counter and of a histogram, each of whose series is 16 or 17 lines of the page. */
const SERIES = { counter: 1_000, histogram: 200 };
const BOUNDED = [
  ...["saga_runs_finished_total", "saga_run_seconds", "saga_undo_failures_total"],
  ...["saga_attempts_total", "saga_attempt_seconds", "saga_schedule_to_start_seconds"],
];
const HTTP_SECONDS = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

/** `log`: whose lost lines are counted. */
export function createMetrics(log?: Logger): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  countLostLines(registry, log);
  return {
    registry,
    ...runMetrics(registry),
    ...tuningMetrics(registry),
    ...storeMetrics(registry),
    ...loadMetrics(registry),
    ...outsideMetrics(registry),
  };
}

/** Read from the log itself: it is there before the metrics, and counts where nothing can be logged. */
function countLostLines(registry: Registry, log: Logger | undefined): void {
  new Counter({
    name: "saga_log_lines_lost_total",
    help: "Lines of the log that could not be written.",
    registers: [registry],
    collect() {
      this.reset();
      this.inc(log ? lostLines(log) : 0);
    },
  });
}

function runMetrics(registry: Registry) {
  const { counter, gauge, histogram } = factory(registry);
  return {
    transitions: counter("saga_transitions_total", "Transitions of runs that became durable."),
    commits: counter("saga_commits_total", "Group commits."),
    commitRows: histogram("saga_commit_rows", "Runs in one group commit.", COMMIT_ROWS),
    commitSeconds: histogram("saga_commit_seconds", "Duration of one group commit.", COMMIT_SECONDS),
    commitWaitSeconds: histogram(
      "saga_commit_wait_seconds",
      "Longest wait in a group commit, from when a run is ready until the statement is sent.",
      COMMIT_SECONDS,
    ),
    commitConflicts: counter("saga_commit_conflicts_total", "Runs of a group commit that lost their compare-and-set."),
    runsResident: gauge("saga_runs_resident", "Runs whose actor is in memory."),
    runsInHand: gauge("saga_runs_in_hand", "Runs with a command, a load or a commit in progress."),
    residentBytes: gauge("saga_resident_bytes", "Estimated bytes of the idle runs in memory."),
    runsUnreadable: gauge(
      "saga_runs_unreadable",
      "Runs that a node met and cannot read, because a newer version wrote them.",
    ),
    trials: counter("saga_trials_total", "Trials of suspects: lived, died, unreadable, undecided.", {
      outcome: ["lived", "died", "unreadable", "undecided"],
    }),
    // Counted by one node for the whole store; when another one takes over, both may have it for a moment.
    runsUnwatched: gauge(
      "saga_runs_unwatched",
      "Unfinished runs with neither a wake row nor a named wait. Must be 0.",
      "max",
    ),
  };
}

/** What people tune by: counted from commits in metrics/run-metrics.ts. */
function tuningMetrics(registry: Registry) {
  const overflowed = factory(registry).counter(
    "saga_metric_series_overflowed_total",
    "Values counted in a series named (other) because their own found no place, by metric.",
    { metric: BOUNDED },
  );
  const bounded = <Label extends string>(
    kind: "counter" | "histogram",
    options: Omit<BoundedOptions<Label>, "kind" | "limit" | "overflowed">,
  ) => new BoundedFamily<Label>(registry, { ...options, kind, limit: SERIES[kind], overflowed });
  const action = ["service", "action"] as const;
  return {
    runsFinished: bounded("counter", {
      name: "saga_runs_finished_total",
      help: "Runs that ended, by workflow and state.",
      labels: ["workflow", "state"],
      closed: ["state"],
    }),
    runSeconds: bounded("histogram", {
      name: "saga_run_seconds",
      help: "Time from the start of a run to its end.",
      labels: ["workflow"],
      buckets: RUN_SECONDS,
    }),
    undoFailures: bounded("counter", {
      name: "saga_undo_failures_total",
      help: "Undos that failed for good, by the workflow of the run and the code of the error.",
      labels: ["workflow", "code"],
      closed: ["code"],
    }),
    attempts: bounded("counter", {
      name: "saga_attempts_total",
      help: "Attempts of action calls that ended, by the code of their error: empty if they succeeded, given if it is not the engine's.",
      labels: [...action, "phase", "code"],
      closed: ["phase", "code"],
    }),
    attemptSeconds: bounded("histogram", {
      name: "saga_attempt_seconds",
      help: "Time from the dispatch of an attempt to its end.",
      labels: action,
      buckets: ATTEMPT_SECONDS,
    }),
    scheduleToStart: bounded("histogram", {
      name: "saga_schedule_to_start_seconds",
      help: "Time for which an attempt waited for a worker.",
      labels: action,
      buckets: ATTEMPT_SECONDS,
    }),
  };
}

/** Counted by one node for the whole store. */
function storeMetrics(registry: Registry) {
  const { gauge } = factory(registry);
  const leakedTurns = "Turns of runs that have ended or do not exist. Must be 0.";
  const leaked = "Concurrency slots and places in the queue of runs that have ended or do not exist. Must be 0.";
  return {
    incidentsOpen: gauge("saga_incidents_open", "Runs that stand at an incident.", "max"),
    runsInReview: gauge("saga_runs_in_review", "Runs that are marked for manual review.", "max"),
    wakeOverdueSeconds: gauge("saga_wake_overdue_seconds", "Age of the oldest wake row that is due.", "max"),
    heartbeatAgeSeconds: gauge("saga_heartbeat_age_seconds", "Time since a node last wrote its heartbeat.", "max"),
    concurrencyWaiting: gauge("saga_concurrency_waiting", "Runs and steps that wait for a concurrency slot.", "max"),
    concurrencyHeld: gauge("saga_concurrency_held", "Concurrency slots that runs and steps hold.", "max"),
    concurrencyLeaked: gauge("saga_concurrency_leaked", leaked, "max"),
    rateLimitWaiting: gauge(
      "saga_rate_limit_waiting",
      "Runs and steps that wait for their turn under a rate limit.",
      "max",
    ),
    rateLimitLeaked: gauge("saga_rate_limit_leaked", leakedTurns, "max"),
  };
}

function loadMetrics(registry: Registry) {
  const { counter, gauge } = factory(registry);
  return {
    overloaded: gauge("saga_overloaded", "Nodes that refuse new work."),
    loadShed: counter("saga_load_shed_total", "Requests and commands refused with 503, by shortage.", {
      shortage: ["runs", "bodies", "event_loop", "heap", "reads"],
    }),
    dispatchesInFlight: gauge("saga_dispatches_in_flight", "Dispatches that a worker has."),
    dispatchesQueued: gauge("saga_dispatches_queued", "Action calls that wait for a worker's credit."),
    serviceQueued: gauge("saga_service_queued", "Action calls that wait for a worker, by service.", "sum", ["service"]),
    serviceInFlight: gauge("saga_service_in_flight", "Dispatches that workers have, by service.", "sum", ["service"]),
    handOvers: counter(
      "saga_hand_overs_total",
      "Tries to hand a dispatch to an HTTP or RabbitMQ worker: answered, accepted, undelivered, lost.",
      { transport: ["http", "rmq"], outcome: ["answered", "accepted", "undelivered", "lost"] },
    ),
    busDropped: counter("saga_bus_dropped_total", "Messages between nodes that were dropped, by reason.", {
      reason: [
        ...["unauthentic", "malformed", "unknown", "too large", "lost in transit", "not connected or too much unsent"],
        ...["too many asks", "too many asks being answered"],
      ],
    }),
    relayed: counter(
      "saga_relayed_total",
      "Messages to other nodes on behalf of runs: answer, command, dispatch, effects, wake.",
      { what: ["answer", "command", "dispatch", "effects", "wake"] },
    ),
    // Every node that has calls for a destination counts it, so the page of all nodes takes the maximum.
    dataKeys: gauge(
      "saga_data_keys",
      "Keys that values in the database are sealed with, by the master key that wraps them.",
      "max",
      ["master_key"],
    ),
    destinationsAway: gauge(
      "saga_destinations_away",
      "Addresses and queues of workers that take no dispatches at present, by reason.",
      "max",
      ["transport", "reason"],
    ),
    emittedDropped: counter(
      DROPPED_METRIC,
      "Measurements of metric_emit steps that are missing or cut on this page, by the limit that they met.",
      { reason: ["names", "series", "label_length", "kind", "clash"] },
    ),
  };
}

function outsideMetrics(registry: Registry) {
  const { counter, gauge, histogram } = factory(registry);
  const tlsExpires = gauge("saga_tls_expires_seconds", "Seconds until the certificate of the ports expires.", "min");
  // Zero would say that it expires now.
  tlsExpires.remove();
  return {
    tlsExpires,
    runsArchived: counter("saga_runs_archived_total", "Runs written to the archive before retention deleted them."),
    archiveFailures: counter(
      "saga_archive_failures_total",
      "Rounds of retention that stopped because the archive could not be written.",
    ),
    streamsOpen: gauge("saga_streams_open", "Open run streams and inspections."),
    spansExported: counter("saga_spans_exported_total", "Spans of traces that the collector has received."),
    spansDropped: counter("saga_spans_dropped_total", "Spans of traces that were lost: queue, export, stop.", {
      reason: ["queue", "export", "stop"],
    }),
    webhooks: counter("saga_webhooks_total", "Attempts to deliver a webhook: delivered, put_off, given_up.", {
      outcome: ["delivered", "put_off", "given_up"],
    }),
    triggerFires: counter("saga_trigger_fires_total", "Fires of triggers: started, skipped, failed.", {
      outcome: ["started", "skipped", "failed"],
    }),
    triggersFailing: gauge("saga_triggers_failing", "Enabled triggers whose latest fire ended with an error.", "max"),
    bulkActs: counter("saga_bulk_acts_total", "Acts of bulk jobs on runs: done, refused, postponed.", {
      outcome: ["done", "refused", "postponed"],
    }),
    eventsIn: counter("saga_events_in_total", "Messages taken from RabbitMQ: taken, repeated, own, dead.", {
      outcome: ["taken", "repeated", "own", "dead"],
    }),
    eventsOut: counter("saga_events_out_total", "Tries to publish an event to RabbitMQ: confirmed, unconfirmed.", {
      outcome: ["confirmed", "unconfirmed"],
    }),
    eventsOwed: gauge("saga_events_owed", "Events that runs owe to RabbitMQ.", "max"),
    eventLinksAway: gauge(
      "saga_event_links_away",
      "Nodes whose connection to RabbitMQ for events is away, by direction.",
      "sum",
      ["direction"],
    ),
    eventTopologyMissing: gauge(
      "saga_event_topology_missing",
      "Nodes that found the exchange or a queue of events at RabbitMQ missing or unfit, and could not declare it.",
    ),
    startupVariables: counter(
      "saga_startup_variables_total",
      "Starts that needed startup variables over HTTP: fetched, cached, failed_open, failed_closed.",
      { outcome: ["fetched", "cached", "failed_open", "failed_closed"] },
    ),
    startupSeconds: histogram(
      "saga_startup_variables_seconds",
      "Duration of requests for startup variables: ok, timeout, failed.",
      HTTP_SECONDS,
      ["outcome"],
    ),
    httpSeconds: histogram("saga_http_request_seconds", "Duration of HTTP requests, by route pattern.", HTTP_SECONDS, [
      "method",
      "route",
      "status",
    ]),
  };
}

/** All series that labels with these values make. */
function combined(labels: readonly (readonly [string, readonly string[]])[]): readonly Record<string, string>[] {
  const [first, ...others] = labels;
  if (!first) return [{}];
  const [label, values] = first;
  return values.flatMap((value) => combined(others).map((series) => ({ [label]: value, ...series })));
}

function factory(registry: Registry) {
  const registers = [registry];
  return {
    /** `closed`: all values of each label. Their series begin at zero, because a rate needs a value before the first event. */
    counter<Label extends string = never>(
      name: string,
      help: string,
      closed?: Readonly<Record<Label, readonly string[]>>,
    ) {
      const labels = Object.entries<readonly string[]>(closed ?? {});
      const counter = new Counter<Label>({
        name,
        help,
        labelNames: labels.map(([label]) => label as Label),
        registers,
      });
      if (labels.length > 0) for (const series of combined(labels)) counter.inc(series as LabelValues<Label>, 0);
      return counter;
    },
    /** `aggregator`: how the page of all nodes combines their values. */
    gauge: <Label extends string = string>(
      name: string,
      help: string,
      aggregator: "sum" | "max" | "min" = "sum",
      labelNames: readonly Label[] = [],
    ) => new Gauge<Label>({ name, help, aggregator, labelNames, registers }),
    histogram: <Label extends string = string>(
      name: string,
      help: string,
      buckets: number[],
      labelNames: readonly Label[] = [],
    ) => new Histogram<Label>({ name, help, buckets, labelNames, registers }),
  };
}
