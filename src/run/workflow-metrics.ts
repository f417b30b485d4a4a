// The figures that workflows emit (`metric_emit`), as series on /metrics: counted after the commit that recorded them, once.
// Not the service's own metrics (src/metrics.ts), and not a ledger: a commit whose outcome was never learnt is not counted
// here, its audit row is there all the same.
import type { Metric } from "prom-client";
import { isObject, type Json, type JsonObject } from "../../machines/index.js";
import type { Logger } from "../log.js";
import type { Metrics } from "../metrics.js";
import type { CommitListener } from "./ports.js";

/** What workflows write may be anything: the page must stay one that Prometheus can read, and this process small. */
export interface EmittedLimits {
  readonly names: number;
  readonly seriesPerName: number;
  readonly series: number;
  readonly labelChars: number;
}

export const EMITTED_LIMITS: EmittedLimits = { names: 200, seriesPerName: 200, series: 5_000, labelChars: 128 };

/** Nobody says what is measured, so they span milliseconds as well as amounts. */
const BUCKETS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 50, 100, 500, 1_000, 5_000, 10_000, 100_000];
/** Between two log lines about the same limit. */
const QUIET_MS = 60_000;

type Kind = "counter" | "gauge" | "histogram";
type Labels = Readonly<Record<string, string>>;
type Dropped = "kind" | "names" | "series" | "label_length";

interface Figure {
  readonly name: string;
  readonly kind: Kind;
  readonly value: number;
  readonly labels: Labels;
  /** Epoch milliseconds: of two gauges the later one counts. */
  readonly at: number;
}

interface Series {
  readonly labels: Labels;
  value: number;
  at: number;
  count: number;
  /** Cumulative, as Prometheus has them. */
  readonly buckets: number[];
}

/** One value of a family, as the registry prints it; `at` is for whoever adds up several nodes. */
interface Sample {
  readonly value: number;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly metricName?: string;
  readonly at?: number;
}

export class EmittedMetrics {
  private readonly families = new Map<string, Family>();
  private series = 0;
  private readonly saidAt = new Map<Dropped, number>();

  constructor(
    private readonly metrics: Metrics,
    private readonly log: Logger,
    private readonly limits: EmittedLimits = EMITTED_LIMITS,
  ) {}

  /** Never throws and never waits, as every commit listener. */
  readonly onCommit: CommitListener = (runId, events) => {
    for (const { type, metadata, at } of events) {
      if (type !== "metric" || metadata?.dry_run === true) continue;
      const figure = metadata && this.read(runId, metadata, at);
      if (figure) this.count(runId, figure);
    }
  };

  private count(runId: string, figure: Figure): void {
    const family = this.families.get(figure.name) ?? this.open(figure);
    if (!family) return this.drop("names", runId);
    if (family.kind !== figure.kind) return this.drop("kind", runId);
    const known = family.find(figure.labels);
    if (known) return family.add(known, figure);
    if (family.size >= this.limits.seriesPerName || this.series >= this.limits.series)
      return this.drop("series", runId);
    this.series++;
    family.add(family.begin(figure.labels), figure);
  }

  private open({ name, kind }: Figure): Family | undefined {
    if (this.families.size >= this.limits.names) return undefined;
    const family = new Family(name, kind);
    this.families.set(name, family);
    // The library's registry asks a metric for its name and its values, and takes whoever answers; its types do not say so.
    this.metrics.registry.registerMetric(family as unknown as Metric);
    return family;
  }

  private read(runId: string, { name, kind, value, tags }: JsonObject, at: number): Figure | undefined {
    if (typeof name !== "string" || typeof value !== "number" || !isKind(kind)) return undefined;
    const labels: Record<string, string> = {};
    for (const [tag, text] of Object.entries(isObject(tags) ? tags : {})) {
      const whole = typeof text === "string" ? text : JSON.stringify(text);
      if (whole.length > this.limits.labelChars) this.drop("label_length", runId);
      labels[labelName(tag)] = whole.slice(0, this.limits.labelChars);
    }
    return { name: familyName(name), kind, value, labels, at };
  }

  /** Counted every time, said at most once a minute. No names: a name may be computed from a payload. */
  private drop(reason: Dropped, runId: string): void {
    this.metrics.emittedDropped.inc({ reason });
    const now = performance.now();
    if (now - (this.saidAt.get(reason) ?? Number.NEGATIVE_INFINITY) < QUIET_MS) return;
    this.saidAt.set(reason, now);
    this.log.warn({ reason, runId, limits: this.limits }, "a metric of a workflow is over a limit of /metrics");
  }
}

/** All series of one name: what the library calls a metric. */
class Family {
  readonly help = "Emitted by workflows.";
  private readonly series = new Map<string, Series>();

  constructor(
    readonly name: string,
    readonly kind: Kind,
  ) {}

  get type(): Kind {
    return this.kind;
  }

  get size(): number {
    return this.series.size;
  }

  find(labels: Labels): Series | undefined {
    return this.series.get(keyOf(labels));
  }

  begin(labels: Labels): Series {
    const begun: Series = { labels, value: 0, at: Number.NEGATIVE_INFINITY, count: 0, buckets: BUCKETS.map(() => 0) };
    this.series.set(keyOf(labels), begun);
    return begun;
  }

  add(series: Series, { value, at }: Figure): void {
    if (this.kind === "gauge") {
      if (at < series.at) return;
      series.value = value;
    } else series.value += value;
    series.at = at;
    series.count++;
    if (this.kind === "histogram")
      for (const [index, bound] of BUCKETS.entries())
        if (value <= bound) series.buckets[index] = (series.buckets[index] ?? 0) + 1;
  }

  async get(): Promise<object> {
    const values = [...this.series.values()].flatMap((series) => this.samples(series));
    return { name: this.name, help: this.help, type: this.type, aggregator: "sum", values };
  }

  reset(): void {
    this.series.clear();
  }

  private samples({ labels, value, at, count, buckets }: Series): Sample[] {
    if (this.kind === "gauge") return [{ labels, value, at }];
    if (this.kind === "counter") return [{ labels, value }];
    const metricName = `${this.name}_bucket`;
    return [
      ...BUCKETS.map((le, index) => ({ metricName, labels: { ...labels, le }, value: buckets[index] ?? 0 })),
      { metricName, labels: { ...labels, le: "+Inf" }, value: count },
      { metricName: `${this.name}_sum`, labels, value },
      { metricName: `${this.name}_count`, labels, value: count },
    ];
  }
}

/** The order in which a workflow writes its tags makes no other series. */
function keyOf(labels: Labels): string {
  return JSON.stringify(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** A room of their own: no workflow's metric can be taken for one of the service's. */
function familyName(name: string): string {
  return `workflow_${name.replace(/[^A-Za-z0-9_]/g, "_")}`;
}

/** `le` and what begins with two underscores are Prometheus's own. */
function labelName(tag: string): string {
  const plain = tag.replace(/[^A-Za-z0-9_]/g, "_");
  return /^(le$|__|[0-9]|$)/.test(plain) ? `tag_${plain}` : plain;
}

function isKind(kind: Json | undefined): kind is Kind {
  return kind === "counter" || kind === "gauge" || kind === "histogram";
}
