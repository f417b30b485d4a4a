// Metrics that workflows emit (`metric_emit`), as series on /metrics. Each measurement is counted once, after the commit that
// recorded it. The service's own metrics are in src/metrics/index.ts. This is not a ledger: a commit whose outcome stayed unknown is
// not counted here, although its audit row exists.

import {
  type AuditEvent,
  firstCharacters,
  isLongerThan,
  isObject,
  type Json,
  type JsonObject,
  type RunId,
} from "../../machines/index.js";
import { performance } from "../ambient.js";
import type { Logger } from "../log.js";
import { Shares } from "../work/shares.js";
import { Family, type Kind, type Labels } from "./family.js";
import { type Metrics, sampleNames } from "./index.js";

/**
 * Workflows may write anything: the page must stay readable for Prometheus, and this process small. Of names and of series a tenant has at most
 * half, so that others find room.
 */
export interface WorkflowMetricLimits {
  readonly names: number;
  readonly seriesPerName: number;
  readonly series: number;
  readonly labelChars: number;
}

export const WORKFLOW_METRIC_LIMITS: WorkflowMetricLimits = {
  names: 200,
  seriesPerName: 200,
  series: 5_000,
  labelChars: 128,
};

/** The unit of a measurement is unknown, so the buckets span seconds as well as amounts. */
const BUCKETS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 50, 100, 500, 1_000, 5_000, 10_000, 100_000];
/** Between two log lines about the same limit. */
const LOG_INTERVAL_MS = 60_000;

type DropReason = "kind" | "clash" | "names" | "series" | "label_length";

interface Measurement {
  readonly name: string;
  readonly kind: Kind;
  readonly value: number;
  readonly labels: Labels;
  /** Epoch milliseconds: of two values of a gauge the later one counts. */
  readonly at: number;
}

export class WorkflowMetrics {
  private readonly families = new Map<string, Opened>();
  /** The sample names of all families: another family with one of them would look like a part of the first. */
  private readonly sampleNames = new Set<string>();
  private readonly names: Shares;
  private readonly series: Shares;
  private readonly loggedAt = new Map<DropReason, number>();

  constructor(
    private readonly metrics: Metrics,
    private readonly log: Logger,
    private readonly limits: WorkflowMetricLimits = WORKFLOW_METRIC_LIMITS,
  ) {
    this.names = new Shares(limits.names);
    this.series = new Shares(limits.series);
  }

  /** Never throws and never waits, like every commit listener. `tenant`: the run's, with which it shares what is bounded. */
  readonly onCommit = (
    runId: RunId,
    events: readonly Pick<AuditEvent, "type" | "metadata" | "at">[],
    tenant?: string,
  ): void => {
    for (const { type, metadata, at } of events) {
      if (type !== "metric" || metadata?.dry_run === true) continue;
      const measurement = metadata && this.read(runId, metadata, at);
      const reason = measurement && this.count(measurement, tenant);
      if (reason !== undefined) this.drop(reason, runId);
    }
  };

  /** Why it is not counted. */
  private count({ name, kind, value, labels, at }: Measurement, tenant: string | undefined): DropReason | undefined {
    const opened = this.families.get(name) ?? this.openFamily({ name, kind, at }, tenant);
    if (typeof opened === "string") return opened;
    const { family } = opened;
    if (family.kind !== kind) return "kind";
    const key = keyOf(labels);
    const known = family.find(key) ?? (this.takePlace(opened, tenant) ? family.open(key, labels) : undefined);
    if (!known) return "series";
    family.add(known, value, at);
    return undefined;
  }

  /** Whether a new series has room. A place is never given back: a series stays as long as the process. */
  private takePlace({ places }: Opened, tenant: string | undefined): boolean {
    const giveBack = places.take(tenant);
    if (typeof giveBack === "string") return false;
    if (typeof this.series.take(tenant) !== "string") return true;
    giveBack();
    return false;
  }

  /** The clash comes first: a name that can never be shown takes nothing from those that can. */
  private openFamily(
    { name, kind, at }: Pick<Measurement, "name" | "kind" | "at">,
    tenant: string | undefined,
  ): Opened | DropReason {
    const names = sampleNames(name, kind);
    if (names.some((one) => this.sampleNames.has(one))) return "clash";
    if (typeof this.names.take(tenant) === "string") return "names";
    const buckets = kind === "histogram" ? BUCKETS : [];
    const family = new Family({ name, kind, help: "Emitted by workflows.", buckets, openedAt: at });
    const opened = { family, places: new Shares(this.limits.seriesPerName) };
    this.families.set(name, opened);
    for (const one of names) this.sampleNames.add(one);
    family.registerWith(this.metrics.registry);
    return opened;
  }

  private read(runId: RunId, { name, kind, value, tags }: JsonObject, at: number): Measurement | undefined {
    if (typeof name !== "string" || typeof value !== "number" || !isKind(kind)) return undefined;
    const labels: Record<string, string> = {};
    for (const [tag, text] of Object.entries(isObject(tags) ? tags : {})) {
      const full = typeof text === "string" ? text : JSON.stringify(text);
      if (isLongerThan(full, this.limits.labelChars)) this.drop("label_length", runId);
      labels[labelName(tag)] = firstCharacters(full, this.limits.labelChars);
    }
    return { name: familyName(name), kind, value, labels, at };
  }

  /** Counted every time, logged at most once a minute, and without the name: it may be computed from a payload. */
  private drop(reason: DropReason, runId: RunId): void {
    this.metrics.emittedDropped.inc({ reason });
    const now = performance.now();
    if (now - (this.loggedAt.get(reason) ?? Number.NEGATIVE_INFINITY) < LOG_INTERVAL_MS) return;
    this.loggedAt.set(reason, now);
    this.log.warn({ reason, runId, limits: this.limits }, "workflow metric over a limit of /metrics");
  }
}

/** A family with its own share of the series. */
interface Opened {
  readonly family: Family;
  /** Of its series. */
  readonly places: Shares;
}

/** The order in which a workflow writes its tags does not matter. */
function keyOf(labels: Labels): string {
  return JSON.stringify(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The prefix keeps a workflow's metric apart from the service's own. */
function familyName(name: string): string {
  return `workflow_${name.replace(/[^A-Za-z0-9_]/g, "_")}`;
}

/** Prometheus reserves `le` and names that begin with two underscores. */
function labelName(tag: string): string {
  const plain = tag.replace(/[^A-Za-z0-9_]/g, "_");
  return /^(le$|__|[0-9]|$)/.test(plain) ? `tag_${plain}` : plain;
}

function isKind(kind: Json | undefined): kind is Kind {
  return kind === "counter" || kind === "gauge" || kind === "histogram";
}
