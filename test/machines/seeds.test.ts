// Deterministic simulation: random families under a seeded scheduler with lost and unanswered commits, dying nodes, repeated and late
// messages, cancels and signals at any time. More seeds by command: CASES=20000 SEED=1 npx vitest run test/machines/seeds.test.ts;
// CASES=1 SEED=<seed> plays one story again and prints all of it.
// @module-tag both
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cases, firstSeed } from "../harness/long.js";
import { worldViolations } from "./chain.js";
import { families, optionsOf } from "./families.js";
import { randomOf, Scheduler } from "./scheduler.js";

const SEEDS = cases(8, 60);
const FIRST = firstSeed();

/** The broken laws with the moves before them. Undefined: none. */
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

describe("the simulation", () => {
  it("every law holds, whatever is lost, repeated, late or killed", { timeout: 60_000 + SEEDS * 200 }, () => {
    console.log(`simulation: ${SEEDS} seeds from ${FIRST}`);
    const counts: Record<string, number> = {};
    for (let seed = FIRST; seed < FIRST + SEEDS; seed++) {
      const fault = trial(seed, counts);
      // One story is short enough to read.
      if (fault) throw new Error(fault);
    }
    console.log("seen", counts);
    if (SEEDS < 100) return;
    const all = [
      "lost",
      "unheard",
      "crash",
      "between",
      "clock",
      "late",
      "repeat",
      "signal",
      "cancel",
      "quarantine",
      "act",
    ];
    for (const name of [...all, "succeeded", "failed", "cancelled"]) expect(counts[name], name).toBeGreaterThan(0);
  });
});
