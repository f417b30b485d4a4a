// The page of metrics in its two formats. A scraper that asks for OpenMetrics gets exemplars: beside the count of a bucket, the trace of one of those
// that are counted in it. The names of series are the same in both.
import {
  type Metric,
  type MetricObjectWithValues,
  type MetricValue,
  Registry,
  type RegistryContentType,
} from "prom-client";

export type PageFormat = "text" | "openmetrics";

export interface MetricsPage {
  readonly contentType: string;
  readonly text: string;
}

export interface Exemplar {
  readonly labelSet: { readonly trace_id: string; readonly span_id: string };
  readonly value: number;
  /** Epoch seconds. */
  readonly timestamp: number;
}

export type Sample = MetricValue<string> & { readonly metricName?: string; readonly exemplar?: Exemplar };
/** As a registry gives them, also over the channel between processes. */
export type Families = readonly MetricObjectWithValues<Sample>[];

/** By the header `Accept` of a request. */
export const formatFor = (accept = ""): PageFormat =>
  accept.includes("application/openmetrics-text") ? "openmetrics" : "text";

export async function pageIn(format: PageFormat, families: Families): Promise<MetricsPage> {
  const registry = new Registry<RegistryContentType>();
  if (format === "openmetrics") registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
  const names = new Set(families.map(({ name }) => name));
  for (const family of families) {
    const printed = format === "openmetrics" ? inOpenMetrics(family, names) : family;
    // The library asks for its own classes, and reads these members.
    registry.registerMetric({ ...printed, get: async () => printed } as unknown as Metric);
  }
  return { contentType: registry.contentType, text: await registry.metrics() };
}

/**
 * There, the name of a family of counters lacks the `_total` of its samples. A counter that a workflow emits has the name that its author gave it, and
 * keeps it as a family of the type that has no rule for names.
 */
function inOpenMetrics(family: Families[number], names: ReadonlySet<string>): object {
  if (String(family.type) !== "counter") return family;
  const bare = family.name.replace(/_total$/, "");
  return bare === family.name || names.has(bare) ? { ...family, type: "unknown" } : { ...family, name: bare };
}

/** Each series' latest exemplar: the library's sums of several nodes leave them out. */
export function withExemplars(sums: Families, reports: readonly Families[]): Families {
  const latest = new Map<string, Exemplar>();
  for (const { name, values } of reports.flat())
    for (const sample of values) {
      if (sample.exemplar === undefined) continue;
      const key = seriesKey(name, sample);
      const known = latest.get(key);
      if (!known || known.timestamp <= sample.exemplar.timestamp) latest.set(key, sample.exemplar);
    }
  if (latest.size === 0) return sums;
  const marked = (name: string) => (sample: Sample) => {
    const exemplar = latest.get(seriesKey(name, sample));
    return exemplar ? { ...sample, exemplar } : sample;
  };
  return sums.map((family) => ({ ...family, values: family.values.map(marked(family.name)) }));
}

/** Equal for samples of one series, whichever node has them. */
export const seriesKey = (name: string, { metricName = name, labels }: Sample): string =>
  JSON.stringify([metricName, Object.entries(labels).sort()]);
