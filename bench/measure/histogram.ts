// Durations in an HDR histogram: three significant digits from a microsecond to an hour, in constant memory. It is that of Node
// (HdrHistogram_c), which gives the same percentiles as hdr-histogram-js and needs no package.
import { createHistogram } from "node:perf_hooks";
import type { Latency } from "../result.js";

const HOUR_US = 3_600_000_000;
const PLOTTED = [10, 25, 50, 75, 90, 95, 97.5, 99, 99.5, 99.75, 99.9, 99.95, 99.99, 100];

export class Durations {
  private readonly histogram = createHistogram({ lowest: 1, highest: HOUR_US, figures: 3 });

  record(ms: number): void {
    this.histogram.record(Math.min(HOUR_US, Math.max(1, Math.round(ms * 1_000))));
  }

  /** The latencies; at least one duration must be recorded. */
  summary(of: string): Latency {
    const { count, mean, min, max } = this.histogram;
    const at = (percentile: number) => Math.min(this.histogram.percentile(percentile), max) / 1_000;
    return {
      ...{ of, samples: count, mean_ms: Math.round(mean) / 1_000, max_ms: max / 1_000 },
      ...{ p50_ms: at(50), p90_ms: at(90), p99_ms: at(99), p999_ms: at(99.9) },
      distribution: [[0, min / 1_000], ...PLOTTED.map((percentile): [number, number] => [percentile, at(percentile)])],
    };
  }
}
