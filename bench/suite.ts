// Runs scenarios, repetition by repetition, and makes their results. It decides which scenarios a deployment allows.
import type { BenchOptions } from "./arguments.js";
import { UsageError } from "./arguments.js";
import type { Server } from "./deployment/database.js";
import { Deployment } from "./deployment/deployment.js";
import type { Load, Repetition, ScenarioResult } from "./result.js";
import { SCENARIOS, scenarioNamed } from "./scenarios/index.js";
import type { Scenario } from "./scenarios/scenario.js";
import { type Size, Stage } from "./stage.js";
import { repetitionLine, type Terminal } from "./terminal.js";

/** Calls that the worker takes at once: one for each client of a scenario by default. With more runs in progress, some wait for its credit. */
const IN_FLIGHT = 64;

export interface Suite {
  readonly options: BenchOptions;
  /** The server for deployments of the bench's own. */
  readonly server: Server | undefined;
  readonly terminal: Terminal;
  readonly stop: AbortSignal;
}

/** What cannot be measured is an error if it was named, and left out of "all". Throws a UsageError. */
export function chosen(options: BenchOptions): Scenario[] {
  const named = options.scenarios.map(scenarioNamed);
  for (const scenario of named) {
    const obstacle = obstacleOf(scenario, options);
    if (obstacle !== undefined) throw new UsageError(`${scenario.name}: ${obstacle}`);
  }
  return named.length > 0 ? named : SCENARIOS.filter((scenario) => obstacleOf(scenario, options) === undefined);
}

function obstacleOf({ kind, ownOnly, worker }: Scenario, options: BenchOptions): string | undefined {
  const { target, amqp, ratePerSecond, durationMs } = options;
  if (target !== undefined && ownOnly !== undefined) return `not with --target: ${ownOnly}`;
  if (worker === "rabbitmq" && amqp === undefined) return "it needs RabbitMQ: give --amqp or set AMQP_URL";
  if (kind === "work" && (ratePerSecond !== undefined || durationMs !== undefined))
    return "it is one piece of work of --count units: --rate and --duration do not apply";
  return undefined;
}

/** Throws what a repetition threw, after its deployment is gone. */
export async function measure(suite: Suite, scenario: Scenario): Promise<ScenarioResult> {
  const repetitions: Repetition[] = [];
  for (let nth = 1; nth <= suite.options.repetitions; nth++) {
    const title = `${scenario.name} ${nth}/${suite.options.repetitions}`;
    repetitions.push(await repeat(suite, scenario, title));
  }
  const { name, title, unit } = scenario;
  return { scenario: name, title, unit, load: loadOf(scenario, suite.options), repetitions };
}

async function repeat(suite: Suite, scenario: Scenario, title: string): Promise<Repetition> {
  const { options, server, terminal, stop } = suite;
  terminal.now(`${title}: starting`);
  const { worker, settings } = scenario;
  const needs = { ...(worker && { worker }), ...(settings && { settings }), maxInFlight: IN_FLIGHT };
  const place = await Deployment.open(options, needs, server);
  try {
    const size = sizeOf(scenario, options);
    const stage = new Stage(place, size, terminal.progress(title, options.durationMs ? undefined : size.count), stop);
    await scenario.play(stage);
    stop.throwIfAborted();
    if (options.target !== undefined && settings)
      stage.note(`the target has its own ${Object.keys(settings).join(", ")}`);
    const repetition = stage.repetition(await place.endWrites());
    terminal.line(repetitionLine(title, scenario.unit, repetition));
    return repetition;
  } finally {
    await place.close();
  }
}

export function sizeOf(scenario: Scenario, options: BenchOptions): Size {
  const { durationMs, ratePerSecond, rows } = options;
  const count = options.count ?? scenario.count;
  return {
    // A duration alone ends a repetition.
    count: options.count === undefined && durationMs !== undefined ? Number.MAX_SAFE_INTEGER : count,
    concurrency: options.concurrency ?? scenario.concurrency,
    warmup: options.warmup ?? Math.round(count / 4),
    rows,
    ...(durationMs !== undefined && { durationMs }),
    ...(ratePerSecond !== undefined && { ratePerSecond }),
  };
}

function loadOf(scenario: Scenario, { ratePerSecond, concurrency = scenario.concurrency }: BenchOptions): Load {
  return ratePerSecond === undefined
    ? { kind: "closed", concurrency }
    : { kind: "open", rate_per_second: ratePerSecond };
}
