// The command line of the bench and of its report. A bad option is an error with a sentence; nothing here reads the environment or a file.
import { type ParseArgsConfig, parseArgs } from "node:util";
import type { DeploymentOptions } from "./deployment/deployment.js";
import { SCENARIO_NAMES, type ScenarioName } from "./result.js";

export interface BenchOptions extends DeploymentOptions {
  /** Empty: all that the deployment allows. */
  readonly scenarios: readonly ScenarioName[];
  // Absent: what the scenario has.
  readonly count?: number;
  readonly durationMs?: number;
  readonly concurrency?: number;
  readonly ratePerSecond?: number;
  readonly warmup?: number;
  readonly repetitions: number;
  readonly rows: number;
  readonly json?: string;
}

export type BenchCommand = "help" | "list" | BenchOptions;

/** A wrong command line: the sentence is for the user. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

export const BENCH_HELP = `Usage: npm run bench -- [options]

What to measure
  --scenario NAME      one or more, separated by commas or repeated; default: all that the deployment allows
  --list               the names of the scenarios
  --count N            units of a repetition
  --duration SECONDS   how long a repetition begins new operations, instead of --count
  --concurrency N      closed loop: operations at once
  --rate N             open loop: operations a second, whatever is in progress; latencies count from the intended start
  --warmup N           operations before the measured ones; default: a quarter of the count
  --repetitions N      default 3
  --rows N             runs in the store for the scenario reads; default 1000000

Where
  --target URL         a deployment that is running; without it the bench starts a database, the service and a worker
  --grpc HOST:PORT     of the target; default: its host, port 9090
  --database URL       of the target: its database, which is only read. Without a target: the server on which a fresh database is
                       created; default: DATABASE_URL, else an embedded one
  --amqp URL           RabbitMQ; default: AMQP_URL
  --worker-host HOST   where the service reaches the bench's HTTP worker; default 127.0.0.1
  --nodes N            node processes of the service that the bench starts; default 1
  --service FILE       the file to start as the service; default: that of this build
  --set NAME=VALUE     a setting of that service; may be repeated
  --profile FOLDER     writes the CPU profiles of that service there

Results
  --json FILE          writes the results there, after each scenario
  --help`;

export const REPORT_HELP = `Usage: npm run bench:report -- FILE... --out REPORT.html

Compares result files of the bench; ratios are to the first file. The report is one HTML file that loads nothing else.`;

const TEXT = { type: "string" } as const;
const TEXTS = { type: "string", multiple: true } as const;
const FLAG = { type: "boolean" } as const;

const BENCH = {
  ...{ scenario: TEXTS, list: FLAG, help: FLAG, count: TEXT, duration: TEXT, concurrency: TEXT, rate: TEXT },
  ...{ warmup: TEXT, repetitions: TEXT, rows: TEXT, target: TEXT, grpc: TEXT, database: TEXT, amqp: TEXT },
  ...{ "worker-host": TEXT, nodes: TEXT, service: TEXT, set: TEXTS, profile: TEXT, json: TEXT },
} as const;

/** Throws a UsageError. */
export function benchCommand(args: readonly string[]): BenchCommand {
  const { values } = parse({ args: [...args], options: BENCH, strict: true });
  if (values.help) return "help";
  if (values.list) return "list";
  const duration = positive("duration", values.duration);
  const options: BenchOptions = {
    scenarios: (values.scenario ?? []).flatMap((names) => names.split(",")).map(scenarioName),
    target: url("target", values.target, ["http:", "https:"])?.replace(/\/+$/, ""),
    grpc: address("grpc", values.grpc),
    database: url("database", values.database, ["postgres:", "postgresql:"]),
    amqp: url("amqp", values.amqp, ["amqp:", "amqps:"]),
    workerHost: values["worker-host"] ?? "127.0.0.1",
    nodes: whole("nodes", values.nodes) ?? 1,
    service: values.service,
    settings: Object.fromEntries((values.set ?? []).map(setting)),
    profile: values.profile,
    count: whole("count", values.count),
    durationMs: duration && duration * 1_000,
    concurrency: whole("concurrency", values.concurrency),
    ratePerSecond: positive("rate", values.rate),
    warmup: whole("warmup", values.warmup, 0),
    repetitions: whole("repetitions", values.repetitions) ?? 3,
    rows: whole("rows", values.rows) ?? 1_000_000,
    json: values.json,
  };
  refuseContradictions(options);
  return options;
}

/** Throws a UsageError. */
export function reportCommand(
  args: readonly string[],
): "help" | { readonly files: readonly string[]; readonly out: string } {
  const options = { out: TEXT, help: FLAG };
  const { values, positionals } = parse({ args: [...args], options, strict: true, allowPositionals: true });
  if (values.help) return "help";
  if (positionals.length === 0) throw new UsageError("name at least one result file");
  if (values.out === undefined) throw new UsageError("--out is missing: the file to write the report to");
  return { files: positionals, out: values.out };
}

/** The message of parseArgs names the option. */
function parse<T extends ParseArgsConfig>(config: T): ReturnType<typeof parseArgs<T>> {
  try {
    return parseArgs(config);
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

function refuseContradictions(options: BenchOptions): void {
  const { target, concurrency, ratePerSecond } = options;
  if (concurrency !== undefined && ratePerSecond !== undefined)
    throw new UsageError("--concurrency is a closed loop and --rate an open one: give one of them");
  if (target === undefined && options.grpc) throw new UsageError("--grpc is that of a target: give --target too");
  if (target === undefined) return;
  const started = options.service ?? options.profile ?? Object.keys(options.settings)[0];
  if (started !== undefined)
    throw new UsageError(
      "--service, --set and --profile are for a service that the bench starts, and --target names another",
    );
}

function scenarioName(name: string): ScenarioName {
  const known = SCENARIO_NAMES.find((each) => each === name);
  if (known === undefined) throw new UsageError(`there is no scenario ${name}; --list names them`);
  return known;
}

function whole(option: string, text: string | undefined, least = 1): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d{1,9}$/.test(text) || Number(text) < least)
    throw new UsageError(`--${option} takes a whole number from ${least}, not ${text}`);
  return Number(text);
}

function positive(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d{1,9}(\.\d+)?$/.test(text) || Number(text) <= 0)
    throw new UsageError(`--${option} takes a number above 0, not ${text}`);
  return Number(text);
}

/** The error does not repeat the URL, which may hold a password. */
function url(option: string, text: string | undefined, protocols: readonly string[]): string | undefined {
  if (text === undefined) return undefined;
  if (!URL.canParse(text) || !protocols.includes(new URL(text).protocol))
    throw new UsageError(`--${option} takes a URL that begins with ${protocols.join("// or ")}//`);
  return text;
}

function address(option: string, text: string | undefined): string | undefined {
  if (text !== undefined && !/^\S+:\d{1,5}$/.test(text))
    throw new UsageError(`--${option} takes HOST:PORT, not ${text}`);
  return text;
}

function setting(text: string): [string, string] {
  const [, name, value] = /^([A-Z_]+)=(.*)$/s.exec(text) ?? [];
  if (name === undefined || value === undefined) throw new UsageError("--set takes NAME=VALUE");
  return [name, value];
}
