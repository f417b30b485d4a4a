// Durations, and the latencies that a result has of them.
import { Durations as Recorded } from "../../src/cli/bench/durations.js";
import type { Latency } from "../result.js";

const PLOTTED = [10, 25, 50, 75, 90, 95, 97.5, 99, 99.5, 99.75, 99.9, 99.95, 99.99, 100];

export class Durations extends Recorded {
  /** The latencies; at least one duration must be recorded. */
  summary(of: string): Latency {
    const { count, mean, min, max } = this.histogram;
    const at = (percentile: number): number => this.at(percentile);
    return {
      ...{ of, samples: count, mean_ms: Math.round(mean) / 1_000, max_ms: max / 1_000 },
      ...{ p50_ms: at(50), p90_ms: at(90), p99_ms: at(99), p999_ms: at(99.9) },
      distribution: [[0, min / 1_000], ...PLOTTED.map((percentile): [number, number] => [percentile, at(percentile)])],
    };
  }
}
