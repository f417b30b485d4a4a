// The Grafana boards of docs/monitoring, of which `npm run docs` writes the JSON: panels in rows of three, each with its queries.

/** Text of a legend, and a query. `$__rate_interval` is Grafana's. */
type Query = readonly [legend: string, expr: string];

interface Panel {
  readonly title: string;
  readonly description?: string;
  /** As Grafana names it: short, s, reqps, ops, percentunit, bytes. */
  readonly unit: string;
  readonly queries: readonly Query[];
}

interface Row {
  readonly title: string;
  readonly panels: readonly Panel[];
}

const rate = (metric: string) => `rate(${metric}[$__rate_interval])`;
const rateBy = (by: string, metric: string) => `sum by (${by}) (${rate(metric)})`;
const rateOf = (metric: string) => `sum(${rate(metric)})`;
const quantile = (share: number, metric: string, by = "") =>
  `histogram_quantile(${share}, sum by (le${by && `, ${by}`}) (${rate(`${metric}_bucket`)}))`;
const panel = (title: string, unit: string, ...queries: readonly Query[]): Panel => ({ title, unit, queries });

const WORKFLOW = '{workflow=~"$workflow"}';
const SERVICE = '{service=~"$service"}';

const OVERVIEW: readonly Row[] = [
  {
    title: "Needs a person",
    panels: [
      panel(
        "Runs that need a person",
        "short",
        ["incidents", "max(saga_incidents_open)"],
        ["manual review", "max(saga_runs_in_review)"],
      ),
      panel(
        "Must be 0",
        "short",
        ["unwatched", "max(saga_runs_unwatched)"],
        ["leaked slots", "max(saga_concurrency_leaked)"],
        ["leaked turns", "max(saga_rate_limit_leaked)"],
        ["unreadable", "sum(saga_runs_unreadable)"],
        ["died in a trial", 'sum(increase(saga_trials_total{outcome="died"}[1h]))'],
      ),
      panel("Failing triggers", "short", ["triggers", "max(saga_triggers_failing)"]),
    ],
  },
  {
    title: "Runs",
    panels: [
      panel("Ended, by state", "ops", ["{{state}}", rateBy("state", `saga_runs_finished_total${WORKFLOW}`)]),
      panel("Failed, by workflow", "ops", [
        "{{workflow}}",
        `${rateBy("workflow", 'saga_runs_finished_total{workflow=~"$workflow", state="failed"}')} or 0 * ${rateBy("workflow", `saga_runs_finished_total${WORKFLOW}`)}`,
      ]),
      panel(
        "Start to end",
        "s",
        [
          "p50 {{workflow}}",
          `histogram_quantile(0.5, ${rateBy("le, workflow", `saga_run_seconds_bucket${WORKFLOW}`)})`,
        ],
        [
          "p95 {{workflow}}",
          `histogram_quantile(0.95, ${rateBy("le, workflow", `saga_run_seconds_bucket${WORKFLOW}`)})`,
        ],
      ),
      panel("Undos that failed for good", "ops", [
        "failed",
        `sum(${rate(`saga_undo_failures_total${WORKFLOW}`)}) or vector(0)`,
      ]),
      panel("Runs in memory", "short", ["resident", "sum(saga_runs_resident)"], ["in hand", "sum(saga_runs_in_hand)"]),
      panel(
        "How late the poll and the heartbeat are",
        "s",
        ["oldest wake", "max(saga_wake_overdue_seconds)"],
        ["oldest heartbeat", "max(saga_heartbeat_age_seconds)"],
      ),
    ],
  },
  {
    title: "Commits",
    panels: [
      panel(
        "Transitions and commits",
        "ops",
        ["transitions", rateOf("saga_transitions_total")],
        ["commits", rateOf("saga_commits_total")],
        ["conflicts", rateOf("saga_commit_conflicts_total")],
      ),
      panel(
        "Duration",
        "s",
        ["statement p99", quantile(0.99, "saga_commit_seconds")],
        ["wait for it p99", quantile(0.99, "saga_commit_wait_seconds")],
      ),
      panel("Runs in a commit", "short", [
        "mean",
        `${rateOf("saga_commit_rows_sum")} / ${rateOf("saga_commit_rows_count")}`,
      ]),
    ],
  },
  {
    title: "Nodes",
    panels: [
      panel("Requests", "reqps", ["{{status}}", rateBy("status", "saga_http_request_seconds_count")]),
      panel("Duration of requests, p99", "s", ["{{route}}", quantile(0.99, "saga_http_request_seconds", "route")]),
      panel(
        "Load shed",
        "ops",
        ["{{shortage}}", rateBy("shortage", "saga_load_shed_total")],
        ["nodes that refuse", "sum(saga_overloaded)"],
      ),
      panel("CPU", "percentunit", ["{{instance}}", rateBy("instance", "process_cpu_seconds_total")]),
      panel("Event loop, p99 of its delay", "s", [
        "{{instance}}",
        "max by (instance) (nodejs_eventloop_lag_p99_seconds)",
      ]),
      panel("Heap", "bytes", ["{{instance}}", "sum by (instance) (nodejs_heap_size_used_bytes)"]),
      panel("Messages between nodes", "ops", ["{{what}}", rateBy("what", "saga_relayed_total")]),
      panel("Messages dropped", "ops", ["{{reason}}", rateBy("reason", "saga_bus_dropped_total")]),
      panel(
        "Lost lines and spans",
        "ops",
        ["log lines", rateOf("saga_log_lines_lost_total")],
        ["spans", rateOf("saga_spans_dropped_total")],
      ),
    ],
  },
];

const WORKERS: readonly Row[] = [
  {
    title: "Demand",
    panels: [
      panel("Calls that wait", "short", ["{{service}}", `sum by (service) (saga_service_queued${SERVICE})`]),
      panel("Dispatches that workers have", "short", [
        "{{service}}",
        `sum by (service) (saga_service_in_flight${SERVICE})`,
      ]),
      panel("Wait for a worker, p95", "s", [
        "{{service}}.{{action}}",
        `histogram_quantile(0.95, ${rateBy("le, service, action", `saga_schedule_to_start_seconds_bucket${SERVICE}`)})`,
      ]),
    ],
  },
  {
    title: "Attempts",
    panels: [
      panel("Attempts", "ops", ["{{service}}.{{action}}", rateBy("service, action", `saga_attempts_total${SERVICE}`)]),
      panel("Failed, by code", "ops", [
        "{{service}}.{{action}} {{code}}",
        `${rateBy("service, action, code", 'saga_attempts_total{service=~"$service", code!=""}')} or vector(0)`,
      ]),
      panel(
        "Duration",
        "s",
        [
          "p50 {{service}}.{{action}}",
          `histogram_quantile(0.5, ${rateBy("le, service, action", `saga_attempt_seconds_bucket${SERVICE}`)})`,
        ],
        [
          "p95 {{service}}.{{action}}",
          `histogram_quantile(0.95, ${rateBy("le, service, action", `saga_attempt_seconds_bucket${SERVICE}`)})`,
        ],
      ),
      panel("Undos", "ops", [
        "{{service}}.{{action}}",
        `${rateBy("service, action", 'saga_attempts_total{service=~"$service", phase="undo"}')} or vector(0)`,
      ]),
      panel("Hand-overs over HTTP and RabbitMQ", "ops", [
        "{{transport}} {{outcome}}",
        rateBy("transport, outcome", "saga_hand_overs_total"),
      ]),
      panel("Destinations that take nothing", "short", [
        "{{transport}} {{reason}}",
        "max by (transport, reason) (saga_destinations_away) or vector(0)",
      ]),
    ],
  },
  {
    title: "Outside",
    panels: [
      panel(
        "Concurrency slots",
        "short",
        ["held", "max(saga_concurrency_held)"],
        ["waiting", "max(saga_concurrency_waiting)"],
      ),
      panel("Turns under rate limits", "short", ["waiting", "max(saga_rate_limit_waiting)"]),
      panel("Webhooks", "ops", ["{{outcome}}", rateBy("outcome", "saga_webhooks_total")]),
      panel("Fires of triggers", "ops", ["{{outcome}}", rateBy("outcome", "saga_trigger_fires_total")]),
      panel("Events from RabbitMQ", "ops", ["{{outcome}}", rateBy("outcome", "saga_events_in_total")]),
      panel("Events to RabbitMQ", "ops", ["{{outcome}}", rateBy("outcome", "saga_events_out_total")]),
      panel(
        "Events owed, connections away",
        "short",
        ["owed", "max(saga_events_owed)"],
        ["away", "sum(saga_event_links_away) or vector(0)"],
      ),
    ],
  },
];

const SOURCE = { type: "prometheus", uid: "$datasource" };
const [WIDTH, HEIGHT, COLUMNS] = [8, 8, 3];

function drawn({ title, unit, queries }: Panel, id: number, nth: number, top: number) {
  const place = { x: (nth % COLUMNS) * WIDTH, y: top + Math.floor(nth / COLUMNS) * HEIGHT };
  return {
    ...{ id, title, type: "timeseries", datasource: SOURCE },
    gridPos: { w: WIDTH, h: HEIGHT, ...place },
    fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
    targets: queries.map(([legendFormat, expr], at) => ({
      ...{ refId: String.fromCharCode(65 + at), datasource: SOURCE, expr, legendFormat },
    })),
  };
}

function variable(name: string, metric: string) {
  const query = `label_values(${metric}, ${name})`;
  return {
    ...{ name, type: "query", datasource: SOURCE, query, refresh: 2, sort: 1 },
    ...{ includeAll: true, allValue: ".*", multi: true, current: { text: "All", value: "$__all" } },
  };
}

function boardOf(uid: string, title: string, rows: readonly Row[], ...variables: readonly object[]) {
  const panels: object[] = [];
  let top = 0;
  for (const row of rows) {
    panels.push({
      ...{ id: panels.length + 1, title: row.title, type: "row", collapsed: false, panels: [] },
      gridPos: { w: WIDTH * COLUMNS, h: 1, x: 0, y: top },
    });
    for (const [nth, one] of row.panels.entries()) panels.push(drawn(one, panels.length + 1, nth, top + 1));
    top += 1 + Math.ceil(row.panels.length / COLUMNS) * HEIGHT;
  }
  return {
    ...{ uid, title, tags: ["saga"], schemaVersion: 39, editable: true, refresh: "30s" },
    time: { from: "now-1h", to: "now" },
    templating: { list: [{ name: "datasource", type: "datasource", query: "prometheus" }, ...variables] },
    panels,
  };
}

/** By file. */
export const BOARDS: Readonly<Record<string, object>> = {
  "overview.json": boardOf(
    "saga-overview",
    "Saga: runs and nodes",
    OVERVIEW,
    variable("workflow", "saga_runs_finished_total"),
  ),
  "workers.json": boardOf("saga-workers", "Saga: workers", WORKERS, variable("service", "saga_attempts_total")),
};
