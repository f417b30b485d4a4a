// The metrics of all nodes on one page: a node asks the primary, the primary asks every node, the sums come back. What is
// counted, and how each metric is summed (`aggregator`), is decided in src/metrics.ts.
import { AggregatorRegistry, type MetricValue } from "prom-client";
import { overloaded } from "../errors.js";
import type { Child } from "./child.js";
import type { MetricsPage, NodeMetrics, ToPrimary } from "./messages.js";

/** A node that stands still must not hold the page up for longer. Milliseconds. */
const ANSWER_MS = 1_000;
const PAGE_MS = 3_000;

/** The primary's half. */
export class MetricsGatherer {
  private lastId = 0;
  private current: Promise<MetricsPage> | undefined;
  private round: Round | undefined;
  /** Sums that fall look like a restart: a node that is late counts with what it said last. */
  private readonly lastSaid = new WeakMap<Child, NodeMetrics>();

  constructor(private readonly serving: () => readonly Child[]) {}

  /** Several askers share one round. */
  page(): Promise<MetricsPage> {
    this.current ??= this.gather().finally(() => {
      this.current = undefined;
    });
    return this.current;
  }

  hear(child: Child, id: number, metrics: NodeMetrics): void {
    this.lastSaid.set(child, metrics);
    if (this.round?.id !== id) return;
    this.round.awaited.delete(child);
    if (this.round.awaited.size === 0) this.round.close();
  }

  private async gather(): Promise<MetricsPage> {
    const children = this.serving();
    const id = ++this.lastId;
    await new Promise<void>((resolve) => {
      const deadline = setTimeout(resolve, ANSWER_MS);
      const close = () => {
        clearTimeout(deadline);
        resolve();
      };
      this.round = { id, awaited: new Set(children), close };
      for (const child of children) child.tell({ type: "metrics.ask", id });
    });
    const said = children.flatMap((child) => [this.lastSaid.get(child) ?? []]);
    // The library's types know no metrics that come from another process.
    const registry = AggregatorRegistry.aggregate(latestOnly(said) as unknown as object[]);
    return { contentType: registry.contentType, text: await registry.metrics() };
  }
}

/**
 * A gauge of a workflow has one value, and that is the last one, whichever node's run set it: the others' must not be added
 * to it. Such values say when they were set.
 */
export function latestOnly(said: readonly NodeMetrics[]): NodeMetrics[] {
  const latest = new Map<string, number>();
  const keyOf = (name: string, { labels }: Dated) => JSON.stringify([name, Object.entries(labels).sort()]);
  const dated = said.flatMap((metrics) =>
    metrics.flatMap(({ name, values }) => values.map((value: Dated) => ({ name, value }))),
  );
  for (const { name, value } of dated)
    if (value.at !== undefined) latest.set(keyOf(name, value), Math.max(value.at, latest.get(keyOf(name, value)) ?? 0));
  const taken = new Set<string>();
  const stays = (name: string, value: Dated): boolean => {
    if (value.at === undefined) return true;
    const key = keyOf(name, value);
    if (taken.has(key) || value.at !== latest.get(key)) return false;
    taken.add(key);
    return true;
  };
  return said.map((metrics) =>
    metrics.map((metric) => ({ ...metric, values: metric.values.filter((value) => stays(metric.name, value)) })),
  );
}

type Dated = MetricValue<string> & { readonly at?: number };

interface Round {
  readonly id: number;
  readonly awaited: Set<Child>;
  close(): void;
}

/** A node's half. */
export class MetricsAsker {
  private lastId = 0;
  private readonly asked = new Map<number, (page: MetricsPage | undefined) => void>();
  private current: Promise<MetricsPage> | undefined;

  constructor(private readonly tell: (message: ToPrimary) => void) {}

  /** Throws a 503: no page is better than the page of one node, which would look like a fall of all counts. */
  page(): Promise<MetricsPage> {
    this.current ??= this.ask().finally(() => {
      this.current = undefined;
    });
    return this.current;
  }

  hear(id: number, page: MetricsPage | undefined): void {
    this.asked.get(id)?.(page);
  }

  private async ask(): Promise<MetricsPage> {
    const id = ++this.lastId;
    const page = await new Promise<MetricsPage | undefined>((resolve) => {
      const deadline = setTimeout(resolve, PAGE_MS, undefined);
      this.asked.set(id, (answer) => {
        clearTimeout(deadline);
        resolve(answer);
      });
      this.tell({ type: "page.ask", id });
    });
    this.asked.delete(id);
    if (page === undefined) throw overloaded("The metrics of all nodes could not be added up in time");
    return page;
  }
}
