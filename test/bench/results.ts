// Result files for tests, with figures that are easy to calculate with.
import type { Latency, Repetition, ResultFile } from "../../bench/result.js";

const LATENCY: Latency = {
  of: "start to end",
  samples: 1_000,
  mean_ms: 4,
  p50_ms: 3,
  p90_ms: 6,
  p99_ms: 12,
  p999_ms: 20,
  max_ms: 21,
  distribution: [
    [0, 1],
    [50, 3],
    [90, 6],
    [99, 12],
    [100, 21],
  ],
};

/** A thousand runs in `seconds`. */
export function aRepetition(seconds = 2, changed: Partial<Repetition> = {}): Repetition {
  return {
    ...{ count: 1_000, errors: 0, seconds, throughput_per_second: 1_000 / seconds, latencies: [LATENCY] },
    processes: [
      { role: "service", cpu_seconds: 1.5, peak_memory_bytes: 200 * 2 ** 20 },
      { role: "postgres", cpu_seconds: 0.5, peak_memory_bytes: null },
    ],
    writes: {
      transitions: 10_000,
      rows: 25_000,
      wal_bytes: 8_000_000,
      tables: [{ table: "runs", updates: 20, hot: 19 }],
    },
    ...{ figures: [], notes: [] },
    ...changed,
  };
}

export function aResult(seconds: readonly number[] = [2], changed: Partial<ResultFile> = {}): ResultFile {
  const load = { kind: "closed", concurrency: 64 } as const;
  const repetitions = seconds.map((each) => aRepetition(each));
  return {
    ...{ format: "saga-bench", version: 1, taken_at: "2026-11-23T12:00:00.000Z" },
    subject: { name: "saga-orchestrator", version: "0.6.0" },
    machine: { cpu: "a processor", cores: 2, memory_bytes: 8 * 2 ** 30, os: "linux", node: "v20.20.0" },
    scenarios: [{ scenario: "ten-steps", title: "Ten steps", unit: "runs", load, repetitions }],
    ...changed,
  };
}
