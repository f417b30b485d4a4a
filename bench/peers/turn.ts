// One turn: one scenario on one system, in a process of its own, which the main program may have put into a network namespace. It writes
// the repetition as its last line. Its own CPU time is that of the load and counts for no system.
import { mkdir, rm } from "node:fs/promises";
import type { Server } from "../deployment/database.js";
import { Durations } from "../measure/histogram.js";
import type { Repetition } from "../result.js";
import { freshDatabase, NO_DATABASE } from "./database.js";
import { startDbos } from "./dbos.js";
import { each, operationOf, reached, steadyLoad } from "./load.js";
import { startOurs } from "./ours.js";
import { startRestate } from "./restate.js";
import { SCENARIOS, type Scenario } from "./scenarios.js";
import type { Calls, Setting, System, SystemName } from "./system.js";
import { Usage } from "./usage.js";

export interface Turn {
  readonly system: SystemName;
  readonly scenario: string;
  readonly warmSeconds: number;
  readonly seconds: number;
  /** Runs to park. */
  readonly parked: number;
  /** Nodes of this project; the other systems have one. */
  readonly nodes: number;
  readonly server: Omit<Server, "stop">;
  readonly folder: string;
}

export interface TurnAnswer {
  readonly version: string;
  readonly repetition: Repetition;
}

const STARTS = { "saga-orchestrator": startOurs, "dbos-transact": startDbos, restate: startRestate };

async function take(turn: Turn): Promise<TurnAnswer> {
  const scenario = SCENARIOS.find(({ name }) => name === turn.scenario);
  if (!scenario) throw new Error(`there is no scenario ${turn.scenario}`);
  await mkdir(turn.folder, { recursive: true });
  const database = turn.system === "restate" ? NO_DATABASE : await freshDatabase(turn.server);
  try {
    return await measure(scenario, turn, { ...scenario, nodes: turn.nodes, database, folder: turn.folder });
  } finally {
    await database.drop();
    await rm(turn.folder, { recursive: true, force: true });
  }
}

/** If it fails, the processes end with this one. */
async function measure(scenario: Scenario, turn: Turn, setting: Setting): Promise<TurnAnswer> {
  const system = await STARTS[turn.system](setting);
  const usage = new Usage(system.processes);
  const measured = await (scenario.kind === "park" ? park : steady)(scenario, system, turn, usage);
  checkCalls(scenario, await system.stop(), measured.total);
  return { version: system.version, repetition: repetition(measured, usage) };
}

interface Measured {
  /** Runs in total, with those of the warm-up. */
  readonly total: number;
  readonly seconds: number;
  readonly count: number;
  readonly latencies: Repetition["latencies"];
  readonly figures: Repetition["figures"];
}

async function steady(scenario: Scenario, system: System, turn: Turn, usage: Usage): Promise<Measured> {
  const clients = Array.from({ length: scenario.lanes }, () => operationOf(scenario, system));
  const [warmMs, measureMs] = [turn.warmSeconds * 1_000, turn.seconds * 1_000];
  const window = { warmMs, measureMs, opened: () => usage.begin(), closed: () => usage.end() };
  const { durations, total, seconds } = await steadyLoad(clients, window);
  const of = scenario.kind === "runs" ? "start to end" : "signal to end";
  return { total, seconds, count: durations.length, latencies: [summary(of, durations)], figures: [] };
}

function summary(of: string, durations: readonly number[]): Repetition["latencies"][number] {
  const histogram = new Durations();
  for (const ms of durations) histogram.record(ms);
  return histogram.summary(of);
}

/** Parks all runs, then signals all of them. Each part ends when the system's store tells so. */
async function park(scenario: Scenario, system: System, { parked }: Turn, usage: Usage): Promise<Measured> {
  const ids: string[] = [];
  usage.begin();
  const since = performance.now();
  await each(parked, scenario.lanes, async (nth) => {
    ids[nth] = await system.begin();
  });
  await reached(() => system.countParked(), parked);
  const between = performance.now();
  await each(parked, scenario.lanes, async (nth) => system.signal(ids[nth] ?? ""));
  await reached(() => system.countEnded(), parked);
  const seconds = (performance.now() - since) / 1_000;
  usage.end();
  const toPark = (between - since) / 1_000;
  const figures = [
    { name: "park", value: toPark, unit: "s" },
    { name: "resume", value: seconds - toPark, unit: "s" },
  ];
  return { total: parked, seconds, count: parked, latencies: [], figures };
}

const ACTIONS_OF_A_RUN: Readonly<Record<string, Calls>> = {
  "three-steps": { echo: 3 },
  rollback: { reserve: 3, refuse: 1, release: 3 },
};

/** Every action was executed as often as the runs need it. */
function checkCalls(scenario: Scenario, calls: Calls, runs: number): void {
  for (const [action, times] of Object.entries(ACTIONS_OF_A_RUN[scenario.workflow] ?? {}))
    if ((calls[action] ?? 0) < times * runs) throw new Error(`${action}: ${calls[action]} calls for ${runs} runs`);
}

function repetition({ count, seconds, latencies, figures }: Measured, usage: Usage): Repetition {
  const throughput = { count, errors: 0, seconds, throughput_per_second: count / seconds };
  return { ...throughput, latencies, figures, processes: usage.processes(), writes: null, notes: [] };
}

console.log(JSON.stringify(await take(JSON.parse(process.argv[2] ?? "{}"))));
process.exit();
