// The bench measures a scenario on a deployment that it starts and removes, and the report shows the result.
// @module-tag long
import { readFileSync } from "node:fs";
import postgres from "postgres";
import { describe, expect, inject, it } from "vitest";
import { inFolder, measured, run } from "./command.js";

/** The databases of the bench with this process id: others may run beside the tests. */
async function databasesOf(pid: number): Promise<readonly string[]> {
  const sql = postgres(inject("databaseUrl"), { max: 1 });
  const rows = await sql<{ datname: string }[]>`
    select datname from pg_database where datname like ${`saga_bench_${pid}_%`}`;
  await sql.end();
  return rows.map(({ datname }) => datname);
}

describe("the bench", () => {
  it("measures a scenario, and leaves no database behind", async () => {
    const result = await measured("result.json", "--scenario", "three-steps-grpc", "--count", "20", "--warmup", "4");
    expect(await databasesOf(result.pid)).toEqual([]);

    const [scenario] = result.scenarios;
    const [repetition] = scenario?.repetitions ?? [];
    expect(scenario).toMatchObject({
      scenario: "three-steps-grpc",
      unit: "runs",
      load: { kind: "closed", concurrency: 64 },
    });
    expect(repetition).toMatchObject({
      count: 20,
      errors: 0,
      notes: [],
      latencies: [{ of: "start to end", samples: 20 }],
    });
    expect(repetition?.processes.map(({ role }) => role).sort()).toEqual(["load", "postgres", "service", "worker"]);
    // Three transitions for each of three steps of 24 runs; a row for each of 24 runs and its audit rows.
    expect(repetition?.writes?.transitions).toBeGreaterThanOrEqual(24 * 9);
    expect(repetition?.writes?.rows).toBeGreaterThan(24 * 9);

    const report = await run("report", inFolder("result.json"), "--out", inFolder("report.html"));
    expect(report).toMatchObject({ code: 0, output: `wrote ${inFolder("report.html")}\n` });
    expect(readFileSync(inFolder("report.html"), "utf8")).toContain("<h2>three-steps-grpc</h2>");
  });

  it("ends with 2 and a sentence after a wrong command line", async () => {
    expect(await run("main", "--scenario", "nothing")).toMatchObject({
      code: 2,
      output: "there is no scenario nothing; --list names them\n\n--help describes the options.\n",
    });
    expect(await run("report", "missing.json", "--out", inFolder("none.html"))).toMatchObject({
      code: 1,
      output: expect.stringContaining("missing.json"),
    });
  });
});
