// The metrics of all nodes on one page: a node asks the primary, the primary asks every node, and the sums come back. The
// metrics, and how each is summed (`aggregator`), are defined in src/metrics/index.ts.

import { AggregatorRegistry } from "prom-client";
import { clearTimeout, setTimeout } from "../ambient.js";
import { overloaded } from "../errors.js";
import { type MetricsPage, type PageFormat, pageIn, type Sample, seriesKey, withExemplars } from "../metrics/page.js";
import type { NodeMetrics, ToPrimary } from "./messages.js";
import { withoutClashes } from "./metric-clashes.js";
import type { NodeProcess } from "./node-process.js";

/** How long the page waits for an unresponsive node. */
const ANSWER_MS = 1_000;
/** How long a node waits for the page. */
const PAGE_MS = 3_000;
/** Of a family, of nodes that have ended: each may have had other labels. A node has up to 3,400. What exceeds it falls out of the sums. */
const KEPT_SAMPLES = 10_000;

/** The primary's half: gathers and sums. */
export class MetricsGatherer {
  private lastId = 0;
  private current: Promise<readonly NodeMetrics[]> | undefined;
  private round: Round | undefined;
  /** The last report of each node. A sum that falls looks like a restart, in which all that is left was counted anew: so a late node counts with it. */
  private readonly reports = new Map<NodeProcess, NodeMetrics>();
  /** For the same reason, what ended nodes have counted. */
  private ended: NodeMetrics = [];

  constructor(private readonly serving: () => readonly NodeProcess[]) {}

  /** Concurrent requests share one round. */
  async page(format?: PageFormat): Promise<MetricsPage> {
    this.current ??= this.gather().finally(() => {
      this.current = undefined;
    });
    return pageOf(await this.current, format);
  }

  receive(node: NodeProcess, id: number, metrics: NodeMetrics): void {
    this.reports.set(node, metrics);
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
    for (const [node, report] of this.reports) {
      if (!node.hasEnded) continue;
      this.ended = countedTogether(this.ended, report);
      this.reports.delete(node);
    }
    return [this.ended, ...this.reports.values()];
  }
}

/** The counters and histograms of both. Gauges are of a node that is there. */
export function countedTogether(ended: NodeMetrics, report: NodeMetrics): NodeMetrics {
  const families = new Map<string, { readonly family: Counting; readonly samples: Map<string, Sample> }>();
  for (const family of [...ended, ...report] as readonly Counting[]) {
    if (!COUNTED.has(String(family.type))) continue;
    const id = `${family.name} ${family.type}`;
    const known = families.get(id);
    const samples = known?.samples ?? new Map<string, Sample>();
    families.set(id, { family: known ? addedUp(known.family, family) : family, samples });
    for (const { exemplar: _, ...sample } of family.values as readonly Sample[]) {
      const key = seriesKey(family.name, sample);
      const before = samples.get(key);
      if (before || samples.size < KEPT_SAMPLES)
        samples.set(key, { ...sample, value: sample.value + (before?.value ?? 0) });
    }
  }
  return [...families.values()].map(({ family, samples }) => ({ ...family, values: [...samples.values()] }));
}

const COUNTED: ReadonlySet<string> = new Set(["counter", "histogram"]);

/** Of a family that workflows emit: see metric-clashes.ts. */
type Counting = NodeMetrics[number] & { readonly openedAt?: number; readonly measured?: number };

function addedUp(one: Counting, other: Counting): Counting {
  if (one.openedAt === undefined || other.openedAt === undefined) return one;
  const measured = (one.measured ?? 0) + (other.measured ?? 0);
  return { ...one, openedAt: Math.min(one.openedAt, other.openedAt), measured };
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
