// What access control costs: services with access off, with API keys and with tokens side by side, in CPU time. Two processes of one build differ by some
// percent, so each round measures fresh ones, in turns; the rounds end when the interval of every ratio is narrow enough for a verdict on its bound.
import { parseArgs } from "node:util";
import { drive } from "../../src/cli/bench/load.js";
import { openServer, type Server } from "../deployment/database.js";
import { fill } from "../scenarios/reads.js";
import { INPUTS, TEN_STEPS, THREE_STEPS, type Workload } from "../workloads.js";
import { inOrder } from "./order.js";
import { type Mode, openPlace, type Place, type PlaceOptions, type Spent, TENANT } from "./place.js";
import { isWide, type Pair, type Ratio, ratioOf, verdictOf } from "./ratio.js";

const HELP = `Measures what access control costs, in CPU time: access off, API keys and tokens, in turns.

node dist/bench/access/main.js [options]

  --work <name,...>     three-steps-grpc, list, ten-steps, start (three-steps-grpc,list)
  --modes <name,...>    off, api_key, jwt (all), against off; sampled: traces of one run in a hundred
  --before <file>       the service of another build, as --service of the bench: "off" is compared with it
  --rounds <number>     the least number of rounds, each with services of its own (10)
  --most <number>       the most rounds (60)
  --warming <number>    passes of each service before its turns (20)
  --turns <number>      turns of each service in a round (50)
  --seconds <number>    no round begins later than this (unlimited)
  --bound <percent>     what access control may cost (5); off against --before: 1
  --database <url>      the Postgres server (DATABASE_URL, or an embedded one)
  --profile <folder>    CPU profiles of the services
  --rows <number>       runs in the store for lists (20000)`;

interface Work {
  readonly name: string;
  /** Units of one turn. */
  readonly count: number;
  readonly concurrency: number;
  readonly workload?: Workload;
  one(place: Place): Promise<unknown>;
}

function runsOf(name: string, workload: Workload, count: number): Work {
  const one = ({ api }: Place) => api.run(workload, { inputs: INPUTS, tenant_id: TENANT });
  return { name, count, concurrency: 64, workload, one };
}

const WORKS: readonly Work[] = [
  runsOf("three-steps-grpc", THREE_STEPS, 320),
  { name: "list", count: 120, concurrency: 8, one: ({ api }) => api.get(`/api/v1/sagas?limit=50&tenant_id=${TENANT}`) },
  runsOf("ten-steps", TEN_STEPS, 512),
  {
    name: "start",
    count: 640,
    concurrency: 64,
    workload: TEN_STEPS,
    one: ({ api }) => api.start(TEN_STEPS, { tenant_id: TENANT }),
  },
];

type Costs = Readonly<Record<keyof Spent, number>>;
/** In milliseconds a unit. */
type Round = ReadonlyMap<Mode, Costs>;

/** An interrupt ends the rounds: the services end, and what was measured is reported. */
const interrupted = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => interrupted.abort());

async function main(): Promise<void> {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    options: {
      ...{ work: text, modes: text, before: text, rounds: text, most: text, seconds: text, bound: text },
      ...{ warming: text, turns: text },
      ...{ database: text, profile: text, rows: text, help: { type: "boolean" } },
    },
  });
  if (values.help) return console.log(HELP);
  const { before: service, profile, rows = "20000" } = values;
  const works = (values.work ?? "three-steps-grpc,list").split(",").map(workNamed);
  const modes = (values.modes ?? "off,api_key,jwt").split(",") as Mode[];
  const server = await openServer(values.database ?? (process.env.DATABASE_URL || undefined));
  const { rounds = "10", most = "60", seconds = "Infinity", bound = "5", warming = "20", turns = "50" } = values;
  const limits = { least: Number(rounds), most: Number(most), bound: Number(bound) / 100 };
  const passes = { server, warming: Number(warming), turns: Number(turns), rows: Number(rows) };
  const until = performance.now() + Number(seconds) * 1_000;
  const places: readonly PlaceOptions[] = [
    ...(service === undefined ? [] : [{ mode: "before" as const, service }]),
    ...modes.map((mode) => ({ mode })),
  ].map((place) => ({ ...place, ...(profile !== undefined && { profile }) }));
  const taken = new Map<Work, Round[]>(works.map((work) => [work, []]));
  const isOpen = () => works.some((work) => comparisons(taken.get(work) ?? [], limits).some(({ wide }) => wide));
  try {
    for (let nth = 0; nth < limits.most && performance.now() < until && !interrupted.signal.aborted; nth++) {
      if (nth >= limits.least && !isOpen()) break;
      const round = await takeRound(inOrder(places, nth), works, passes);
      for (const [work, costs] of round) taken.get(work)?.push(costs);
      process.stderr.write(`\rround ${nth + 1}`);
    }
  } finally {
    await server.stop();
  }
  process.stderr.write("\n");
  for (const work of works) report(work, taken.get(work) ?? [], limits);
}

function workNamed(name: string): Work {
  const work = WORKS.find((each) => each.name === name);
  if (!work) throw new Error(`there is no work ${name}; --help names them`);
  return work;
}

interface RoundOptions {
  readonly server: Server;
  readonly warming: number;
  readonly turns: number;
  readonly rows: number;
}

async function takeRound(
  options: readonly PlaceOptions[],
  works: readonly Work[],
  { server, warming, turns, rows }: RoundOptions,
): Promise<ReadonlyMap<Work, Round>> {
  const places: Place[] = [];
  try {
    for (const one of options) places.push(await openPlace(one, server));
    for (const place of places) await prepare(place, works, rows);
    // What is compiled, planned and cached on the way is in no turn.
    for (let nth = 0; nth < warming; nth++)
      for (const work of works) for (const place of inOrder(places, nth)) await perform(work, place);
    const round = new Map<Work, Round>();
    for (const work of works) round.set(work, await takeTurns(work, places, turns));
    return round;
  } finally {
    for (const place of places) await place.close();
  }
}

async function prepare(place: Place, works: readonly Work[], rows: number): Promise<void> {
  if (works.some(({ name }) => name === "list")) await fill(place.sql, rows, TENANT);
  for (const { workload } of works) if (workload) await place.api.publish(workload);
}

function perform({ count, concurrency, one }: Work, place: Place): Promise<void> {
  return drive({ count, concurrency }, async () => void (await one(place)));
}

/** Of all turns together: some of a turn is paid after it, as garbage is collected and spans are exported. */
async function takeTurns(work: Work, places: readonly Place[], turns: number): Promise<Round> {
  const before = await spentBy(places);
  for (let nth = 0; nth < turns; nth++) for (const place of inOrder(places, nth)) await perform(work, place);
  const after = await spentBy(places);
  const each = (mode: Mode, of: keyof Spent) => {
    const seconds = (after.get(mode)?.[of] ?? Number.NaN) - (before.get(mode)?.[of] ?? Number.NaN);
    return (seconds / (work.count * turns)) * 1_000;
  };
  return new Map(
    places.map(({ mode }) => [mode, { service: each(mode, "service"), postgres: each(mode, "postgres") }]),
  );
}

async function spentBy(places: readonly Place[]): Promise<ReadonlyMap<Mode, Spent>> {
  const spent = new Map<Mode, Spent>();
  for (const place of places) spent.set(place.mode, await place.spent());
  return spent;
}

interface Limits {
  readonly bound: number;
}

/** Off is judged against the other build with a bound of its own, and so are traces. */
const BEFORE_BOUND = 0.01;
const SAMPLED_BOUND = 0.03;

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

function comparisons(rounds: readonly Round[], limits: Limits): Comparison[] {
  const [first] = rounds;
  if (!first || rounds.length < 2) return [];
  const pairs: [Mode, Mode, number][] = [];
  if (first.has("before") && first.has("off")) pairs.push(["off", "before", BEFORE_BOUND]);
  for (const mode of first.keys())
    if (mode !== "off" && mode !== "before" && first.has("off"))
      pairs.push([mode, "off", mode === "sampled" ? SAMPLED_BOUND : limits.bound]);
  return pairs.map(([judged, against, bound]) => {
    const ratio = ratioOf(pairsOf(rounds, judged, against, serviceOf));
    const both = ratioOf(pairsOf(rounds, judged, against, allOf));
    return { judged, against, bound, ratio, both, wide: isWide(ratio, bound) };
  });
}

function pairsOf(rounds: readonly Round[], judged: Mode, against: Mode, of: (costs: Costs) => number): Pair[] {
  const costOf = (round: Round, mode: Mode) => of(round.get(mode) ?? { service: Number.NaN, postgres: Number.NaN });
  return rounds.map((round) => ({ judged: costOf(round, judged), against: costOf(round, against) }));
}

function report(work: Work, rounds: readonly Round[], limits: Limits): void {
  console.log(`\n${work.name}: ${work.count} units a turn, ${rounds.length} rounds`);
  for (const mode of rounds[0]?.keys() ?? []) {
    const mean = (of: (costs: Costs) => number) =>
      rounds.reduce((sum, round) => sum + of(round.get(mode) ?? { service: 0, postgres: 0 }), 0) / rounds.length;
    const postgres = mean(({ postgres }) => postgres).toFixed(3);
    console.log(`  ${mode.padEnd(8)} CPU ms a unit: service ${mean(serviceOf).toFixed(3)}, Postgres ${postgres}`);
  }
  for (const { judged, against, bound, ratio, both } of comparisons(rounds, limits)) {
    const verdict = `${verdictOf(ratio, bound)} ${(bound * 100).toFixed(0)} %`;
    console.log(
      `  ${judged} / ${against}: ${shown(ratio)}: ${verdict}; with Postgres ${shown(both)}: ${verdictOf(both, bound)}`,
    );
  }
}

const shown = ({ ratio, low, high }: Ratio) => `${ratio.toFixed(3)} (${low.toFixed(3)} to ${high.toFixed(3)})`;

await main();
