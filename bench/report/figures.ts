// The figures that the terminal and the report show: medians over the repetitions of a scenario, and ratios. Pure.
import type { Latency, Repetition, Role, ScenarioResult } from "../result.js";

/** Undefined: unknown in every repetition. */
export interface Medians {
  readonly throughput: number | undefined;
  readonly p50Ms: number | undefined;
  readonly p99Ms: number | undefined;
  /** Seconds of all processes together, per 1,000 units. Undefined if that of one role is unknown. */
  readonly cpuPerThousand: number | undefined;
  /** The same for each role that is known. */
  readonly cpuOfRole: ReadonlyMap<Role, number>;
  readonly memoryBytes: ReadonlyMap<Role, number>;
  readonly rowsPerTransition: number | undefined;
  readonly walPerTransition: number | undefined;
  /** The share of HOT updates among all updates of all tables, 0 to 1. */
  readonly hotShare: number | undefined;
  readonly errors: number | undefined;
}

/** The columns of tables. Rows and WAL are for each transition. */
export const COLUMNS: readonly (readonly [string, (medians: Medians) => number | undefined])[] = [
  ["per second", ({ throughput }) => throughput],
  ["p50 ms", ({ p50Ms }) => p50Ms],
  ["p99 ms", ({ p99Ms }) => p99Ms],
  ["CPU s per 1,000", ({ cpuPerThousand }) => cpuPerThousand],
  ["service MiB", ({ memoryBytes }) => mebibytes(memoryBytes.get("service"))],
  ["rows", ({ rowsPerTransition }) => rowsPerTransition],
  ["WAL bytes", ({ walPerTransition }) => walPerTransition],
  ["HOT %", ({ hotShare }) => hotShare && 100 * hotShare],
  ["errors", ({ errors }) => errors],
];

const mebibytes = (bytes: number | undefined) => bytes && bytes / 2 ** 20;

export function medians({ repetitions }: ScenarioResult): Medians {
  const over = (figure: (repetition: Repetition) => number | null | undefined) => median(repetitions.map(figure));
  return {
    throughput: over((each) => each.throughput_per_second),
    p50Ms: over((each) => each.latencies[0]?.p50_ms),
    p99Ms: over((each) => each.latencies[0]?.p99_ms),
    cpuPerThousand: over(cpuPerThousand),
    cpuOfRole: byRole(repetitions, ({ count }, { cpu_seconds }) => perThousand(cpu_seconds, count)),
    memoryBytes: byRole(repetitions, (_, { peak_memory_bytes }) => peak_memory_bytes),
    rowsPerTransition: over(({ writes }) => perTransition(writes, writes?.rows)),
    walPerTransition: over(({ writes }) => perTransition(writes, writes?.wal_bytes)),
    hotShare: over(hotShare),
    errors: over(({ errors }) => errors),
  };
}

/** The share of HOT updates of each table, 0 to 1. */
export function hotShares({ repetitions }: ScenarioResult): ReadonlyMap<string, number> {
  const tables = repetitions.flatMap(({ writes }) => writes?.tables ?? []);
  const names = [...new Set(tables.map(({ table }) => table))];
  return new Map(names.map((name) => [name, shareOf(tables.filter(({ table }) => table === name)) ?? 0]));
}

/** The median of the numbers among the values; that of an even count is the mean of the two in the middle. */
export function median(values: readonly (number | null | undefined)[]): number | undefined {
  const known = values.filter((value) => typeof value === "number").sort((left, right) => left - right);
  const middle = known.length / 2;
  const [low, high] = [known[Math.ceil(middle) - 1], known[Math.floor(middle)]];
  return low === undefined || high === undefined ? undefined : (low + high) / 2;
}

/** The latencies of the repetition in the middle, by throughput: a distribution has no median over repetitions. */
export function typicalLatencies({ repetitions }: ScenarioResult): readonly Latency[] {
  const sorted = [...repetitions].sort((left, right) => left.throughput_per_second - right.throughput_per_second);
  return sorted[Math.floor(sorted.length / 2)]?.latencies ?? [];
}

/** How many times the first one: above 1 is better for throughput and worse for a cost. */
export function ratio(figure: number | undefined, first: number | undefined): number | undefined {
  return figure === undefined || !first ? undefined : figure / first;
}

function byRole(
  repetitions: readonly Repetition[],
  figure: (repetition: Repetition, processes: Repetition["processes"][number]) => number | null | undefined,
): ReadonlyMap<Role, number> {
  const roles = new Set(repetitions.flatMap(({ processes }) => processes.map(({ role }) => role)));
  const found = new Map<Role, number>();
  for (const role of roles) {
    const values = repetitions.map((each) => {
      const processes = each.processes.find((one) => one.role === role);
      return processes && figure(each, processes);
    });
    const middle = median(values);
    if (middle !== undefined) found.set(role, middle);
  }
  return found;
}

function cpuPerThousand({ processes, count }: Repetition): number | undefined {
  const seconds = processes.map(({ cpu_seconds }) => cpu_seconds);
  if (seconds.length === 0 || seconds.includes(null)) return undefined;
  const sum = seconds.reduce<number>((total, each) => total + (each ?? 0), 0);
  return perThousand(sum, count);
}

function perThousand(seconds: number | null, count: number): number | undefined {
  return seconds === null || count === 0 ? undefined : (seconds * 1_000) / count;
}

function perTransition(writes: Repetition["writes"], amount: number | null | undefined): number | undefined {
  return typeof amount !== "number" || !writes?.transitions ? undefined : amount / writes.transitions;
}

const hotShare = ({ writes }: Repetition) => shareOf(writes?.tables ?? []);

function shareOf(tables: NonNullable<Repetition["writes"]>["tables"]): number | undefined {
  const updates = tables.reduce((sum, table) => sum + table.updates, 0);
  return updates === 0 ? undefined : tables.reduce((sum, table) => sum + table.hot, 0) / updates;
}
