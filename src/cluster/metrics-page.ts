// The metrics of all nodes on one page: a node asks the primary, the primary asks every node, and the sums come back. The
// metrics, and how each is summed (`aggregator`), are defined in src/metrics/index.ts.
import { AggregatorRegistry } from "prom-client";
import { overloaded } from "../errors.js";
import { type MetricsPage, type PageFormat, pageIn, type Sample, seriesKey, withExemplars } from "../metrics/page.js";
import type { NodeMetrics, ToPrimary } from "./messages.js";
import { withoutClashes } from "./metric-clashes.js";
import type { NodeProcess } from "./node-process.js";

/** How long the page waits for an unresponsive node. */
const ANSWER_MS = 1_000;
/** How long a node waits for the page. */
const PAGE_MS = 3_000;

/** The primary's half: gathers and sums. */
export class MetricsGatherer {
  private lastId = 0;
  private current: Promise<readonly NodeMetrics[]> | undefined;
  private round: Round | undefined;
  /** A sum that falls looks like a restart, so a late node counts with its last report. */
  private readonly lastReport = new WeakMap<NodeProcess, NodeMetrics>();

  constructor(private readonly serving: () => readonly NodeProcess[]) {}

  /** Concurrent requests share one round. */
  async page(format?: PageFormat): Promise<MetricsPage> {
    this.current ??= this.gather().finally(() => {
      this.current = undefined;
    });
    return pageOf(await this.current, format);
  }

  receive(node: NodeProcess, id: number, metrics: NodeMetrics): void {
    this.lastReport.set(node, metrics);
    if (this.round?.id !== id) return;
    this.round.awaited.delete(node);
    if (this.round.awaited.size === 0) this.round.close();
  }

  private async gather(): Promise<readonly NodeMetrics[]> {
    const nodes = this.serving();
    const id = ++this.lastId;
    await new Promise<void>((resolve) => {
      const deadline = setTimeout(resolve, ANSWER_MS);
      const close = () => {
        clearTimeout(deadline);
        resolve();
      };
      this.round = { id, awaited: new Set(nodes), close };
      for (const node of nodes) node.send({ type: "metrics.ask", id });
    });
    return nodes.flatMap((node) => [this.lastReport.get(node) ?? []]);
  }
}

/** One page of what the nodes report. */
export async function pageOf(reports: readonly NodeMetrics[], format: PageFormat = "text"): Promise<MetricsPage> {
  const counted = latestOnly(withoutClashes(reports));
  // The library's types do not cover metrics that come from another process.
  const sums = await AggregatorRegistry.aggregate(counted as unknown as object[]).getMetricsAsJSON();
  const families = sums as NodeMetrics;
  return pageIn(format, format === "openmetrics" ? withExemplars(families, counted) : families);
}

/**
 * A gauge that workflows emit has one value: the last one, whichever node's run has set it. The values of other nodes must not
 * be added to it. Such values carry the time when they were set.
 */
export function latestOnly(reports: readonly NodeMetrics[]): NodeMetrics[] {
  const latest = new Map<string, number>();
  const dated = reports.flatMap((metrics) =>
    metrics.flatMap(({ name, values }) => values.map((value: Dated) => ({ name, value }))),
  );
  for (const { name, value } of dated)
    if (value.at !== undefined)
      latest.set(seriesKey(name, value), Math.max(value.at, latest.get(seriesKey(name, value)) ?? 0));
  const taken = new Set<string>();
  const isKept = (name: string, value: Dated): boolean => {
    if (value.at === undefined) return true;
    const key = seriesKey(name, value);
    if (taken.has(key) || value.at !== latest.get(key)) return false;
    taken.add(key);
    return true;
  };
  return reports.map((metrics) =>
    metrics.map((metric) => ({ ...metric, values: metric.values.filter((value) => isKept(metric.name, value)) })),
  );
}

type Dated = Sample & { readonly at?: number };

interface Round {
  readonly id: number;
  readonly awaited: Set<NodeProcess>;
  close(): void;
}

/** A node's half: asks the primary. */
export class MetricsAsker {
  private lastId = 0;
  private readonly waiting = new Map<number, (page: MetricsPage | undefined) => void>();
  private readonly current = new Map<PageFormat, Promise<MetricsPage>>();

  constructor(private readonly send: (message: ToPrimary) => void) {}

  /** Throws 503 if the primary does not answer: the page of one node alone would look like a drop of all counters. */
  page(format: PageFormat): Promise<MetricsPage> {
    const asked = this.current.get(format) ?? this.ask(format).finally(() => this.current.delete(format));
    this.current.set(format, asked);
    return asked;
  }

  receive(id: number, page: MetricsPage | undefined): void {
    this.waiting.get(id)?.(page);
  }

  private async ask(format: PageFormat): Promise<MetricsPage> {
    const id = ++this.lastId;
    const page = await new Promise<MetricsPage | undefined>((resolve) => {
      const deadline = setTimeout(resolve, PAGE_MS, undefined);
      this.waiting.set(id, (answer) => {
        clearTimeout(deadline);
        resolve(answer);
      });
      this.send({ type: "page.ask", id, format });
    });
    this.waiting.delete(id);
    if (page === undefined) throw overloaded("the metrics of all nodes were not gathered in time");
    return page;
  }
}
