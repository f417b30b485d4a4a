// `npm run simulate`: stories from one seed after the other, for as long as it is told. It ends at the first one that breaks a law, and prints it; at the
// end it says how much was simulated, and which functions of the service no story has met.
import { Session } from "node:inspector/promises";
import { relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { commandOf, shrink } from "./shrink.js";
import { ALL_FAULTS, type StoryOptions, type Told, tell } from "./story.js";
import { Base } from "./world/base.js";

const HELP = `Simulates whole clusters from seeds. SIGINT and SIGTERM let it end its story and sum up.

npm run simulate -- [options]

  --hours <number>      how long, in hours of this machine (0.1)
  --seed <number>       the first seed (1)
  --seeds <number>      how many at most (unlimited)
  --storm <seconds>     simulated time under clients and faults, of each story (120)
  --without <names>     faults that are left out, with commas between them
  --shrink              of a story that breaks a law, finds the smallest that does
  --story               prints each story
  --keep-on             goes on after a story that breaks a law
  --unmet               names the functions that no story has met`;

/** A database that has lived for long answers the same, only more slowly: it is made anew. */
const STORIES_OF_A_STORE = 200;

async function main(): Promise<void> {
  const text = { type: "string" } as const;
  const flag = { type: "boolean" } as const;
  const { values } = parseArgs({
    options: {
      ...{ hours: text, seed: text, seeds: text, storm: text, without: text },
      ...{ shrink: flag, story: flag, "keep-on": flag, unmet: flag, help: flag },
    },
  });
  if (values.help) return console.log(HELP);
  const { hours = "0.1", seed: first = "1", seeds = "Infinity", storm = "120", without = "" } = values;
  const options = { stormMs: Number(storm) * 1_000, without: faultsIn(without) };
  const until = performance.now() + Number(hours) * 3_600_000;
  const coverage = await startCoverage();
  const began = process.cpuUsage();
  const told: Told[] = [];
  let base = await Base.open();
  let isStopped = false;
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.once(signal, () => {
      isStopped = true;
    });
  for (let nth = 0; nth < Number(seeds) && performance.now() < until && !isStopped; nth++) {
    if (nth > 0 && nth % STORIES_OF_A_STORE === 0) {
      await base.close();
      base = await Base.open();
    }
    const one = await tell(base, Number(first) + nth, options);
    told.push({ ...one, story: [] });
    const isBroken = one.violations.length > 0;
    if (isBroken || values.story) console.log([...one.story, ...one.violations].join("\n"));
    process.stderr.write(
      `\rseed ${one.seed}: ${told.filter(({ violations }) => violations.length > 0).length} broken `,
    );
    if (isBroken) process.exitCode = 1;
    if (isBroken && values.shrink) console.log(await smallestOf(base, one, options));
    if (isBroken && !values["keep-on"]) break;
  }
  await base.close();
  summarize(told, process.cpuUsage(began));
  const unmet = await coverage();
  console.log(`functions of src that no story has met: ${unmet.length}`);
  if (values.unmet) console.log(unmet.join("\n"));
}

function faultsIn(names: string): ReadonlySet<string> {
  const faults = new Set(names.split(",").filter(Boolean));
  for (const name of faults)
    if (!ALL_FAULTS.includes(name)) throw new Error(`${name} is no fault: there are ${ALL_FAULTS.join(", ")}`);
  return faults;
}

async function smallestOf(base: Base, told: Told, options: StoryOptions): Promise<string> {
  const smallest = await shrink(base, told, options);
  const { story, violations } = smallest.told;
  return ["", "the smallest:", ...story, ...violations, commandOf(smallest)].join("\n");
}

function summarize(told: readonly Told[], { user, system }: NodeJS.CpuUsage): void {
  const sum = (of: (one: Told) => number) => told.reduce((total, one) => total + of(one), 0);
  const hours = sum(({ simulatedMs }) => simulatedMs) / 3_600_000;
  const minutes = (user + system) / 60_000_000;
  const longest = told.toSorted((a, b) => b.simulatedMs - a.simulatedMs)[0];
  const broken = told.filter(({ violations }) => violations.length > 0);
  const counts: Record<string, number> = {};
  for (const one of told)
    for (const [name, count] of Object.entries(one.counts)) counts[name] = (counts[name] ?? 0) + count;
  console.log(
    [
      `\nstories: ${told.length}, of which ${broken.length} break a law${broken.length > 0 ? ` (seeds ${broken.map(({ seed }) => seed).join(", ")})` : ""}`,
      `simulated: ${hours.toFixed(2)} hours in ${minutes.toFixed(1)} minutes of processor time (${(hours / minutes).toFixed(3)} hours a minute)`,
      `the longest: seed ${longest?.seed}, ${Math.round((longest?.simulatedMs ?? 0) / 1_000)} s`,
      `happenings: ${sum(({ happened }) => happened)}`,
      ...Object.entries(counts).map(([name, count]) => `${name}: ${count}`),
    ].join("\n"),
  );
}

/** What V8 counts: answers with the functions that were loaded and never called. */
async function startCoverage(): Promise<() => Promise<string[]>> {
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  return async () => {
    const { result } = await session.post("Profiler.takePreciseCoverage");
    session.disconnect();
    return result
      .filter(({ url }) => /\/src\/.*\.js$/.test(url) && !url.includes("node_modules"))
      .flatMap(({ url, functions }) =>
        functions
          .filter(({ functionName, ranges }) => functionName !== "" && ranges[0]?.count === 0)
          .map(
            ({ functionName }) =>
              `${relative(process.cwd(), fileURLToPath(url)).split(sep).slice(1).join("/")}: ${functionName}`,
          ),
      )
      .sort();
  };
}

await main();
