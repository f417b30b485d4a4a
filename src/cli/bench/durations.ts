// Durations in an HDR histogram: three significant digits from a microsecond to an hour, in constant memory. It is that of Node
// (HdrHistogram_c), which gives the same percentiles as hdr-histogram-js and needs no package.
import { createHistogram } from "node:perf_hooks";

const HOUR_US = 3_600_000_000;

/** In milliseconds. At least one must be recorded before they are read. */
export class Durations {
  protected readonly histogram = createHistogram({ lowest: 1, highest: HOUR_US, figures: 3 });

  get count(): number {
    return this.histogram.count;
  }

  record(ms: number): void {
    this.histogram.record(Math.min(HOUR_US, Math.max(1, Math.round(ms * 1_000))));
  }

  at(percentile: number): number {
    return Math.min(this.histogram.percentile(percentile), this.histogram.max) / 1_000;
  }
}
