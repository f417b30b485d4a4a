// The pressure on this process, sampled: how full its heap is and how late its event loop runs. Others act on it: idle runs are
// passivated (run/runtime.ts), load is shed (work/load-shedder.ts).

import { type IntervalHistogram, monitorEventLoopDelay } from "node:perf_hooks";
import { getHeapStatistics } from "node:v8";
import { clearInterval, setInterval } from "../ambient.js";

const SAMPLE_MS = 500;
const RESOLUTION_MS = 20;
/** The weight of the newest sample: one pause of the collector or of the machine is not an overload. */
const NEWEST_WEIGHT = 0.3;

export interface PressureSample {
  /** Used share of the heap's limit, with the memory of buffers outside the heap: 0 to 1, and beyond. */
  readonly heap: number;
  /** Delay of timers in milliseconds, averaged over the last few samples. */
  readonly loopMs: number;
}

export class Pressure {
  private sample: PressureSample = { heap: 0, loopMs: 0 };
  private readonly delays: IntervalHistogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  private timer: NodeJS.Timeout | undefined;

  get now(): PressureSample {
    return this.sample;
  }

  /** Samples until `stop`, and calls `onSample` with each sample. */
  start(onSample: (sample: PressureSample) => void = () => {}): void {
    this.delays.enable();
    this.timer ??= setInterval(() => onSample(this.measure()), SAMPLE_MS).unref();
  }

  /** Safe to call twice. */
  stop(): void {
    clearInterval(this.timer);
    this.delays.disable();
  }

  private measure(): PressureSample {
    const { used_heap_size, external_memory, heap_size_limit } = getHeapStatistics();
    // Without any measurement the loop was blocked for the whole time.
    const delay = this.delays.count > 0 ? this.delays.mean / 1e6 - RESOLUTION_MS : SAMPLE_MS;
    this.delays.reset();
    const loopMs = (1 - NEWEST_WEIGHT) * this.sample.loopMs + NEWEST_WEIGHT * Math.max(0, delay);
    this.sample = { heap: (used_heap_size + external_memory) / heap_size_limit, loopMs };
    return this.sample;
  }
}
