// What access control costs: services with access off, with API keys and with tokens side by side, each measured in each turn, in CPU time. The turns end
// when the interval of every ratio is narrow enough for a verdict on its bound.
import { parseArgs } from "node:util";
import { openServer } from "../deployment/database.js";
import { drive } from "../load.js";
import { fill } from "../scenarios/reads.js";
import { INPUTS, TEN_STEPS, THREE_STEPS, type Workload } from "../workloads.js";
import { inOrder } from "./order.js";
import { type Mode, openPlace, type Place, type Spent, TENANT } from "./place.js";
import { isWide, type Pair, type Ratio, ratioOf, verdictOf } from "./ratio.js";

const HELP = `Measures what access control costs, in CPU time: access off, API keys and tokens, in turns.

node dist/bench/access/main.js [options]

  --work <name,...>     three-steps-grpc, list, ten-steps, start (three-steps-grpc,list)
  --modes <name,...>    off, api_key, jwt (all), against off
  --before <file>       the service of another build, as --service of the bench: "off" is compared with it
  --turns <number>      the least number of turns (20)
  --most <number>       the most turns (200)
  --seconds <number>    no turn begins later than this (unlimited)
  --bound <percent>     what access control may cost (5); off against --before: 1
  --database <url>      the Postgres server (DATABASE_URL, or an embedded one)
  --profile <folder>    CPU profiles of the services
  --rows <number>       runs in the store for lists (20000)`;

interface Work {
  readonly name: string;
  /** Units of one turn of one service. */
  readonly count: number;
  readonly concurrency: number;
  readonly workload?: Workload;
  one(place: Place): Promise<unknown>;
}

function runsOf(name: string, workload: Workload, count: number): Work {
  const one = ({ api }: Place) => api.run(workload, { inputs: INPUTS });
  return { name, count, concurrency: 64, workload, one };
}

const WORKS: readonly Work[] = [
  runsOf("three-steps-grpc", THREE_STEPS, 320),
  { name: "list", count: 240, concurrency: 8, one: ({ api }) => api.get("/api/v1/sagas?limit=50") },
  runsOf("ten-steps", TEN_STEPS, 512),
  { name: "start", count: 640, concurrency: 64, workload: TEN_STEPS, one: ({ api }) => api.start(TEN_STEPS) },
];

type Costs = Readonly<Record<keyof Spent, number>>;
/** Of each turn, in milliseconds a unit. */
type Turn = ReadonlyMap<Mode, Costs>;

/** An interrupt ends the turns: the services end, and what was measured is reported. */
const interrupted = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => interrupted.abort());

async function main(): Promise<void> {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    options: {
      ...{ work: text, modes: text, before: text, turns: text, most: text, seconds: text, bound: text },
      ...{ database: text, profile: text, rows: text, help: { type: "boolean" } },
    },
  });
  if (values.help) return console.log(HELP);
  const works = (values.work ?? "three-steps-grpc,list").split(",").map(workNamed);
  const modes = (values.modes ?? "off,api_key,jwt").split(",") as Mode[];
  const server = await openServer(values.database ?? (process.env.DATABASE_URL || undefined));
  const { before: service, profile, rows = "20000" } = values;
  const all: Mode[] = [...(service === undefined ? [] : (["before"] as const)), ...modes];
  const places: Place[] = [];
  try {
    for (const mode of all) {
      const file = mode === "before" && service !== undefined && { service };
      places.push(await openPlace({ mode, ...file, ...(profile !== undefined && { profile }) }, server));
    }
    await prepare(places, works, Number(rows));
    const { turns = "20", most = "200", seconds = "Infinity", bound = "5" } = values;
    const limits = { least: Number(turns), most: Number(most), seconds: Number(seconds), bound: Number(bound) / 100 };
    await takeTurns(places, works, limits);
  } finally {
    for (const place of places) await place.close();
    await server.stop();
  }
}

function workNamed(name: string): Work {
  const work = WORKS.find((each) => each.name === name);
  if (!work) throw new Error(`there is no work ${name}; --help names them`);
  return work;
}

async function prepare(places: readonly Place[], works: readonly Work[], rows: number): Promise<void> {
  for (const place of places) {
    if (works.some(({ name }) => name === "list")) await fill(place.sql, rows, TENANT);
    for (const { workload } of works) if (workload) await place.api.publish(workload);
  }
  // What is compiled, planned and cached on the way is in no turn.
  for (let round = 0; round < 3; round++)
    for (const work of works) for (const place of places) await perform(work, place);
}

function perform({ count, concurrency, one }: Work, place: Place): Promise<void> {
  return drive({ count, concurrency }, async () => void (await one(place)));
}

interface Limits {
  readonly least: number;
  readonly most: number;
  readonly seconds: number;
  readonly bound: number;
}

/** Off is judged against the other build with a bound of its own. */
const BEFORE_BOUND = 0.01;

async function takeTurns(places: readonly Place[], works: readonly Work[], limits: Limits): Promise<void> {
  const taken = new Map<Work, Turn[]>(works.map((work) => [work, []]));
  const until = performance.now() + limits.seconds * 1_000;
  const isOpen = () => works.some((work) => comparisons(taken.get(work) ?? [], limits).some(({ wide }) => wide));
  for (let nth = 0; nth < limits.most && performance.now() < until && !interrupted.signal.aborted; nth++) {
    if (nth >= limits.least && !isOpen()) break;
    for (const work of works) taken.get(work)?.push(await turnOf(work, inOrder(places, nth)));
    process.stderr.write(`\rturn ${nth + 1}`);
  }
  process.stderr.write("\n");
  for (const work of works) report(work, taken.get(work) ?? [], limits);
}

async function turnOf(work: Work, places: readonly Place[]): Promise<Turn> {
  const turn = new Map<Mode, Costs>();
  for (const place of places) {
    const before = await place.spent();
    await perform(work, place);
    const after = await place.spent();
    const each = (of: keyof Spent) => ((after[of] - before[of]) / work.count) * 1_000;
    turn.set(place.mode, { service: each("service"), postgres: each("postgres") });
  }
  return turn;
}

interface Comparison {
  readonly judged: Mode;
  readonly against: Mode;
  readonly bound: number;
  readonly ratio: Ratio;
  readonly both: Ratio;
  readonly wide: boolean;
}

const serviceOf = ({ service }: Costs) => service;
const allOf = ({ service, postgres }: Costs) => service + postgres;

function comparisons(turns: readonly Turn[], limits: Limits): Comparison[] {
  const [first] = turns;
  if (!first || turns.length < 2) return [];
  const pairs: [Mode, Mode, number][] = [];
  if (first.has("before") && first.has("off")) pairs.push(["off", "before", BEFORE_BOUND]);
  for (const mode of first.keys())
    if ((mode === "api_key" || mode === "jwt") && first.has("off")) pairs.push([mode, "off", limits.bound]);
  return pairs.map(([judged, against, bound]) => {
    const ratio = ratioOf(pairsOf(turns, judged, against, serviceOf));
    const both = ratioOf(pairsOf(turns, judged, against, allOf));
    return { judged, against, bound, ratio, both, wide: isWide(ratio, bound) };
  });
}

function pairsOf(turns: readonly Turn[], judged: Mode, against: Mode, of: (costs: Costs) => number): Pair[] {
  const costOf = (turn: Turn, mode: Mode) => of(turn.get(mode) ?? { service: Number.NaN, postgres: Number.NaN });
  return turns.map((turn) => ({ judged: costOf(turn, judged), against: costOf(turn, against) }));
}

function report(work: Work, turns: readonly Turn[], limits: Limits): void {
  console.log(`\n${work.name}: ${work.count} units of each service a turn, ${turns.length} turns`);
  for (const mode of turns[0]?.keys() ?? []) {
    const mean = (of: (costs: Costs) => number) =>
      turns.reduce((sum, turn) => sum + of(turn.get(mode) ?? { service: 0, postgres: 0 }), 0) / turns.length;
    const postgres = mean(({ postgres }) => postgres).toFixed(3);
    console.log(`  ${mode.padEnd(8)} CPU ms a unit: service ${mean(serviceOf).toFixed(3)}, Postgres ${postgres}`);
  }
  for (const { judged, against, bound, ratio, both } of comparisons(turns, limits)) {
    const verdict = `${verdictOf(ratio, bound)} ${(bound * 100).toFixed(0)} %`;
    console.log(
      `  ${judged} / ${against}: ${shown(ratio)}: ${verdict}; with Postgres ${shown(both)}: ${verdictOf(both, bound)}`,
    );
  }
}

const shown = ({ ratio, low, high }: Ratio) => `${ratio.toFixed(3)} (${low.toFixed(3)} to ${high.toFixed(3)})`;

await main();
