// Families of series that are counted here and printed by the library's registry. The library looks a series up by sorting and
// joining its labels each time, which costs half a microsecond; these are looked up by one string.
import type { Counter, Metric, Registry } from "prom-client";
import { Shares } from "../work/shares.js";
import type { Exemplar } from "./page.js";

export type Kind = "counter" | "gauge" | "histogram";
export type Labels = Readonly<Record<string, string>>;

interface Series {
  readonly labels: Labels;
  value: number;
  at: number;
  count: number;
  /** The values between each bound and the one before it. */
  readonly buckets: number[];
  /** The latest of each bucket, the last one without a bound. Absent: nothing measured was traced. */
  exemplars?: (Exemplar | undefined)[];
}

/** One value of a family, as the registry prints it. `at` lets the primary add up several nodes. */
interface Sample {
  readonly value: number;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly metricName?: string;
  readonly at?: number;
  readonly exemplar?: Exemplar | undefined;
}

export interface FamilyOptions {
  readonly name: string;
  readonly help: string;
  readonly kind: Kind;
  /** Upper bounds, of a histogram. */
  readonly buckets?: readonly number[];
  /** Epoch milliseconds of the first measurement: of two families that clash, the page of all nodes shows the older one. Absent: one of the service's own, which stays. */
  readonly openedAt?: number;
}

/** All series of one name. The library calls this a metric. */
export class Family {
  private readonly series = new Map<string, Series>();
  private readonly bounds: readonly number[];
  private measured = 0;

  constructor(private readonly options: FamilyOptions) {
    this.bounds = options.buckets ?? [];
  }

  get name(): string {
    return this.options.name;
  }

  get kind(): Kind {
    return this.options.kind;
  }

  /** The library's registry accepts any object with these members, although its types ask for its own classes. */
  registerWith(registry: Registry): void {
    registry.registerMetric(this as unknown as Metric);
  }

  find(key: string): Series | undefined {
    return this.series.get(key);
  }

  open(key: string, labels: Labels): Series {
    const buckets = this.bounds.map(() => 0);
    const series: Series = { labels, value: 0, at: Number.NEGATIVE_INFINITY, count: 0, buckets };
    this.series.set(key, series);
    return series;
  }

  /** `at`: epoch milliseconds; of two values of a gauge the later one counts. `exemplar`: of a value of a histogram. */
  add(series: Series, value: number, at = 0, exemplar?: Exemplar): void {
    this.measured++;
    if (this.kind === "gauge") {
      if (at < series.at) return;
      series.value = value;
    } else series.value += value;
    series.at = at;
    series.count++;
    const bucket = this.bounds.findIndex((bound) => value <= bound);
    if (bucket >= 0) series.buckets[bucket] = (series.buckets[bucket] ?? 0) + 1;
    if (exemplar === undefined) return;
    series.exemplars ??= [];
    series.exemplars[bucket < 0 ? this.bounds.length : bucket] = exemplar;
  }

  async get(): Promise<object> {
    const { measured } = this;
    const { name, help, kind: type, openedAt } = this.options;
    const values = [...this.series.values()].flatMap((series) => this.samples(series));
    const emitted = openedAt === undefined ? {} : { openedAt, measured };
    return { name, help, type, aggregator: "sum", values, ...emitted };
  }

  reset(): void {
    this.series.clear();
  }

  private samples({ labels, value, at, count, buckets, exemplars }: Series): Sample[] {
    if (this.kind === "gauge") return [{ labels, value, at }];
    if (this.kind === "counter") return [{ labels, value }];
    const metricName = `${this.name}_bucket`;
    let below = 0;
    return [
      ...this.bounds.map((le, index) => {
        below += buckets[index] ?? 0;
        return { metricName, labels: { ...labels, le }, value: below, exemplar: exemplars?.[index] };
      }),
      { metricName, labels: { ...labels, le: "+Inf" }, value: count, exemplar: exemplars?.[this.bounds.length] },
      { metricName: `${this.name}_sum`, labels, value },
      { metricName: `${this.name}_count`, labels, value: count },
    ];
  }
}

/** The name in the series that takes what finds no place of its own. No workflow, service or action can have it. */
export const OTHER = "(other)";

export interface BoundedOptions<Label extends string> extends FamilyOptions {
  readonly labels: readonly Label[];
  /** Those of them that have few values, which the service itself gives. */
  readonly closed?: readonly Label[];
  /** The most series. Of these, a tenant has at most half. */
  readonly limit: number;
  /** Counts what found no place. */
  readonly overflowed: Counter<"metric">;
}

/** A family of the service's own whose labels have names of workflows or of actions: clients choose those, so its series are bounded. */
export class BoundedFamily<Label extends string = string> {
  private readonly family: Family;
  private readonly places: Shares;

  constructor(
    registry: Registry,
    private readonly options: BoundedOptions<Label>,
  ) {
    this.family = new Family(options);
    this.places = new Shares(options.limit);
    this.family.registerWith(registry);
  }

  /** `values`: of its labels, in their order. `tenant`: with which it shares the places. A place is never given back: a series stays as long as the process. */
  add(values: readonly string[], value: number, tenant?: string, exemplar?: Exemplar): void {
    const key = values.join("\0");
    this.family.add(this.family.find(key) ?? this.open(key, values, tenant), value, 0, exemplar);
  }

  private open(key: string, values: readonly string[], tenant: string | undefined): Series {
    const { name, labels, closed = [], overflowed } = this.options;
    const labelled = (given: readonly string[]) =>
      Object.fromEntries(labels.map((label, index) => [label, given[index] ?? ""]));
    if (typeof this.places.take(tenant) !== "string") return this.family.open(key, labelled(values));
    overflowed.inc({ metric: name });
    const other = values.map((one, index) => (closed.includes(labels[index] as Label) ? one : OTHER));
    const otherKey = other.join("\0");
    return this.family.find(otherKey) ?? this.family.open(otherKey, labelled(other));
  }
}
