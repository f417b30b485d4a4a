// The table of ratios: the medians of all turns, and the median over the turns of ours against the better of the others. A ratio is of
// one turn, whose systems ran one after the other, so that a slow quarter of an hour does not count for one system only.
import type { Repetition } from "../result.js";
import type { Scenario } from "./scenarios.js";
import { SYSTEMS, type SystemName } from "./system.js";

/** One repetition of a scenario on a system. */
export interface Taken {
  readonly turn: number;
  readonly system: SystemName;
  readonly scenario: string;
  readonly repetition: Repetition;
}

/** A figure of a repetition; undefined where it has none. `more`: a larger one is better. */
interface Figure {
  readonly unit: string;
  readonly better: "more" | "less";
  of(repetition: Repetition): number | undefined;
}

const [OURS, ...PEERS] = SYSTEMS;

const CPU: Figure = { unit: "CPU s per 1,000", better: "less", of: cpuPerThousand };

const FIGURES: Readonly<Record<Scenario["kind"], readonly Figure[]>> = {
  runs: [{ unit: "runs/s", better: "more", of: ({ throughput_per_second }) => throughput_per_second }, CPU],
  cycles: [{ unit: "cycles/s", better: "more", of: ({ throughput_per_second }) => throughput_per_second }, CPU],
  signal: [{ unit: "p50, ms", better: "less", of: ({ latencies }) => latencies[0]?.p50_ms }],
  park: [named("park"), named("resume"), CPU],
};

function named(name: string): Figure {
  const of = ({ figures }: Repetition) => figures.find((figure) => figure.name === name)?.value;
  return { unit: `${name}, s`, better: "less", of };
}

/** CPU seconds of all processes of the system per 1,000 operations. Undefined if one of them is not known. */
export function cpuPerThousand({ processes, count }: Repetition): number | undefined {
  const seconds = processes.map(({ cpu_seconds }) => cpu_seconds ?? Number.NaN).reduce((sum, cpu) => sum + cpu, 0);
  return Number.isNaN(seconds) || count === 0 ? undefined : (seconds / count) * 1_000;
}

export interface Row {
  readonly title: string;
  readonly unit: string;
  /** Medians of the turns, in the order of `SYSTEMS`. */
  readonly values: readonly (number | undefined)[];
  /** Above 1: ours is better than the better of the others. */
  readonly ratio: number | undefined;
}

export function rowsOf(scenarios: readonly Scenario[], taken: readonly Taken[]): Row[] {
  return scenarios.flatMap((scenario) =>
    FIGURES[scenario.kind].map((figure) => {
      const byTurn = (system: SystemName) => valuesByTurn(scenario, figure, taken, system);
      const values = SYSTEMS.map((system) => median([...byTurn(system).values()]));
      const ratio = median(ratios(figure, byTurn(OURS), PEERS.map(byTurn)));
      return { title: scenario.title, unit: figure.unit, values, ratio };
    }),
  );
}

type ByTurn = ReadonlyMap<number, number>;

/** Ours has its own scenario; the others may have another one that it is compared with. */
function valuesByTurn(scenario: Scenario, figure: Figure, taken: readonly Taken[], system: SystemName): ByTurn {
  const name = system === OURS ? scenario.name : scenario.against;
  const own = taken.filter((one) => one.system === system && one.scenario === name);
  return new Map(
    own.flatMap(({ turn, repetition }) => {
      const value = figure.of(repetition);
      return value === undefined ? [] : [[turn, value] as const];
    }),
  );
}

/** The ratios of the turns in which ours and at least one other system were measured. */
function ratios({ better }: Figure, ours: ByTurn, peers: readonly ByTurn[]): number[] {
  return [...ours].flatMap(([turn, value]) => {
    const others = peers.flatMap((peer) => peer.get(turn) ?? []);
    if (others.length === 0) return [];
    return better === "more" ? value / Math.max(...others) : Math.min(...others) / value;
  });
}

/** The mean of the two in the middle if their number is even. */
export function median(values: readonly number[]): number | undefined {
  const sorted = [...values].sort((left, right) => left - right);
  const half = sorted.length / 2;
  const [below, above] = [sorted[Math.ceil(half) - 1], sorted[Math.floor(half)]];
  return below === undefined || above === undefined ? undefined : (below + above) / 2;
}

/** A Markdown table, which also reads well in a terminal. */
export function tableOf(rows: readonly Row[]): string {
  const cells = rows.map(({ title, unit, values, ratio }) => [
    ...[title, unit, ...values.map(shown)],
    ratio === undefined ? "–" : `${ratio.toFixed(2)} ×`,
  ]);
  const lines = [["workload", "", "ours", "DBOS", "Restate", "ours / better of the two"], ...cells];
  const widths = lines[0]?.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0))) ?? [];
  const drawn = lines.map((line) => `| ${line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`);
  return [drawn[0], `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`, ...drawn.slice(1)].join("\n");
}

/** Three significant digits, at most two decimals. */
function shown(value: number | undefined): string {
  if (value === undefined) return "–";
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
