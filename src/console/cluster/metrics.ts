// The text of `GET /metrics` as numbers, and what two readings of it say about the time between. It is pure, and keeps only the service's own metrics.

export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Samples by the name of the line: a histogram has three, `_bucket`, `_sum` and `_count`. */
export type Metrics = ReadonlyMap<string, readonly Sample[]>;

const LINE = /^(saga_\w+)(?:\{(.*)\})?\s+(\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;
/** A service has some hundred lines of its own; more are another program's. */
const MAX_LINES = 20_000;

export function parseMetrics(text: string): Metrics {
  const metrics = new Map<string, Sample[]>();
  for (const line of text.split("\n", MAX_LINES)) {
    const [, name, labels = "", number] = LINE.exec(line) ?? [];
    if (name === undefined || number === undefined) continue;
    const sample = { labels: labelsOf(labels), value: numberOf(number) };
    const known = metrics.get(name);
    if (known) known.push(sample);
    else metrics.set(name, [sample]);
  }
  return metrics;
}

const labelsOf = (text: string): Record<string, string> =>
  Object.fromEntries([...text.matchAll(LABEL)].map(([, name = "", value = ""]) => [name, unescaped(value)]));

const unescaped = (value: string): string =>
  value.replace(/\\(["\\n])/g, (_, character: string) => (character === "n" ? "\n" : character));

const numberOf = (text: string): number => (text === "+Inf" ? Number.POSITIVE_INFINITY : Number(text));

/** Over all labels; undefined if the page does not have it. */
export function total(metrics: Metrics, name: string): number | undefined {
  return metrics.get(name)?.reduce((sum, { value }) => sum + value, 0);
}

export interface Reading {
  /** Milliseconds. */
  readonly at: number;
  readonly metrics: Metrics;
}

/** How much a counter grew in a second. Undefined over a restart, where counters begin again. */
export function rate(before: Reading, after: Reading, name: string): number | undefined {
  const [from, to] = [total(before.metrics, name), total(after.metrics, name)];
  const seconds = (after.at - before.at) / 1_000;
  if (from === undefined || to === undefined || to < from || seconds <= 0) return undefined;
  return (to - from) / seconds;
}

/** The mean of a histogram's values between two readings, and an upper bound of their 99th percentile. */
interface Distribution {
  readonly count: number;
  readonly mean: number;
  readonly p99: number;
}

export function distribution(before: Reading, after: Reading, name: string): Distribution | undefined {
  const grown = (suffix: string) => growth(before, after, `${name}_${suffix}`);
  const [count, sum] = [grown("count"), grown("sum")];
  if (count === undefined || sum === undefined || count <= 0) return undefined;
  return { count, mean: sum / count, p99: percentile(bucketGrowth(before, after, name), count, 0.99) };
}

function growth(before: Reading, after: Reading, name: string): number | undefined {
  const [from = 0, to] = [total(before.metrics, name), total(after.metrics, name)];
  return to === undefined ? undefined : to - from;
}

type Bucket = readonly [upTo: number, count: number];

/** Cumulative, as Prometheus has them: by bound, over all other labels. */
function bucketGrowth(before: Reading, after: Reading, name: string): Bucket[] {
  const [from, to] = [buckets(before.metrics, name), buckets(after.metrics, name)];
  return [...to].map(([bound, count]) => [bound, count - (from.get(bound) ?? 0)] as const).sort(([a], [b]) => a - b);
}

function buckets(metrics: Metrics, name: string): ReadonlyMap<number, number> {
  const sums = new Map<number, number>();
  for (const { labels, value } of metrics.get(`${name}_bucket`) ?? []) {
    const bound = numberOf(labels.le ?? "");
    sums.set(bound, (sums.get(bound) ?? 0) + value);
  }
  return sums;
}

/** The bound of the bucket in which it lies; that of the last finite one if it lies above all. */
function percentile(cumulative: readonly Bucket[], count: number, share: number): number {
  const [bound] = cumulative.find(([, upTo]) => upTo >= count * share) ?? [];
  if (bound !== undefined && Number.isFinite(bound)) return bound;
  return cumulative.findLast(([bound]) => Number.isFinite(bound))?.[0] ?? 0;
}
