// Whole clusters under a simulated world: nodes that crash, freeze and are replaced, a store and a bus that lose what they carry, workers that are late,
// repeat and break. Every law holds. More by command: CASES=200 SEED=1 npx vitest run test/simulation/simulation.test.ts; CASES=1 SEED=<seed> tells one
// story again and prints all of it.
// @module-tag both
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cases, firstSeed, long } from "../harness/long.js";
import { type Told, tell } from "./story.js";
import { Base } from "./world/base.js";

const SEEDS = cases(1, 2);
const FIRST = firstSeed(long(1, 503));
const STORM_MS = long(5_000, 20_000);

let base: Base;
beforeAll(async () => {
  base = await Base.open();
}, 120_000);
afterAll(() => base?.close());

function asText({ seed, violations, story }: Told): string {
  const last = SEEDS === 1 ? story : story.slice(-25);
  return [`seed ${seed}:`, ...violations.slice(0, 8).map((line) => line.slice(0, 2_000)), "at last:", ...last].join(
    "\n",
  );
}

describe("a simulated cluster", () => {
  it("keeps every law, and all that was begun ends", { timeout: 120_000 + SEEDS * 120_000 }, async () => {
    for (let seed = FIRST; seed < FIRST + SEEDS; seed++) {
      const told = await tell(base, seed, { stormMs: STORM_MS });
      const { simulatedMs, happened, counts } = told;
      console.log(`seed ${seed}: ${Math.round(simulatedMs / 1_000)} s, ${happened} happenings`, JSON.stringify(counts));
      if (told.violations.length > 0) expect.fail(asText(told));
    }
  });

  it("lives through the same story again from the same seed, whatever came before", { timeout: 300_000 }, async () => {
    const story = (seed: number) => tell(base, seed, { stormMs: 3_000 });
    const once = await story(FIRST);
    await story(FIRST + 1);
    const again = await story(FIRST);
    expect(once.happened).toBeGreaterThan(1_000);
    expect(again).toEqual(once);
  });
});
