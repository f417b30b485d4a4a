// The page of metrics in its two formats: the same series, and in OpenMetrics exemplars, which lead from a measurement to its trace.
import { describe, expect, it } from "vitest";
import { countedTogether, pageOf } from "../../src/cluster/metrics-page.js";
import { createMetrics } from "../../src/metrics/index.js";
import { type Exemplar, formatFor, pageIn } from "../../src/metrics/page.js";

/** What a node reports, with figures of these workflows. */
async function report(seconds: readonly (readonly [workflow: string, value: number, exemplar?: Exemplar])[]) {
  const { registry, runSeconds, runsFinished } = createMetrics();
  for (const [workflow, value, exemplar] of seconds) {
    runsFinished.add([workflow, "succeeded"], 1);
    runSeconds.add([workflow], value, undefined, exemplar);
  }
  return registry.getMetricsAsJSON();
}

const traced = (traceId: string, value: number, timestamp: number): Exemplar => ({
  labelSet: { trace_id: traceId, span_id: "00f067aa0ba902b7" },
  ...{ value, timestamp },
});

/** The names and labels of all samples. */
const series = (text: string) =>
  text
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => line.replace(/ # .*/, "").replace(/ \S+$/, ""));

const linesOf = (text: string, beginning: string) => text.split("\n").filter((line) => line.startsWith(beginning));

describe("the page of metrics", () => {
  it.each([
    ["no header", undefined, "text"],
    ["a browser", "text/html,*/*;q=0.8", "text"],
    ["an old scraper", "text/plain;version=0.0.4", "text"],
    ["Prometheus", "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3", "openmetrics"],
  ] as const)("is in the format that %s asks for", (_, accept, format) => {
    expect(formatFor(accept)).toBe(format);
  });

  it("has the same series in both formats", async () => {
    const families = await report([["order", 0.2]]);
    const [text, open] = [await pageIn("text", families), await pageIn("openmetrics", families)];
    expect([text.contentType, open.contentType]).toEqual([
      "text/plain; version=0.0.4; charset=utf-8",
      "application/openmetrics-text; version=1.0.0; charset=utf-8",
    ]);
    expect(series(open.text)).toEqual(series(text.text));
    expect(open.text).toMatch(/\n# TYPE saga_runs_finished counter\nsaga_runs_finished_total\{/);
    expect(open.text).toMatch(/[^\n]\n# EOF\n$/);
    expect(open.text).not.toContain("\n\n");
  });

  it("keeps the names of counters of workflows in OpenMetrics, which has a rule for them", async () => {
    const counter = (name: string) => ({ name, help: "", type: "counter", values: [{ value: 1, labels: {} }] });
    const gauge = { ...counter("workflow_b"), type: "gauge" };
    const families = [counter("workflow_a"), gauge, counter("workflow_b_total")];
    const { text } = await pageIn("openmetrics", families as unknown as Parameters<typeof pageIn>[1]);
    expect(text.split("\n").filter((line) => !line.startsWith("# HELP"))).toEqual([
      ...["# TYPE workflow_a unknown", "workflow_a 1", "# TYPE workflow_b gauge", "workflow_b 1"],
      ...["# TYPE workflow_b_total unknown", "workflow_b_total 1", "# EOF", ""],
    ]);
  });

  it("has in OpenMetrics the exemplar of each bucket, the latest of all nodes, and none in text", async () => {
    const [old, young, long] = [
      traced("a".repeat(32), 0.2, 10.5),
      traced("b".repeat(32), 0.3, 11.5),
      traced("c".repeat(32), 1e9, 12),
    ];
    const reports = [
      await report([
        ["order", 0.3, young],
        ["order", 1e9, long],
        ["order", 7],
      ]),
      await report([
        ["order", 0.2, old],
        ["refund", 0.2],
      ]),
    ];
    for (const said of [reports, reports.toReversed()]) {
      const { text } = await pageOf(said, "openmetrics");
      const buckets = linesOf(text, "saga_run_seconds_bucket").filter((line) => line.includes(" # "));
      expect(buckets).toEqual([
        `saga_run_seconds_bucket{workflow="order",le="0.5"} 2 # {trace_id="${"b".repeat(32)}",span_id="00f067aa0ba902b7"} 0.3 11.5`,
        `saga_run_seconds_bucket{workflow="order",le="+Inf"} 4 # {trace_id="${"c".repeat(32)}",span_id="00f067aa0ba902b7"} 1000000000 12`,
      ]);
      expect((await pageOf(said)).text).not.toContain("trace_id");
    }
  });
});

describe("what an ended node has counted", () => {
  it("stays in the sums, and its gauges do not", async () => {
    const one = await report([["order", 0.2]]);
    const two = await report([
      ["order", 0.3],
      ["refund", 4, traced("1".repeat(32), 4, 1)],
    ]);
    const ended = countedTogether(countedTogether([], one), two);
    const { text } = await pageOf([ended, await report([["order", 0.4]])], "openmetrics");
    expect(linesOf(text, "saga_runs_finished_total{")).toEqual([
      'saga_runs_finished_total{workflow="order",state="succeeded"} 3',
      'saga_runs_finished_total{workflow="refund",state="succeeded"} 1',
    ]);
    const isBucket = (line: string) => /^saga_run_seconds_bucket/.test(line) && /workflow="order"/.test(line);
    expect(text.split("\n").filter((line) => isBucket(line) && line.includes('le="0.5"'))).toEqual([
      expect.stringMatching(/ 3$/),
    ]);
    expect(linesOf(text, "saga_run_seconds_count{workflow=")).toEqual([
      'saga_run_seconds_count{workflow="order"} 3',
      'saga_run_seconds_count{workflow="refund"} 1',
    ]);
    expect(text).not.toContain("trace_id");
    expect(ended.filter(({ type }) => String(type) === "gauge")).toEqual([]);
  });

  it("is bounded, however many labels nodes had one after the other", async () => {
    let ended = countedTogether([], await report([["order", 1]]));
    for (let node = 0; node < 12; node++)
      ended = countedTogether(ended, await report(Array.from({ length: 999 }, (_, nth) => [`w${node}-${nth}`, 1])));
    const samplesOf = (name: string) => ended.find((family) => family.name === name)?.values.length;
    expect(samplesOf("saga_runs_finished_total")).toBe(10_000);
    ended = countedTogether(ended, await report([["order", 1]]));
    const counted = ended.find((family) => family.name === "saga_runs_finished_total")?.values;
    expect(counted?.find(({ labels }) => labels.workflow === "order")?.value).toBe(2);
  });
});
