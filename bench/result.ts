// The format of result files, which the bench writes and the report compares. It is the only place that knows the format: files of
// other systems have it too, with another subject. Members are only ever added; a change of meaning is a new version.
import { readFileSync } from "node:fs";
import { type Static, Type } from "typebox";
import { Value } from "typebox/value";

export const FORMAT = "saga-bench";
export const FORMAT_VERSION = 1;

/** The scenarios, in the order in which they run. A name must never change: results of different releases are compared by it. */
export const SCENARIO_NAMES = [
  "start",
  "ten-steps",
  "ten-steps-each-committed",
  "three-steps-grpc",
  "three-steps-http",
  "three-steps-rabbitmq",
  "rollback",
  "signal",
  "signal-64",
  "parallel",
  "foreach",
  "foreach-variables",
  "timers",
  "watchers",
  "reads",
  "rules",
  "park",
  "cold-start",
  "commit",
] as const;
export type ScenarioName = (typeof SCENARIO_NAMES)[number];

/** `null` where a figure could not be measured, for example the memory of a process on another machine. */
const Known = Type.Union([Type.Number(), Type.Null()]);

/** The durations of one kind of operation, in milliseconds, from an HDR histogram with three significant digits. */
const LatencySchema = Type.Object({
  /** What was timed: "start to end". The first latency of a repetition is its main one. */
  of: Type.String(),
  samples: Type.Number(),
  mean_ms: Type.Number(),
  p50_ms: Type.Number(),
  p90_ms: Type.Number(),
  p99_ms: Type.Number(),
  p999_ms: Type.Number(),
  max_ms: Type.Number(),
  /** Pairs of a percentile (0 to 100) and its duration, ascending, closer together towards 100: the line of a plot. */
  distribution: Type.Array(Type.Tuple([Type.Number(), Type.Number()])),
});
export type Latency = Static<typeof LatencySchema>;

/** The processes of one role together, while the load of the repetition ran. */
const ProcessesSchema = Type.Object({
  /** The service's nodes and their primary; the workers; the generator of the load; the backends of Postgres for this database. */
  role: Type.Union([Type.Literal("service"), Type.Literal("worker"), Type.Literal("load"), Type.Literal("postgres")]),
  /** User and system time together. */
  cpu_seconds: Known,
  /** The highest sum of resident sets that was sampled, without shared memory (the buffers of Postgres). */
  peak_memory_bytes: Known,
});
export type Processes = Static<typeof ProcessesSchema>;
export type Role = Processes["role"];

/**
 * What the repetition wrote, warm-up included: Postgres reports rows with a delay, so that they are counted from before the warm-up until
 * after the service has stopped. Divide them by `transitions`, which are counted over the same time.
 */
const WritesSchema = Type.Object({
  /** Transitions of runs that became durable. For systems other than ours: steps that were recorded. */
  transitions: Known,
  /** Rows inserted, updated and deleted. */
  rows: Known,
  /** Bytes of WAL of the whole server: other databases and checkpoints (full-page images) count too. */
  wal_bytes: Known,
  /** The tables whose rows were updated. The share of HOT updates is `hot / updates`. */
  tables: Type.Array(Type.Object({ table: Type.String(), updates: Type.Number(), hot: Type.Number() })),
});
export type Writes = Static<typeof WritesSchema>;

/** A figure that only this scenario has. */
const FigureSchema = Type.Object({ name: Type.String(), value: Type.Number(), unit: Type.String() });
export type Figure = Static<typeof FigureSchema>;

/** One repetition: a fresh deployment, the warm-up, then the measured load. With a target the deployment stays. */
const RepetitionSchema = Type.Object({
  /** Units of the scenario that succeeded in the measured load. */
  count: Type.Number(),
  /** Operations that failed; they are in no latency. */
  errors: Type.Number(),
  /** Wall time of the measured load. */
  seconds: Type.Number(),
  /** `count / seconds`. */
  throughput_per_second: Type.Number(),
  latencies: Type.Array(LatencySchema),
  processes: Type.Array(ProcessesSchema),
  /** `null` if no database is known. */
  writes: Type.Union([WritesSchema, Type.Null()]),
  figures: Type.Array(FigureSchema),
  /** Sentences for the reader: the first error, a figure that is unknown, and why. */
  notes: Type.Array(Type.String()),
});
export type Repetition = Static<typeof RepetitionSchema>;

/**
 * How operations were begun. Closed: a number of clients, each of which begins an operation when its last one has ended. Open: at a fixed
 * rate, whatever is still in progress; latencies count from the moment at which an operation should have begun.
 */
const LoadSchema = Type.Union([
  Type.Object({ kind: Type.Literal("closed"), concurrency: Type.Number() }),
  Type.Object({ kind: Type.Literal("open"), rate_per_second: Type.Number() }),
]);
export type Load = Static<typeof LoadSchema>;

const ScenarioResultSchema = Type.Object({
  /** One of `SCENARIO_NAMES`; a reader skips names that it does not know. */
  scenario: Type.String(),
  title: Type.String(),
  /** What `count` counts: "runs", "evaluations". */
  unit: Type.String(),
  load: LoadSchema,
  repetitions: Type.Array(RepetitionSchema),
});
export type ScenarioResult = Static<typeof ScenarioResultSchema>;

const ResultFileSchema = Type.Object({
  format: Type.Literal(FORMAT),
  version: Type.Literal(FORMAT_VERSION),
  /** What was measured. `name` is "saga-orchestrator" for this project. */
  subject: Type.Object({ name: Type.String(), version: Type.String(), commit: Type.Optional(Type.String()) }),
  /** When the first scenario began, RFC 3339. */
  taken_at: Type.String(),
  /** The machine of the load. The service runs there too unless `target` is given. */
  machine: Type.Object({
    cpu: Type.String(),
    cores: Type.Number(),
    memory_bytes: Type.Number(),
    os: Type.String(),
    node: Type.String(),
    /** The version of the Postgres server, if one is known. */
    postgres: Type.Optional(Type.String()),
  }),
  /** The base URL of the deployment, if it was not started by the bench. */
  target: Type.Optional(Type.String()),
  /** Node processes of the service; absent if they are not known. */
  nodes: Type.Optional(Type.Number()),
  scenarios: Type.Array(ScenarioResultSchema),
});
export type ResultFile = Static<typeof ResultFileSchema>;

/** Throws an error that names the first member that is not as the format has it. */
export function checkResult(value: unknown): ResultFile {
  if (Value.Check(ResultFileSchema, value)) return value;
  const [first] = Value.Errors(ResultFileSchema, value);
  throw new Error(`not a result file of format ${FORMAT} ${FORMAT_VERSION}: ${first?.instancePath} ${first?.message}`);
}

/** Throws an error that names the file. */
export function readResult(path: string): ResultFile {
  try {
    return checkResult(JSON.parse(readFileSync(path, "utf8")));
  } catch (error) {
    throw new Error(`${path}: ${error instanceof Error ? error.message : error}`, { cause: error });
  }
}
