// The command `npm run bench`: measures scenarios and writes their results. It exits with 1 if a scenario could not be measured, and
// with 2 after a wrong command line; it never judges a figure.
import { writeFileSync } from "node:fs";
import { BENCH_HELP, type BenchOptions, benchCommand, UsageError } from "./arguments.js";
import { openServer, type Server, versionOf } from "./deployment/database.js";
import { buildOf, thisMachine } from "./measure/machine.js";
import { FORMAT, FORMAT_VERSION, type ResultFile, type ScenarioResult } from "./result.js";
import { SCENARIOS } from "./scenarios/index.js";
import type { Scenario } from "./scenarios/scenario.js";
import { chosen, measure, type Suite } from "./suite.js";
import { resultTable, Terminal } from "./terminal.js";

const UNKNOWN = { version: "unknown" };

async function main(args: readonly string[]): Promise<number> {
  const command = benchCommand(args);
  if (command === "help" || command === "list") {
    console.log(command === "help" ? BENCH_HELP : listing());
    return 0;
  }
  const options = withEnvironment(command);
  const scenarios = chosen(options);
  const server = options.target === undefined ? await openServer(options.database) : undefined;
  try {
    return await measureAll({ options, server, terminal: new Terminal(), stop: interrupted() }, scenarios);
  } finally {
    await server?.stop();
  }
}

function listing(): string {
  return SCENARIOS.map(
    ({ name, title, count, unit }) => `${name.padEnd(25)} ${title}; ${count.toLocaleString("en")} ${unit}`,
  ).join("\n");
}

/** The variables stand in for options that are not given. DATABASE_URL is a server to create databases on, so a target's is never it. */
function withEnvironment(options: BenchOptions): BenchOptions {
  const { AMQP_URL, DATABASE_URL } = process.env;
  const database = options.database ?? (options.target === undefined ? DATABASE_URL || undefined : undefined);
  const amqp = options.amqp ?? (AMQP_URL || undefined);
  return { ...options, ...(database !== undefined && { database }), ...(amqp !== undefined && { amqp }) };
}

/** An interrupt ends the bench after it has removed what it started; a second one at once. */
function interrupted(): AbortSignal {
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, () => {
      process.once(signal, () => process.exit(130));
      stop.abort(new Error("interrupted"));
    });
  }
  return stop.signal;
}

/** A scenario that fails does not keep the others from being measured. */
async function measureAll(suite: Suite, scenarios: readonly Scenario[]): Promise<number> {
  const { options, terminal, stop } = suite;
  const file = await fileFor(suite);
  const results: ScenarioResult[] = [];
  for (const scenario of scenarios) {
    if (stop.aborted) break;
    try {
      results.push(await measure(suite, scenario));
    } catch (error) {
      terminal.line(`${scenario.name} was not measured: ${error instanceof Error ? error.message : error}`);
    }
    if (options.json !== undefined)
      writeFileSync(options.json, `${JSON.stringify({ ...file, scenarios: results }, null, 1)}\n`);
  }
  console.log(resultTable({ ...file, scenarios: results }));
  return results.length === scenarios.length ? 0 : 1;
}

async function fileFor({ options, server }: Suite): Promise<ResultFile> {
  const database = serverOf(options, server);
  return {
    ...{ format: FORMAT, version: FORMAT_VERSION },
    // The build of a target is not known.
    subject: { name: "saga-orchestrator", ...(options.target === undefined ? buildOf(options.service) : UNKNOWN) },
    taken_at: new Date().toISOString(),
    machine: thisMachine(database === undefined ? undefined : await versionOf(database)),
    ...(options.target === undefined ? { nodes: options.nodes } : { target: options.target }),
    scenarios: [],
  };
}

function serverOf({ target, database }: BenchOptions, server: Server | undefined): string | undefined {
  return target === undefined ? server?.url : database;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(`${error.message}\n\n--help describes the options.`);
  process.exitCode = 2;
}
