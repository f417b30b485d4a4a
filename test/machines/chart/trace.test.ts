// The way of a run, read from its audit rows alone: on the published chart its moves lead to the same places as the edges that the
// run took, whatever happened to it.
// @module-tag both
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createActor } from "xstate";
import { BOOKKEEPING } from "../../../machines/chart/compile.js";
import { ChartGraph } from "../../../machines/chart/graph.js";
import { type Move, Trace } from "../../../machines/chart/trace.js";
import { cases, firstSeed } from "../../harness/long.js";
import { families, optionsOf } from "../families.js";
import { randomOf, Scheduler } from "../scheduler.js";
import type { Simulation } from "../simulation.js";
import { publishedMachine } from "./charts.js";

const UNSEEN: readonly string[] = [...BOOKKEEPING, "pause", "resume"];

const pathOf = (value: unknown): string =>
  typeof value === "string" ? value : `active.${(value as { active: string }).active}`;

function traceOf(run: Simulation): Trace {
  const { startStep, entrypoint } = run.context.run;
  const begin = startStep === undefined ? `begin.${entrypoint || "default"}` : `begin block.${startStep}`;
  return new Trace(new ChartGraph(run.program.chart), begin);
}

function tracedMoves(run: Simulation): readonly Move[] {
  const trace = traceOf(run);
  return run.rows.flatMap((row) => trace.take(row));
}

/** Plays labels on the published chart, and says where it is after each. */
function placesOf(run: Simulation, labels: readonly string[]): string[] {
  const actor = createActor(publishedMachine(run.program)).start();
  return labels.map((type) => {
    actor.send({ type });
    return pathOf(actor.getSnapshot().value);
  });
}

describe("the moves that audit rows show", () => {
  it("are edges of the chart, and lead where the run went", { timeout: 60_000 }, () => {
    const first = firstSeed();
    const stories = cases(6, 20);
    console.log(`trace: ${stories} seeds from ${first}`);
    let [exact, all] = [0, 0];
    for (let seed = first; seed < first + stories; seed++) {
      const [document] = fc.sample(families, { seed, numRuns: 1 });
      const scheduler = new Scheduler(optionsOf(document as NonNullable<typeof document>), randomOf(seed));
      scheduler.play();
      const { runs, history } = scheduler.world;
      for (const run of runs.values()) {
        const taken = history.filter((one) => one.run === run && !UNSEEN.includes(one.edge)).map(({ edge }) => edge);
        const moves = tracedMoves(run);
        const labels = moves.map(({ label }) => label ?? "?");
        const places = moves.map(({ path }) => path);
        const about = `seed ${seed}, run ${run.id}`;
        expect(placesOf(run, labels), about).toEqual(places);
        expect(places.at(-1), about).toBe(run.state);
        all++;
        if (JSON.stringify(placesOf(run, taken)) === JSON.stringify(places)) exact++;
      }
    }
    console.log(`${exact} of ${all} runs traced exactly`);
    // No row says that a run was on its way to a step that it did not enter, nor that an error passed through a container with it.
    expect(exact / all).toBeGreaterThan(0.9);
  });
});
