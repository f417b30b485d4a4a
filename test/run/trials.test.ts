// Quarantine only on proof (law 7): suspects are tried in a real trial process, which the test poisons where it says so. The nodes
// that died are played by taking the rows; the runs and their rows are real.
import { fork, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { asRunId, type RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { packageRoot } from "../../src/config/package.js";
import { createMetrics } from "../../src/metrics/index.js";
import { SHARDS } from "../../src/shard/placement.js";
import { inbox, wakes } from "../../src/store/engine/poll.js";
import { TrialProcess, type TrialProcessOptions } from "../../src/trial/trial-process.js";
import { Trials } from "../../src/trial/trials.js";
import { lives } from "../cluster/rig.js";
import { createTestDatabase, deleteRuns, silentLog, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { type Half, publish, start, startHalf } from "./rig.js";
import { allEnd, allSound, look, nothingUnwatched } from "./seen.js";

let database: TestDatabase;
const opened: { stop(): Promise<void> }[] = [];

const bad = (id: string) => [
  { id: "first", type: "noop", next: id },
  { id, type: "noop" },
];

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  await publish(database, "healthy", bad("second"));
  for (const id of ["brings-its-node-down", "hangs-its-node", "exhausts-its-node"])
    await publish(database, id, bad(id));
});
beforeEach(() => deleteRuns(database.sql));
afterEach(async () => {
  for (const { stop } of opened.splice(0).reverse()) await stop();
  vi.unstubAllEnvs();
});
afterAll(() => database.drop());

/** Hints are off, so that only the poll moves a run. Its trial process, and only that, dies of what the names of steps promise. */
async function half(options: Partial<TrialProcessOptions> = {}): Promise<Half> {
  vi.stubEnv("NODE_OPTIONS", `--import=${join(packageRoot(), "test", "faults", "falls-dead.mjs")}`);
  const process = new TrialProcess({ databaseUrl: database.url, stepsPerCommit: 64, ...options });
  const trials = new Trials({ sql: database.sql, log: silentLog, metrics: createMetrics(), process });
  opened.push({ stop: () => trials.stop() });
  const started = await startHalf(database, { hints: false, trials });
  opened.push(started);
  return started;
}

/** The step in which a poisoned process hangs calls the process by its name. */
const hangs = (pid: number) => readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith("hangs-its-node");

const makeDue = () => database.sql`update wakes set due_at = now() - interval '1 s'`;

/** So many nodes took all due rows, and were killed. */
async function killNodes(count: number): Promise<void> {
  for (let nth = 1; nth <= count; nth++) {
    await makeDue();
    await wakes.lease(database.sql, SHARDS, 500);
  }
  await makeDue();
}

const stateOf = async (runId: RunId) => {
  const { run } = await look(database.sql, runId);
  return run.paused_reason ?? run.state;
};

/** Also the runs beside it: they are as suspect as it is. */
async function onlyTheGuiltyIsQuarantined(
  workflow: string,
  {
    healthyRuns,
    deathsBefore = 0,
    ...options
  }: Partial<TrialProcessOptions> & { readonly healthyRuns: number; readonly deathsBefore?: number },
) {
  const { starter, poller } = await half(options);
  const healthy = async () => Promise.all(Array.from({ length: healthyRuns / 2 }, () => start(starter, "healthy")));
  const beside = [...(await healthy())];
  const guilty = await start(starter, workflow);
  beside.push(...(await healthy()));
  // If so wanted, it has died alone before, on nodes that are gone: that saves trials.
  await database.sql`update wakes set trial_deaths = ${deathsBefore} where run_id = ${guilty}`;
  await killNodes(2);
  const quarantined = async () => {
    await poller.tick();
    if ((await stateOf(guilty)) === "quarantine") return true;
    // The process was not started in time, or had no share of the processor for so long that it was taken for hung: the next poll tries again.
    await makeDue();
    return false;
  };
  await until(quarantined, { within: 100_000, what: "the quarantine" });
  await allEnd(database.sql, beside);
  for (const { run } of await allSound(database.sql, beside)) expect(run.state).toBe("succeeded");
  await nothingUnwatched(database.sql);
  const { run, events } = await look(database.sql, guilty);
  const metadata = events.at(-1)?.metadata;
  expect(metadata).toEqual({ kind: "quarantine", ...run.quarantine });
  return metadata;
}

describe("a trial process", () => {
  it("lives through many sittings without gathering listeners", async () => {
    const warned: string[] = [];
    const note = ({ name }: Error) => void warned.push(name);
    globalThis.process.on("warning", note);
    const process = new TrialProcess({ databaseUrl: database.url, stepsPerCommit: 64 });
    opened.push({ stop: () => process.end() });
    const runId = await start((await half()).starter, "healthy");
    const suspect = { runId, command: { type: "advance" }, reach: { tenants: "*" } } as const;
    for (let nth = 0; nth < 12; nth++) {
      const { outcomes, death } = await process.try([suspect]);
      expect([outcomes.get(0), death]).toEqual(["lived", undefined]);
    }
    globalThis.process.off("warning", note);
    expect(warned).toEqual([]);
  });
});

describe("a healthy run", () => {
  it("is never quarantined because its node was killed, however often", async () => {
    const { starter, poller } = await half();
    const runId = await start(starter, "healthy");
    await killNodes(10);
    await poller.tick();
    expect(await stateOf(runId)).toBe("succeeded");
    await allSound(database.sql, [runId]);
  });

  it("is not tried because one node was killed", async () => {
    const verdictOn = vi.fn(async () => ({ kind: "lived" }) as const);
    const started = await startHalf(database, { hints: false, trials: { verdictOn } });
    opened.push(started);
    const runId = await start(started.starter, "healthy");
    await killNodes(1);
    await started.poller.tick();
    expect([await stateOf(runId), verdictOn.mock.calls.length]).toEqual(["succeeded", 0]);
  });
});

describe("a run that brings its node down", { tags: "long" }, () => {
  it("is found among others and quarantined, and only it, with what was seen", async () => {
    const seen = await onlyTheGuiltyIsQuarantined("brings-its-node-down", {
      healthyRuns: 24,
      deathsBefore: 1,
    });
    expect(seen).toMatchObject({ trials: 3, end: "ended", signal: "SIGKILL" });
  });

  it("by hanging is found in the same way", async () => {
    const hung = { healthyRuns: 10, hangMs: 3_000, deathsBefore: 1 };
    const seen = await onlyTheGuiltyIsQuarantined("hangs-its-node", hung);
    expect(seen).toMatchObject({ trials: 3, end: "hung", signal: "SIGKILL" });
  });

  it("by exhausting its memory is found in the same way", async () => {
    const seen = await onlyTheGuiltyIsQuarantined("exhausts-its-node", {
      healthyRuns: 10,
      heapMb: 64,
      deathsBefore: 1,
    });
    expect(seen).toMatchObject({ trials: 3, end: "ended", out_of_memory: true });
  });
});

describe("a run that this node cannot read", () => {
  async function leavesAlone(count: number): Promise<void> {
    const { starter, poller } = await half();
    const runId = await start(starter, "healthy");
    await database.sql`update runs set record = jsonb_set(record::jsonb, '{v}', '99')::json where id = ${runId}`;
    await killNodes(count);
    await poller.tick();
    expect(poller.unreadable.count).toBe(1);
    const [row] = await database.sql`select tries, trial_deaths from wakes where run_id = ${runId}`;
    expect(row).toEqual({ tries: count, trial_deaths: 0 });
    // A node that can read it takes it as if nothing had been.
    await database.sql`update runs set record = jsonb_set(record::jsonb, '{v}', '1')::json where id = ${runId}`;
    await makeDue();
    await poller.tick();
    expect([await stateOf(runId), poller.unreadable.count]).toEqual(["succeeded", 0]);
  }

  it("is left to others without a try, and a gauge counts it", () => leavesAlone(0));
  it("is left to others also if it is a suspect", () => leavesAlone(2));

  it("because it cannot compile its definition is left to others without a try", async () => {
    await publish(database, "of-tomorrow", bad("third"));
    const { starter } = await half();
    const runId = await start(starter, "of-tomorrow");
    const document = { id: "of-tomorrow", start: "x", steps: [{ id: "x", type: "of_tomorrow" }] };
    await database.sql`update definitions set document = ${JSON.stringify(document)}::json where workflow_id = 'of-tomorrow'`;
    const { poller } = await half();
    await makeDue();
    await poller.tick();
    const [row] = await database.sql`select tries from wakes where run_id = ${runId}`;
    expect([row?.tries, poller.unreadable.count]).toEqual([0, 1]);
  });
});

describe("a verdict", () => {
  const suspect = { runId: asRunId("018f0000-0000-7000-8000-000000000000"), command: { type: "advance" } } as const;
  const death = { nth: 0, end: "ended", signal: "SIGKILL", heap_mb: 1, ms: 1 } as const;
  const nothing = new Map<number, "lived">();
  type Process = ConstructorParameters<typeof Trials>[0]["process"];
  const trialsOn = (process: Omit<Process, "isRunning">, isRunning = false) =>
    new Trials({ sql: database.sql, log: silentLog, metrics: createMetrics(), process: { isRunning, ...process } });

  async function rowOfSuspect(): Promise<string> {
    const { starter } = await half();
    const runId = await start(starter, "healthy");
    await killNodes(2);
    return runId;
  }

  it("is proven by deaths that are counted durably: they survive the node that held the trial", async () => {
    const key = await rowOfSuspect();
    let left = 2;
    const first = trialsOn({
      try: async () => {
        if (--left < 0) throw new Error("this node is gone");
        return { outcomes: nothing, death };
      },
      end: async () => {},
    });
    expect(await first.verdictOn({ ...suspect, reach: EVERYTHING }, { table: wakes, key })).toEqual({
      kind: "undecided",
    });
    const second = trialsOn({ try: async () => ({ outcomes: nothing, death }), end: async () => {} });
    const { nth: _, ...seen } = death;
    const proof = { trials: 3, ...seen };
    expect(await second.verdictOn({ ...suspect, reach: EVERYTHING }, { table: wakes, key })).toEqual({
      kind: "guilty",
      proof,
    });
  });

  it("needs deaths of the run alone, each in a process of its own", async () => {
    const keys = [await rowOfSuspect()];
    const groups: [number, boolean | undefined][] = [];
    const trials = trialsOn({
      try: async (group, options) => {
        groups.push([group.length, options?.fresh]);
        return { outcomes: nothing, death };
      },
      end: async () => {},
    });
    const row = { table: wakes, key: keys[0] ?? "" };
    const other = { table: inbox, key: "018f0000-0000-7000-8000-000000000001" };
    const verdicts = [
      trials.verdictOn({ ...suspect, reach: EVERYTHING }, row),
      trials.verdictOn({ ...suspect, reach: EVERYTHING }, other),
    ];
    expect((await Promise.all(verdicts)).map(({ kind }) => kind)).toEqual(["guilty", "undecided"]);
    const alone = [1, true];
    expect(groups).toEqual([[2, undefined], [1, undefined], alone, alone, alone, alone]);
  });

  it("is not needed for a run that lives in the process that runs already; a death there proves nothing", async () => {
    const row = { table: wakes, key: await rowOfSuspect() };
    const seen: (boolean | undefined)[] = [];
    let lives = true;
    const trials = trialsOn(
      {
        try: async (_, options) => {
          seen.push(options?.fresh);
          return lives ? { outcomes: new Map([[0, "lived"]]) } : { outcomes: nothing, death };
        },
        end: async () => {},
      },
      true,
    );
    expect(await trials.verdictOn({ ...suspect, reach: EVERYTHING }, row)).toEqual({ kind: "lived" });
    expect(seen.splice(0)).toEqual([undefined]);
    lives = false;
    expect(await trials.verdictOn({ ...suspect, reach: EVERYTHING }, row)).toMatchObject({
      kind: "guilty",
      proof: { trials: 3 },
    });
    expect(seen).toEqual([undefined, true, true, true]);
  });

  it("does not rest on a process that died before the trial began", async () => {
    const key = await rowOfSuspect();
    const { nth: _, ...before } = death;
    const trials = trialsOn({ try: async () => ({ outcomes: nothing, death: before }), end: async () => {} });
    expect(await trials.verdictOn({ ...suspect, reach: EVERYTHING }, { table: wakes, key })).toEqual({
      kind: "undecided",
    });
    const [row] = await database.sql`select trial_deaths from wakes where run_id = ${key}`;
    expect(row?.trial_deaths).toBe(0);
  });

  it("clears the counts of a run that lived", async () => {
    const key = await rowOfSuspect();
    await wakes.countDeath(database.sql, key);
    const trials = trialsOn({ try: async () => ({ outcomes: new Map([[0, "lived"]]) }), end: async () => {} });
    expect(await trials.verdictOn({ ...suspect, reach: EVERYTHING }, { table: wakes, key })).toEqual({ kind: "lived" });
    const [row] = await database.sql`select tries, trial_deaths from wakes where run_id = ${key}`;
    expect(row).toEqual({ tries: 1, trial_deaths: 0 });
  });

  it("is not given once the node stops", async () => {
    const trials = trialsOn({ try: () => Promise.reject(new Error("not reached")), end: async () => {} });
    await trials.stop();
    expect(await trials.verdictOn({ ...suspect, reach: EVERYTHING }, { table: wakes, key: suspect.runId })).toEqual({
      kind: "undecided",
    });
  });
});

describe("the trial process", { tags: "long" }, () => {
  /** A process that has a trial of this run, killed while it lasts. Answers the pid of the trial process. */
  async function nodeKilledInTrial(runId: string): Promise<number> {
    const module = pathToFileURL(join(packageRoot(), "dist", "src", "trial", "trial-process.js")).href;
    const program = `const { TrialProcess } = await import(${JSON.stringify(module)});
      const trial = new TrialProcess(${JSON.stringify({ databaseUrl: database.url, stepsPerCommit: 64, hangMs: 120_000 })});
      const suspect = { runId: ${JSON.stringify(runId)}, command: { type: "advance" }, reach: { tenants: "*" } };
      const sitting = trial.try([suspect]);
      setInterval(() => trial.forked?.pid && console.log(trial.forked.pid), 50);
      await sitting;`;
    const node = spawn(process.execPath, ["--input-type=module", "-e", program], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    opened.push({ stop: async () => void node.kill("SIGKILL") });
    const [line] = await once(node.stdout, "data");
    const pid = Number.parseInt(String(line), 10);
    await until(() => hangs(pid), { what: "the decision that never ends" });
    node.kill("SIGKILL");
    return pid;
  }

  it("ends when its node ends, even if it hangs", async () => {
    const { starter } = await half();
    const runId = await start(starter, "hangs-its-node");
    const pid = await nodeKilledInTrial(runId);
    await until(() => !lives(pid), { what: "the end of the trial process" });
  });

  it("ends if its node has ended while it started", async () => {
    const entry = join(packageRoot(), "dist", "src", "trial", "entry.js");
    const gone = spawn(process.execPath, ["-e", ""]);
    await once(gone, "exit");
    const trial = fork(entry, [String(gone.pid)], { stdio: "ignore", serialization: "advanced" });
    opened.push({ stop: async () => void trial.kill("SIGKILL") });
    const [code] = await once(trial, "exit");
    expect(code).toBe(0);
  });
});
