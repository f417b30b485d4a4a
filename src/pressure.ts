// What this process suffers, sampled: how full its heap is and how late its event loop runs. What follows from it is for
// others to decide: residents are let go (run/residents.ts), load is shed (run/admission.ts).
import { type IntervalHistogram, monitorEventLoopDelay } from "node:perf_hooks";
import { getHeapStatistics } from "node:v8";

const SAMPLE_MS = 500;
const RESOLUTION_MS = 20;
/** How much the newest sample counts: one pause of the collector, or of the machine, is no overload. */
const NEWEST = 0.3;

export interface PressureSample {
  /** Of the heap's limit, with what buffers hold outside of it: 0 to 1, and beyond. */
  readonly heap: number;
  /** How late timers were on average, over the last few samples. */
  readonly loopMs: number;
}

export class Pressure {
  private sample: PressureSample = { heap: 0, loopMs: 0 };
  private readonly delays: IntervalHistogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  private timer: NodeJS.Timeout | undefined;

  get now(): PressureSample {
    return this.sample;
  }

  /** Samples until `stop`, and tells each time. */
  start(onSample: (sample: PressureSample) => void = () => {}): void {
    this.delays.enable();
    this.timer ??= setInterval(() => onSample(this.take()), SAMPLE_MS).unref();
  }

  /** Safe twice. */
  stop(): void {
    clearInterval(this.timer);
    this.delays.disable();
  }

  private take(): PressureSample {
    const { used_heap_size, external_memory, heap_size_limit } = getHeapStatistics();
    // No delay was measured at all: the loop stood still for the whole time.
    const late = this.delays.count > 0 ? this.delays.mean / 1e6 - RESOLUTION_MS : SAMPLE_MS;
    this.delays.reset();
    const loopMs = (1 - NEWEST) * this.sample.loopMs + NEWEST * Math.max(0, late);
    this.sample = { heap: (used_heap_size + external_memory) / heap_size_limit, loopMs };
    return this.sample;
  }
}
