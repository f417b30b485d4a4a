// The log's lines and the metrics' registry: instances do not share anything.
import { describe, expect, it } from "vitest";
import { createLogger } from "../src/log.js";
import { createMetrics } from "../src/metrics.js";

function logged(work: (log: ReturnType<typeof createLogger>) => void, logLevel = "info"): Record<string, unknown>[] {
  const lines: string[] = [];
  work(createLogger({ logLevel }, { write: (line) => void lines.push(line) }));
  return lines.map((line) => JSON.parse(line));
}

describe("log", () => {
  it("writes JSON lines with level names and RFC 3339 times", () => {
    const [line] = logged((log) => log.child({ node: "n1" }).warn({ run: "r" }, "slow"));
    expect(line).toMatchObject({ level: "warn", node: "n1", run: "r", msg: "slow" });
    expect(line?.time).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  });

  it("keeps to its level", () => {
    expect(logged((log) => log.info("no"), "warn")).toEqual([]);
  });

  it("hides credentials, also one level down and in headers", () => {
    const secrets = {
      token: "hunter2",
      hello: { token: "hunter2" },
      headers: { authorization: "Bearer hunter2" },
      req: { headers: { authorization: "Bearer hunter2", cookie: "hunter2" } },
    };
    const lines = logged((log) => log.info(secrets, "hello"));
    expect(JSON.stringify(lines)).not.toContain("hunter2");
    expect(lines).toHaveLength(1);
  });
});

describe("metrics", () => {
  it("each instance has its own counters, under the public names", async () => {
    const [one, other] = [createMetrics(), createMetrics()];
    one.transitions.inc(3);
    one.httpSeconds.observe({ method: "GET", route: "/x", status: "200" }, 0.1);
    expect(await one.registry.getSingleMetricAsString("saga_transitions_total")).toContain("saga_transitions_total 3");
    expect(await other.registry.getSingleMetricAsString("saga_transitions_total")).toContain(
      "saga_transitions_total 0",
    );
    const names = one.registry.getMetricsAsArray().map((metric) => metric.name);
    expect(names).toEqual(
      expect.arrayContaining([
        "saga_transitions_total",
        "saga_commits_total",
        "saga_commit_rows",
        "saga_commit_seconds",
        "saga_runs_resident",
        "saga_commit_conflicts_total",
        "saga_dispatches_in_flight",
        "saga_dispatches_queued",
        "saga_runs_unwatched",
        "saga_streams_open",
        "saga_http_request_seconds",
        "process_cpu_user_seconds_total",
        "nodejs_eventloop_lag_seconds",
      ]),
    );
  });
});
