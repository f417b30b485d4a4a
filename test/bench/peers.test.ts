// The comparison with other systems, without the systems: its table of ratios, its load and its lockfile. The systems are not installed.
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { each, reached, steadyLoad } from "../../bench/peers/load.js";
import { cpuPerThousand, median, rowsOf, type Taken, tableOf } from "../../bench/peers/ratios.js";
import { SCENARIOS } from "../../bench/peers/scenarios.js";
import type { SystemName } from "../../bench/peers/system.js";
import type { Repetition } from "../../bench/result.js";
import { aRepetition } from "./results.js";

const PEERS = resolve(import.meta.dirname, "../../bench/peers");

const scenario = (name: string) => SCENARIOS.filter((one) => one.name === name);

function taken(name: string, turn: number, system: SystemName, changed: Partial<Repetition>): Taken {
  return { scenario: name, turn, system, repetition: aRepetition(2, changed) };
}

/** The throughputs of each turn: ours, DBOS, Restate. */
function throughputs(name: string, turns: readonly (readonly [number, number, number])[]): Taken[] {
  const of = (turn: number, system: SystemName, throughput_per_second: number) =>
    taken(name, turn, system, { throughput_per_second });
  return turns.flatMap(([ours, dbos, restate], turn) => [
    of(turn, "saga-orchestrator", ours),
    of(turn, "dbos-transact", dbos),
    of(turn, "restate", restate),
  ]);
}

describe("the median", () => {
  it("is the value in the middle, or between the two in the middle", () => {
    expect(median([9, 1, 5])).toBe(5);
    expect(median([4, 1, 9, 2])).toBe(3);
    expect(median([])).toBeUndefined();
  });
});

describe("a ratio", () => {
  it("is that of ours to the better of the two, turn by turn", () => {
    const turns = [
      [300, 100, 200],
      [100, 100, 50],
      [120, 10, 60],
    ] as const;
    const [row] = rowsOf(scenario("ten-steps"), throughputs("ten-steps", turns));
    expect(row).toEqual({ title: "Ten in-process steps", unit: "runs/s", values: [120, 100, 60], ratio: 1.5 });
  });

  it("of times is above 1 when ours is shorter", () => {
    const park = (value: number) => ({ figures: [{ name: "park", value, unit: "s" }] });
    const [row] = rowsOf(scenario("park"), [
      taken("park", 1, "saga-orchestrator", park(5)),
      taken("park", 1, "dbos-transact", park(30)),
      taken("park", 1, "restate", park(10)),
    ]);
    expect(row).toMatchObject({ unit: "park, s", values: [5, 30, 10], ratio: 2 });
  });

  it("of one step a commit is to the same ten steps of the others", () => {
    const name = "ten-steps-each-committed";
    const all = [
      ...throughputs("ten-steps", [[900, 50, 200]]),
      taken(name, 0, "saga-orchestrator", { throughput_per_second: 300 }),
    ];
    expect(rowsOf(scenario(name), all)[0]).toMatchObject({ values: [300, 50, 200], ratio: 1.5 });
  });

  it("leaves out turns in which ours or both others are missing", () => {
    const all = [
      ...throughputs("rollback", [[200, 50, 100]]),
      taken("rollback", 1, "saga-orchestrator", { throughput_per_second: 900 }),
      taken("rollback", 2, "restate", { throughput_per_second: 900 }),
    ];
    expect(rowsOf(scenario("rollback"), all)[0]?.ratio).toBe(2);
  });

  it("is unknown if nothing was measured", () => {
    const [row] = rowsOf(scenario("rollback"), []);
    expect(row).toMatchObject({ values: [undefined, undefined, undefined], ratio: undefined });
  });
});

describe("CPU seconds per 1,000 runs", () => {
  it("are those of all processes", () => {
    expect(cpuPerThousand(aRepetition(2, { count: 500 }))).toBe(4);
  });

  it("are unknown if those of one process are", () => {
    const processes: Repetition["processes"] = [
      { role: "service", cpu_seconds: 1, peak_memory_bytes: null },
      { role: "postgres", cpu_seconds: null, peak_memory_bytes: null },
    ];
    expect(cpuPerThousand(aRepetition(2, { processes }))).toBeUndefined();
  });
});

describe("the table", () => {
  it("has three significant digits, and a dash for what is unknown", () => {
    const rows = [{ title: "Rollback", unit: "runs/s", values: [1234.4, 12.34, undefined], ratio: 1.504 }];
    expect(
      tableOf(rows)
        .split("\n")
        .map((line) => line.replaceAll(/ +/g, " ")),
    ).toEqual([
      "| workload | | ours | DBOS | Restate | ours / better of the two |",
      expect.stringMatching(/^\|-+\|-+\|-+\|-+\|-+\|-+\|$/),
      "| Rollback | runs/s | 1234 | 12.3 | – | 1.50 × |",
    ]);
  });
});

describe("the load", () => {
  it("counts the operations of the window, and knows those of the warm-up", async () => {
    let operations = 0;
    let inWindow = 0;
    let open = false;
    const operation = async () => {
      await new Promise(setImmediate);
      operations++;
      if (open) inWindow++;
      return operations;
    };
    const setOpen = (now: boolean) => () => {
      open = now;
    };
    const window = { warmMs: 5, measureMs: 5, opened: setOpen(true), closed: setOpen(false) };
    const loaded = await steadyLoad([operation, operation], window);
    expect(loaded.total).toBe(operations);
    expect(loaded.durations).toHaveLength(inWindow);
    expect(loaded.durations.length).toBeLessThan(operations);
  });

  it("fails with the first operation that fails", async () => {
    const window = { warmMs: 1, measureMs: 1, opened: () => {}, closed: () => {} };
    await expect(steadyLoad([() => Promise.reject(new Error("refused"))], window)).rejects.toThrow("refused");
  });

  it("calls once for each number, with a bounded number at once", async () => {
    const seen: number[] = [];
    let [now, most] = [0, 0];
    await each(20, 3, async (nth) => {
      most = Math.max(most, ++now);
      await new Promise(setImmediate);
      now--;
      seen.push(nth);
    });
    expect(seen.sort((left, right) => left - right)).toEqual(Array.from({ length: 20 }, (_, nth) => nth));
    expect(most).toBe(3);
  });

  it("waits until a count is reached", async () => {
    let count = 0;
    await reached(async () => ++count, 2);
    expect(count).toBe(2);
  });
});

describe("the packages of the others", () => {
  const read = (...path: string[]) => readFileSync(join(...path), "utf8");

  it("are pinned, and locked without the host of a registry", () => {
    const { dependencies } = JSON.parse(read(PEERS, "package.json"));
    for (const version of Object.values(dependencies)) expect(version).toMatch(/^\d+\.\d+\.\d+$/);
    expect(read(PEERS, "package-lock.json")).not.toContain('"resolved"');
  });

  it("are none of the product's", () => {
    expect(read(PEERS, "../../package-lock.json")).not.toMatch(/node_modules\/@(dbos-inc|restatedev)/);
    expect(JSON.parse(read(PEERS, "../../package.json")).files.join()).not.toContain("bench");
  });
});
