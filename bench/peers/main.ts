// The same workloads on this project, on DBOS Transact and on Restate, in turns: prints one table of ratios, and writes one result file
// for each system, which `npm run bench` can compare. README.md in the folder of the sources tells what is measured and how.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { openServer, type Server, versionOf } from "../deployment/database.js";
import { thisCommit, thisMachine } from "../measure/machine.js";
import { checkResult, FORMAT, FORMAT_VERSION, type ResultFile } from "../result.js";
import { rowsOf, type Taken, tableOf } from "./ratios.js";
import { SCENARIOS, type Scenario } from "./scenarios.js";
import { SYSTEMS, type SystemName } from "./system.js";
import type { Turn, TurnAnswer } from "./turn.js";

const { values: options } = parseArgs({
  options: {
    turns: { type: "string", default: "5" },
    seconds: { type: "string", default: "15" },
    warm: { type: "string", default: "10" },
    parked: { type: "string", default: "20000" },
    nodes: { type: "string", default: "1" },
    scenario: { type: "string", multiple: true, default: SCENARIOS.map(({ name }) => name) },
    system: { type: "string", multiple: true, default: [...SYSTEMS] },
    out: { type: "string", default: ".saga/peers" },
  },
});

const folder = resolve(options.out);
const versions = new Map<SystemName, string>();
const taken: Taken[] = [];
const takenAt = new Date().toISOString();

async function main(): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const postgres = await openServer(process.env.DATABASE_URL);
  const version = await versionOf(postgres.url);
  const scenarios = SCENARIOS.filter(({ name }) => options.scenario.includes(name));
  for (let turn = 1; turn <= Number(options.turns); turn++) {
    for (const scenario of scenarios) await takeTurns(turn, scenario, postgres);
    for (const system of versions.keys()) write(system, version);
    console.log(`\nAfter ${turn} of ${options.turns} turns:\n\n${tableOf(rowsOf(scenarios, taken))}\n`);
  }
  await postgres.stop();
}

/** The systems take turns in another order each time, so that none always runs after the same one. */
async function takeTurns(turn: number, scenario: Scenario, server: Server): Promise<void> {
  const systems = scenario.systems.filter((system) => options.system.includes(system));
  for (let nth = 0; nth < systems.length; nth++) {
    const system = systems[(turn + nth) % systems.length] ?? "saga-orchestrator";
    process.stderr.write(`turn ${turn}: ${scenario.name} on ${system}\n`);
    const answer = await runTurn({
      ...amounts(),
      system,
      scenario: scenario.name,
      server,
      folder: join(folder, "turn"),
    });
    if (!answer) continue;
    versions.set(system, answer.version);
    taken.push({ turn, system, scenario: scenario.name, repetition: answer.repetition });
  }
}

function amounts() {
  const { warm, seconds, parked, nodes } = options;
  return { warmSeconds: Number(warm), seconds: Number(seconds), parked: Number(parked), nodes: Number(nodes) };
}

/** Undefined: it failed, and what it wrote to standard error says why. The other turns are not affected. */
async function runTurn(turn: Turn): Promise<TurnAnswer | undefined> {
  const program = [process.execPath, new URL("turn.js", import.meta.url).pathname, JSON.stringify(turn)];
  const [command = "", ...args] = turn.system === "restate" ? isolated(program) : program;
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
  let last = "";
  createInterface({ input: child.stdout }).on("line", (line) => {
    last = line;
  });
  const [code] = await once(child, "close");
  return code === 0 ? (JSON.parse(last) as TurnAnswer) : undefined;
}

/** The program in a network namespace of its own, with loopback only. Without root it needs user namespaces. */
function isolated(program: readonly string[]): string[] {
  const asRoot = process.getuid?.() === 0 ? [] : ["--map-root-user"];
  return ["unshare", "--net", ...asRoot, "sh", "-c", 'ip link set lo up && exec "$@"', "sh", ...program];
}

/** After each turn, so that what was measured is not lost if a later turn is interrupted. */
function write(system: SystemName, postgres: string): void {
  const file = checkResult(resultOf(system, postgres));
  writeFileSync(join(folder, `${system}.json`), `${JSON.stringify(file, null, 2)}\n`);
}

function resultOf(system: SystemName, postgres: string): ResultFile {
  const scenarios = SCENARIOS.flatMap(({ name, title, lanes, kind }) => {
    const repetitions = taken.filter((one) => one.system === system && one.scenario === name);
    if (repetitions.length === 0) return [];
    const load = { kind: "closed" as const, concurrency: lanes };
    const unit = kind === "cycles" ? "cycles" : "runs";
    return [{ scenario: name, title, unit, load, repetitions: repetitions.map(({ repetition }) => repetition) }];
  });
  return {
    ...{
      format: FORMAT,
      version: FORMAT_VERSION,
      taken_at: takenAt,
      nodes: system === "saga-orchestrator" ? Number(options.nodes) : 1,
      scenarios,
    },
    subject: {
      name: system,
      version: versions.get(system) ?? "",
      ...(system === "saga-orchestrator" && { commit: thisCommit() }),
    },
    machine: thisMachine(postgres),
  };
}

await main();
