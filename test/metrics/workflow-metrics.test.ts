// Values of metric_emit on /metrics: their series, their bounds, and that a commit counts once.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { asRunId, type CommittedEvent, type JsonObject } from "../../machines/index.js";
import { latestOnly, pageOf } from "../../src/cluster/metrics-page.js";
import { createLogger } from "../../src/log.js";
import { createMetrics } from "../../src/metrics/index.js";
import {
  WORKFLOW_METRIC_LIMITS,
  type WorkflowMetricLimits,
  WorkflowMetrics,
} from "../../src/metrics/workflow-metrics.js";
import type { CommitListener } from "../../src/run/ports.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { publish, start, startHalf } from "../run/rig.js";

let seq = 0;
const event = (metadata: JsonObject, at = 1_000): CommittedEvent => {
  const row = { type: "metric", attempt: 0, from: "running", to: "running", actor: "coordinator" } as const;
  return { ...row, runId: asRunId("r"), seq: ++seq, at, metadata };
};
const figure = (name: string, more: JsonObject = {}) => ({ name, kind: "counter", value: 1, tags: {}, ...more });

function listener(limits: Partial<WorkflowMetricLimits> = {}) {
  const lines: string[] = [];
  const log = createLogger({ logLevel: "warn" }, { write: (line: string) => void lines.push(line) });
  const metrics = createMetrics();
  const emitted = new WorkflowMetrics(metrics, log, { ...WORKFLOW_METRIC_LIMITS, ...limits });
  const emit = (metadata: JsonObject, at?: number, tenant?: string) =>
    emitted.onCommit(asRunId("r"), [event(metadata, at)], tenant);
  const page = async () => (await metrics.registry.metrics()).split("\n").filter((line) => /^workflow_/.test(line));
  const dropped = async (reason: string) =>
    (await metrics.emittedDropped.get()).values.find(({ labels }) => labels.reason === reason)?.value ?? 0;
  return { emit, page, dropped, lines, metrics };
}

describe("the series of a measurement", () => {
  it("a counter grows for each label set, whatever the order of the tags", async () => {
    const { emit, page } = listener();
    emit(figure("orders.placed", { tags: { shop: "a", kind: "x" } }));
    emit(figure("orders.placed", { value: 2.5, tags: { kind: "x", shop: "a" } }));
    emit(figure("orders.placed", { tags: { shop: 'b"\n' } }));
    emit(figure("orders.placed"));
    expect(await page()).toEqual([
      'workflow_orders_placed{shop="a",kind="x"} 3.5',
      'workflow_orders_placed{shop="b\\"\\n"} 1',
      "workflow_orders_placed 1",
    ]);
  });

  it("a gauge has the value of the latest audit event", async () => {
    const { emit, page } = listener();
    emit(figure("depth", { kind: "gauge", value: 5 }), 2_000);
    emit(figure("depth", { kind: "gauge", value: 7 }), 1_000);
    expect(await page()).toEqual(["workflow_depth 5"]);
    emit(figure("depth", { kind: "gauge", value: -1 }), 3_000);
    expect(await page()).toEqual(["workflow_depth -1"]);
  });

  it("a histogram has cumulative buckets, a sum and a count", async () => {
    const { emit, page } = listener();
    for (const value of [0.5, 3, 1e9]) emit(figure("took", { kind: "histogram", value, tags: { le: "mine" } }));
    const lines = await page();
    expect(lines).toContain('workflow_took_bucket{tag_le="mine",le="0.1"} 0');
    expect(lines).toContain('workflow_took_bucket{tag_le="mine",le="0.5"} 1');
    expect(lines).toContain('workflow_took_bucket{tag_le="mine",le="5"} 2');
    expect(lines).toContain('workflow_took_bucket{tag_le="mine",le="+Inf"} 3');
    expect(lines).toContain('workflow_took_sum{tag_le="mine"} 1000000003.5');
    expect(lines).toContain('workflow_took_count{tag_le="mine"} 3');
  });

  it("a dry run and other types of events are not counted", async () => {
    const { emit, page } = listener();
    emit(figure("orders", { dry_run: true }));
    emit({ name: 1, kind: "counter", value: 1 });
    expect(await page()).toEqual([]);
  });

  it("cannot take the name of a metric of the service", async () => {
    const { emit, metrics } = listener();
    for (const name of ["saga_commits_total", "process_cpu_seconds_total", "", "1", "a b"]) emit(figure(name));
    const text = await metrics.registry.metrics();
    expect(text).toContain("workflow_saga_commits_total 1");
    expect(text).toContain("\nsaga_commits_total 0");
  });
});

describe("the page is bounded, and counts what it dropped", () => {
  it("in names, in label sets of a name, and in all label sets", async () => {
    const { emit, page, dropped, lines } = listener({ names: 2, seriesPerName: 2, series: 3 });
    for (const name of ["a", "b", "c", "d"]) emit(figure(name));
    for (const shop of ["x", "y"]) emit(figure("a", { tags: { shop } }));
    for (const shop of ["x", "y"]) emit(figure("b", { tags: { shop } }));
    emit(figure("a"));
    expect(await page()).toEqual(["workflow_a 2", 'workflow_a{shop="x"} 1', "workflow_b 1"]);
    expect([await dropped("names"), await dropped("series")]).toEqual([2, 3]);
    // Logged once for each reason, however often it happens.
    expect(lines.map((line) => JSON.parse(line).reason)).toEqual(["names", "series"]);
  });

  it("for each tenant, which has half of the names and of the series: others find room", async () => {
    const { emit, page, dropped } = listener({ names: 4, seriesPerName: 4, series: 8 });
    const by = (tenant: string, name: string, more?: JsonObject) => emit(figure(name, more), undefined, tenant);
    for (const name of ["a", "b", "c", "d"]) by("one", name);
    for (const shop of ["x", "y", "z"]) by("one", "a", { tags: { shop } });
    expect(await page()).toEqual(["workflow_a 1", 'workflow_a{shop="x"} 1', "workflow_b 1"]);
    expect([await dropped("names"), await dropped("series")]).toEqual([2, 2]);
    for (const shop of ["x", "y", "z"]) by("two", "a", { tags: { shop } });
    by("two", "e");
    // What is there already counts for everyone, and no series says whose it is.
    expect(await page()).toEqual([
      "workflow_a 1",
      ...['workflow_a{shop="x"} 2', 'workflow_a{shop="y"} 1', 'workflow_a{shop="z"} 1'],
      ...["workflow_b 1", "workflow_e 1"],
    ]);
    expect([await dropped("names"), await dropped("series")]).toEqual([2, 2]);
  });

  it("for each tenant over all names, and not for runs without one", async () => {
    const { emit, page, dropped } = listener({ names: 9, seriesPerName: 9, series: 4 });
    for (const name of ["a", "b", "c"]) emit(figure(name), undefined, "one");
    expect(await page()).toEqual(["workflow_a 1", "workflow_b 1"]);
    expect(await dropped("series")).toBe(1);
    for (const shop of ["x", "y", "z"]) emit(figure("a", { tags: { shop } }));
    expect((await page()).length).toBe(4);
    expect(await dropped("series")).toBe(2);
  });

  it("in the length of a label, which is cut", async () => {
    const { emit, page, dropped } = listener({ labelChars: 3 });
    emit(figure("a", { tags: { shop: "abcdef" } }));
    expect(await page()).toEqual(['workflow_a{shop="abc"} 1']);
    expect(await dropped("label_length")).toBe(1);
  });

  it("a name keeps the kind of its first measurement", async () => {
    const { emit, page, dropped } = listener();
    emit(figure("a"));
    emit(figure("a", { kind: "gauge", value: 9 }));
    expect(await page()).toEqual(["workflow_a 1"]);
    expect(await dropped("kind")).toBe(1);
  });
});

describe("metrics of several nodes", () => {
  it("the latest value of a gauge is shown, and counters are added up", async () => {
    const [one, two] = [listener(), listener()];
    one.emit(figure("depth", { kind: "gauge", value: 5 }), 2_000);
    two.emit(figure("depth", { kind: "gauge", value: 7 }), 1_000);
    two.emit(figure("depth", { kind: "gauge", value: 1, tags: { q: "b" } }), 1_000);
    for (const node of [one, two]) node.emit(figure("orders"));
    const said = await Promise.all([one, two].map(({ metrics }) => metrics.registry.getMetricsAsJSON()));
    const values = (name: string) =>
      latestOnly(said).flatMap((metrics) =>
        metrics.filter((metric) => metric.name === name).flatMap((metric) => metric.values.map(({ value }) => value)),
      );
    expect(values("workflow_depth")).toEqual([5, 1]);
    expect(values("workflow_orders")).toEqual([1, 1]);
  });
});

/** Reads a page as a strict parser does. Throws at the first line that is wrong. Returns its samples, by name and labels. */
function strictlyParsed(text: string): Map<string, number> {
  const samples = new Map<string, number>();
  const claimed = new Map<string, string>();
  let family = { name: "", type: "" };
  for (const line of text.split("\n").filter((one) => one !== "" && !one.startsWith("# HELP "))) {
    const [, name, type] = /^# TYPE (\S+) (\S+)$/.exec(line) ?? [];
    if (name !== undefined && type !== undefined) {
      const suffixes = { histogram: ["_bucket", "_sum", "_count", "_created"], counter: ["_total", "_created"] }[type];
      for (const one of [name, ...(suffixes ?? []).map((suffix) => name + suffix)]) {
        if (claimed.has(one)) throw new Error(`${name} clashes with ${claimed.get(one)}`);
        claimed.set(one, name);
      }
      family = { name, type };
      continue;
    }
    const [, sample = "", labels = "", value] = /^([A-Za-z_:][\w:]*)(\{.*\})? (\S+)( \d+)?$/.exec(line) ?? [];
    const allowed = family.type === "histogram" ? ["_bucket", "_sum", "_count"] : [""];
    if (!allowed.some((suffix) => sample === family.name + suffix)) throw new Error(`${line} is not of ${family.name}`);
    if (samples.has(sample + labels)) throw new Error(`${sample}${labels} is there twice`);
    if (!/^([+-]?inf|nan|[+-]?[\d.]+(e[+-]?\d+)?)$/i.test(value ?? "")) throw new Error(`${line} has no value`);
    samples.set(sample + labels, Number(value));
  }
  return samples;
}

describe("names that a parser would take for one another", () => {
  const pairs: readonly (readonly [first: readonly [string, string], second: readonly [string, string]])[] = [
    ...["_count", "_sum", "_bucket", "_created"].map(
      (s) =>
        [
          ["x", "histogram"],
          [`x${s}`, "counter"],
        ] as const,
    ),
    ...["_count", "_sum", "_bucket"].map(
      (s) =>
        [
          ["x", "histogram"],
          [`x${s}`, "gauge"],
        ] as const,
    ),
    [
      ["x", "histogram"],
      ["x_count", "histogram"],
    ],
    [
      ["x", "counter"],
      ["x_total", "counter"],
    ],
    [
      ["x", "counter"],
      ["x_created", "gauge"],
    ],
    [
      ["x.y", "histogram"],
      ["x_y.count", "counter"],
    ],
  ];
  const both = pairs.flatMap(([one, two]) => [[one, two] as const, [two, one] as const]);

  it.each(both)(
    "%j and then %j: the first is shown, the second is dropped and counted",
    async ([name, kind], [other, of]) => {
      const { emit, dropped, metrics } = listener();
      emit(figure(name, { kind }));
      for (let nth = 0; nth < 3; nth++) emit(figure(other, { kind: of }));
      emit(figure(name, { kind }));
      const shown = [...strictlyParsed(await metrics.registry.metrics()).keys()].filter((key) =>
        /^workflow_/.test(key),
      );
      expect(shown).toHaveLength(kind === "histogram" ? 19 : 1);
      expect(await dropped("clash")).toBe(3);
    },
  );

  it.each(both)(
    "%j and %j of two nodes: the older is shown, and the other is counted",
    async ([name, kind], [other, of]) => {
      const [one, two] = [listener(), listener()];
      two.emit(figure(other, { kind: of }), 2_000);
      two.emit(figure(other, { kind: of }), 3_000);
      two.emit(figure("orders"), 3_000);
      one.emit(figure(name, { kind }), 1_000);
      const said = await Promise.all([one, two].map(({ metrics }) => metrics.registry.getMetricsAsJSON()));
      for (const reports of [said, said.toReversed()]) {
        const samples = strictlyParsed((await pageOf(reports)).text);
        const shown = [...samples.keys()].filter((key) => /^workflow_/.test(key) && key !== "workflow_orders");
        expect(shown).toHaveLength(kind === "histogram" ? 19 : 1);
        expect(samples.get("workflow_orders")).toBe(1);
        expect(samples.get('saga_workflow_metrics_dropped_total{reason="clash"}')).toBe(2);
      }
    },
  );

  it("one name of two kinds on two nodes is one family, and what is not of its kind is counted", async () => {
    const [one, two] = [listener(), listener()];
    one.emit(figure("depth", { kind: "gauge", value: 4 }), 2_000);
    two.emit(figure("depth", { kind: "histogram" }), 1_000);
    const said = await Promise.all([one, two].map(({ metrics }) => metrics.registry.getMetricsAsJSON()));
    const samples = strictlyParsed((await pageOf(said)).text);
    expect([samples.get("workflow_depth_count"), samples.has("workflow_depth")]).toEqual([1, false]);
    expect(samples.get('saga_workflow_metrics_dropped_total{reason="clash"}')).toBe(1);
  });

  it("those that are merely alike are both shown", async () => {
    const { emit, dropped, metrics } = listener();
    for (const [name, kind] of [
      ["x", "gauge"],
      ["x_count", "counter"],
      ["x_sum", "gauge"],
      ["saga_commits", "counter"],
      ["process_cpu_seconds", "histogram"],
    ])
      emit(figure(name as string, { kind: kind as string }));
    const samples = strictlyParsed(await metrics.registry.metrics());
    expect(["workflow_x", "workflow_x_count", "workflow_x_sum"].map((name) => samples.get(name))).toEqual([1, 1, 1]);
    expect(await dropped("clash")).toBe(0);
  });
});

describe("in a service", () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database.drop());

  it("two nodes that race for a run count its measurement once", async () => {
    await publish(database, "counted", [
      { id: "before", type: "noop", next: "sold" },
      { id: "sold", type: "metric_emit", name: "sold", next: "after" },
      { id: "after", type: "noop" },
    ]);
    const nodes = await Promise.all(
      [listener(), listener()].map(async ({ page, metrics }) => {
        const emitted = new WorkflowMetrics(metrics, silentLog);
        const onCommit: CommitListener = (runId, events) => emitted.onCommit(runId, events);
        const half = await startHalf(database, { hints: false, stepsPerCommit: 1, onCommit });
        return { page, half };
      }),
    );
    const runs = 20;
    for (let run = 0; run < runs; run++) {
      const [first] = nodes;
      if (!first) break;
      const id = await start(first.half.starter, "counted");
      for (const { half } of nodes) half.runtime.advance(id);
      await until(async () => {
        const [row] = await database.sql`select state from runs where id = ${id}`;
        return row?.state === "succeeded";
      });
    }
    for (const { half } of nodes) await half.stop();
    const conflicts = (await Promise.all(nodes.map(({ half }) => half.conflicts()))).reduce((sum, one) => sum + one, 0);
    expect(conflicts).toBeGreaterThan(0);
    const rows = await database.sql`select count(*)::int as count from run_events where event_type = 'metric'`;
    expect(rows[0]?.count).toBe(runs);
    const totals = (await Promise.all(nodes.map(({ page }) => page())))
      .flat()
      .map((line) => Number(line.split(" ")[1]));
    expect(totals.reduce((sum, total) => sum + total, 0)).toBe(runs);
  });
});
