// Families of metrics that cannot stand on one page, because a parser would take a sample of one for a sample of the other. A node knows only
// its own families (src/metrics/workflow-metrics.ts), so those of different nodes are compared here, before they are summed.
import { DROPPED_METRIC, sampleNames } from "../metrics/index.js";
import type { NodeMetrics } from "./messages.js";

type Family = NodeMetrics[number];
/** A family that workflows emit: when its first measurement was taken, and how many were. The service's own families have neither. */
type Emitted = Family & { readonly openedAt?: number; readonly measured?: number };

/**
 * The reports without the families that clash with an earlier one. Their measurements are counted as dropped. The family whose first measurement
 * is the oldest stays, whichever node has it, so the page says the same each time; those of the service always stay.
 */
export function withoutClashes(reports: readonly NodeMetrics[]): NodeMetrics[] {
  const kept = keptFamilies(reports.flat());
  return reports.map((metrics) => {
    const dropped = (metrics as readonly Emitted[]).filter((family) => !kept.has(idOf(family)));
    const measured = dropped.reduce((sum, family) => sum + (family.measured ?? 0), 0);
    return dropped.length === 0 ? metrics : counted(metrics, measured).filter((family) => kept.has(idOf(family)));
  });
}

/** The ids of families that have no sample name in common. */
function keptFamilies(families: readonly Emitted[]): ReadonlySet<string> {
  const oldest = new Map<string, Emitted>();
  for (const family of families) {
    const known = oldest.get(idOf(family));
    if (!known || openedAtOf(family) < openedAtOf(known)) oldest.set(idOf(family), family);
  }
  const holders = new Map<string, string>();
  const kept = new Set<string>();
  for (const [id, family] of [...oldest].sort(
    ([a, one], [b, two]) => openedAtOf(one) - openedAtOf(two) || (a < b ? -1 : 1),
  )) {
    const names = sampleNames(family.name, String(family.type));
    if (family.openedAt !== undefined && names.some((name) => holders.has(name))) continue;
    kept.add(id);
    for (const name of names) holders.set(name, id);
  }
  return kept;
}

const idOf = ({ name, type }: Family) => `${name} ${type}`;
const openedAtOf = ({ openedAt = Number.NEGATIVE_INFINITY }: Emitted) => openedAt;

function counted(metrics: NodeMetrics, measured: number): NodeMetrics {
  return metrics.map((family) =>
    family.name === DROPPED_METRIC
      ? { ...family, values: [...family.values, { labels: { reason: "clash" }, value: measured }] }
      : family,
  );
}
