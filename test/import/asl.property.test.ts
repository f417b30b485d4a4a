// Generated state machines: what the interpreter of the specification gives is what the rehearsal of the imported workflow gives. A failure names its seed.
import { describe, expect, it } from "vitest";
import { checkWorkflow, importWorkflow, type JsonObject } from "../../machines/index.js";
import { generate } from "./generated.js";
import { execute } from "./interpreter.js";
import { comparedEnd, comparedRun, rehearse } from "./rehearsed.js";

const MACHINES = Number(process.env.SAGA_TEST_MACHINES ?? 150);
const FIRST = Number(process.env.SAGA_TEST_SEED ?? 1);

describe("generated state machines", () => {
  it("end as the specification says", () => {
    const ends = { SUCCEEDED: 0, FAILED: 0, states: 0 };
    for (let seed = FIRST; seed < FIRST + MACHINES; seed++) {
      const { machine, script, input } = generate(seed);
      const imported = importWorkflow(machine as JsonObject, { name: "generated" });
      expect(
        imported?.findings.filter(({ weight }) => weight === "refused"),
        `seed ${seed}`,
      ).toEqual([]);
      if (!imported) continue;
      const problems = checkWorkflow(imported.workflow).filter(({ code }) => code === "invalid");
      expect(problems, `seed ${seed}: ${JSON.stringify(machine)}`).toEqual([]);
      const wanted = execute(machine, input, script);
      const got = comparedRun(rehearse(imported, input as JsonObject, script));
      const about = `seed ${seed}: ${JSON.stringify({ machine, input, script, trail: wanted.trail })}`;
      expect(got, about).toEqual(comparedEnd(wanted));
      ends[wanted.status]++;
      ends.states += wanted.trail.length;
    }
    // Both kinds of end have to be met, or the comparison says little.
    expect(Math.min(ends.SUCCEEDED, ends.FAILED), JSON.stringify(ends)).toBeGreaterThan(MACHINES / 10);
  });
});
