// Deterministic simulation: random families under a seeded scheduler with lost and unheard-of commits, dying nodes, repeated and late
// messages, cancels and signals at any moment. More seeds by command: SEEDS=20000 SEED=1 npx vitest run test/machines/seeds.test.ts;
// SEEDS=1 SEED=<seed> plays one again and tells more of it.
import fc from "fast-check";
import { expect, test } from "vitest";
import { worldViolations } from "./chain.js";
import { families, optionsOf } from "./families.js";
import { randomOf, Scheduler } from "./scheduler.js";

const SEEDS = Number(process.env.SEEDS ?? 1_000);
const FIRST = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));

/** Undefined, or what went wrong and how it came to that. */
function trial(seed: number, counts: Record<string, number>): string | undefined {
  const [document] = fc.sample(families, { seed, numRuns: 1 });
  if (!document) throw new Error("no family");
  const scheduler = new Scheduler(optionsOf(document), randomOf(seed));
  const found: string[] = [];
  try {
    found.push(...scheduler.play());
    if (found.length === 0) found.push(...worldViolations(scheduler.world));
  } catch (thrown) {
    found.push(String(thrown));
  }
  for (const [name, count] of Object.entries(scheduler.seen)) counts[name] = (counts[name] ?? 0) + count;
  for (const { state } of scheduler.world.runs.values()) counts[state] = (counts[state] ?? 0) + 1;
  if (found.length === 0) return undefined;
  const laws = found.slice(0, 5).map((law) => law.slice(0, 300));
  return [`seed ${seed}:`, ...laws, "at last:", ...scheduler.story.slice(SEEDS === 1 ? 0 : -25)].join("\n");
}

test("whatever is lost, repeated, late or killed, every law holds", { timeout: 60_000 + SEEDS * 200 }, () => {
  console.log(`simulation: ${SEEDS} seeds from ${FIRST}`);
  const counts: Record<string, number> = {};
  for (let seed = FIRST; seed < FIRST + SEEDS; seed++) {
    const fault = trial(seed, counts);
    // One story is enough, and short enough to read.
    if (fault) throw new Error(fault);
  }
  console.log("seen", counts);
  if (SEEDS < 100) return;
  const all = ["lost", "unheard", "crash", "between", "clock", "late", "repeat", "signal", "cancel", "quarantine"];
  for (const name of [...all, "succeeded", "failed", "cancelled"]) expect(counts[name], name).toBeGreaterThan(0);
});
