// What no polled row counts (law 7): a client or a worker repeats a command that ends the process. The last words of a node name what it died
// of, and all nodes try that before they decide on it. The trial process is real, and the test poisons it where a name says so.
// @module-tag both
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import type { RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { packageRoot } from "../../src/config/package.js";
import { derivedUuid, uuidv7 } from "../../src/ids.js";
import { createMetrics } from "../../src/metrics/index.js";
import type { Judge, Verdict } from "../../src/run/judge.js";
import { listSuspects, recordDeath } from "../../src/store/engine/suspects.js";
import { TrialGate } from "../../src/trial/gate.js";
import { LastWords, openNamelessFile, openWordsFile, readLastWords } from "../../src/trial/last-words.js";
import { Suspects } from "../../src/trial/suspects.js";
import { Suspicion } from "../../src/trial/suspicion.js";
import { TrialProcess } from "../../src/trial/trial-process.js";
import { Trials } from "../../src/trial/trials.js";
import { createTestDatabase, deleteRuns, silentLog, type TestDatabase } from "../harness/database.js";
import { newRunId } from "../harness/ids.js";
import { long } from "../harness/long.js";
import { until } from "../harness/until.js";
import { type Half, publish, signal, start, startHalf } from "./rig.js";
import { allSound, look, nothingUnwatched } from "./seen.js";

const EVIL = "brings-its-node-down";
/** A trial process starts three times for a verdict, and a busy machine starts it slowly. */
const VERDICT_MS = 100_000;
const wait = (id: string) => ({ id, type: "wait_for_signal", signal_name: "go" });

let database: TestDatabase;
const opened: { stop(): Promise<void> }[] = [];

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  await publish(database, "waits", [wait("hold")]);
  await publish(database, "waits-for-poison", [wait(EVIL)]);
  await publish(database, EVIL, [{ id: "a", type: "noop" }]);
  await publish(database, "meets-poison", [
    { id: "first", type: "noop", next: EVIL },
    { id: EVIL, type: "noop" },
  ]);
});
beforeEach(async () => {
  await deleteRuns(database.sql);
  await database.sql`delete from suspects`;
});
afterEach(async () => {
  for (const { stop } of opened.splice(0).reverse()) await stop();
  vi.unstubAllEnvs();
});
afterAll(() => database.drop());

/** A node that knows suspects, without polls of its own. */
async function half(judge?: Judge, hints = true): Promise<Half & { suspects: Suspects; died(): Promise<number> }> {
  vi.stubEnv("NODE_OPTIONS", `--import=${join(packageRoot(), "test", "faults", "falls-dead.mjs")}`);
  const process = new TrialProcess({ databaseUrl: database.url, stepsPerCommit: 64 });
  const metrics = createMetrics();
  const trials = new Trials({ sql: database.sql, log: silentLog, metrics, process });
  opened.push({ stop: () => trials.stop() });
  const suspects = new Suspects(database.sql);
  await suspects.refresh();
  const gate = new TrialGate({ suspects, judge: judge ?? trials, log: silentLog });
  const started = await startHalf(database, { trials, gate, hints });
  opened.push(started);
  const died = async () =>
    (await metrics.trials.get()).values.find(({ labels }) => labels.outcome === "died")?.value ?? 0;
  return { ...started, suspects, died };
}

async function waiting(workflow: string, { starter }: Half): Promise<RunId> {
  const runId = await start(starter, workflow);
  await until(async () => (await look(database.sql, runId)).run.paused_reason === "signal");
  return runId;
}

const give = (runId: RunId, { runtime }: Half) => {
  const id = uuidv7();
  return runtime.command(runId, signal(id, "go", { n: 1 }), { id, reach: EVERYTHING });
};

/** Asks as a client does: again after a 503. A machine that is too busy to hold a trial gives no verdict. */
async function insist<T>(ask: () => Promise<T>): Promise<T> {
  const once = async () => {
    const [answer] = await Promise.allSettled([ask()]);
    return !(answer.status === "rejected" && answer.reason.status === 503) && answer;
  };
  const answer = await until(once, { within: VERDICT_MS, what: "a verdict" });
  if (answer.status === "rejected") throw answer.reason;
  return answer.value;
}

describe("a run that a node died of", () => {
  it("is tried with the next command, and quarantined if the command is proven to end the process; the command is kept", async () => {
    const calm = await half();
    const runId = await waiting("waits-for-poison", calm);
    await recordDeath(database.sql, runId);
    // Two trials have died of it already.
    await database.sql`update suspects set trial_deaths = 2 where key = ${runId}`;
    const node = await half();
    expect(await insist(() => give(runId, node))).toMatchObject({ matched: false });
    const { run, events } = await look(database.sql, runId);
    expect(run).toMatchObject({ paused_reason: "quarantine", quarantine: { trials: 3, signal: "SIGKILL" } });
    expect(events.map(({ metadata }) => metadata?.kind).slice(-2)).toEqual(["quarantine", "signal"]);
    await nothingUnwatched(database.sql);
  });

  it("keeps the count of its deaths in trials if the next one is of a row of the poll, and the node is another", async () => {
    const runId = await start((await half(undefined, false)).starter, "meets-poison");
    await recordDeath(database.sql, runId);
    await database.sql`update suspects set trial_deaths = 2`;
    const node = await half(undefined, false);
    const quarantined = async () => {
      await database.sql`update wakes set tries = 3, due_at = now() - interval '1 s'`;
      await node.poller.tick();
      return (await look(database.sql, runId)).run.paused_reason === "quarantine";
    };
    await until(quarantined, { within: VERDICT_MS });
    const { run } = await look(database.sql, runId);
    expect(run).toMatchObject({ paused_reason: "quarantine", quarantine: { trials: 3, signal: "SIGKILL" } });
    expect(await node.died()).toBe(1);
    await nothingUnwatched(database.sql);
  });

  it("is known to a node before the node decides on anything", async () => {
    const runId = newRunId();
    await recordDeath(database.sql, runId);
    const trial = { databaseUrl: database.url, stepsPerCommit: 64 };
    const node = new Suspicion({
      sql: database.sql,
      log: silentLog,
      metrics: createMetrics(),
      process: new TrialProcess(trial),
    });
    opened.push({ stop: () => node.stop() });
    // A heartbeat whose read is under way must not pass for one that has ended.
    node.heartbeat(true);
    await node.start();
    expect([node.gate.isSuspect(runId), node.gate.isSuspect(newRunId())]).toEqual([true, false]);
  });

  it("goes on as if nothing had been if it lives, and is trusted again after enough trials", async () => {
    const judge = { verdictOn: vi.fn(async (): Promise<Verdict> => ({ kind: "lived" })) };
    const node = await half(judge);
    const runId = await waiting("waits", node);
    node.suspects.name(runId);
    for (let nth = 0; nth < 25; nth++) await node.runtime.command(runId, { type: "advance" }, { reach: EVERYTHING });
    expect(judge.verdictOn).toHaveBeenCalledTimes(20);
    node.suspects.name(runId);
    for (let nth = 0; nth < 25; nth++) await node.runtime.command(runId, { type: "advance" }, { reach: EVERYTHING });
    expect(judge.verdictOn, "a second death asks for ten times as many").toHaveBeenCalledTimes(45);
    expect(await give(runId, node)).toMatchObject({ matched: true });
    await allSound(database.sql, [runId]);
  });

  it("is known to every node, for longer with each death, and forgotten after a day at most", async () => {
    const runId = newRunId();
    const minutes = [];
    for (let death = 1; death <= 6; death++) {
      await recordDeath(database.sql, runId);
      const [known] = await listSuspects(database.sql);
      expect(known).toMatchObject({ key: runId, deaths: death });
      minutes.push(Math.round((known?.secondsLeft ?? 0) / 60));
    }
    expect(minutes).toEqual([10, 40, 160, 640, 1440, 1440]);
    const suspects = new Suspects(database.sql);
    await suspects.refresh();
    expect([suspects.has(runId), suspects.has(newRunId())]).toEqual([true, false]);
    await database.sql`update suspects set until = now() - interval '2 days'`;
    await recordDeath(database.sql, newRunId());
    expect((await listSuspects(database.sql)).map(({ key }) => key)).not.toContain(runId);
    expect((await database.sql`select 1 from suspects`).length).toBe(1);
  });

  it("is left alone if even its quarantine would end the process, and the command is refused", async () => {
    const proof = { trials: 3, end: "ended", heap_mb: 1, ms: 1 } as const;
    const node = await half({ verdictOn: async () => ({ kind: "guilty", proof }) });
    const runId = await waiting("waits", node);
    const before = await look(database.sql, runId);
    node.suspects.name(runId);
    await expect(give(runId, node)).rejects.toMatchObject({ status: 422 });
    expect(await look(database.sql, runId)).toEqual(before);
  });

  it("is not decided on without a verdict", async () => {
    const node = await half({ verdictOn: async () => ({ kind: "undecided" }) });
    const runId = await waiting("waits", node);
    node.suspects.name(runId);
    await expect(give(runId, node)).rejects.toMatchObject({ status: 503 });
  });
});

describe("a start that a node died of", () => {
  const keyOf = async (node: Half, workflow: string) => {
    const said: string[] = [];
    const listening = await startHalf(database, { lastWords: { say: (key) => void said.push(key) } });
    opened.push(listening);
    await start(listening.starter, workflow, { inputs: { n: 7 } });
    await node.catalog.refresh();
    return said[0] ?? "";
  };

  it("is refused if it is proven to end the process, and other starts are not", { tags: "long" }, async () => {
    const node = await half();
    node.suspects.name(await keyOf(node, EVIL));
    await recordDeath(database.sql, await keyOf(node, EVIL));
    // In the short form it has died alone before, on nodes that are gone.
    await database.sql`update suspects set trial_deaths = ${long(2, 0)}`;
    await expect(insist(() => start(node.starter, EVIL, { inputs: { n: 7 } }))).rejects.toMatchObject({ status: 422 });
    await start(node.starter, EVIL, { inputs: { n: 8 } });
    await start(node.starter, "waits", { inputs: { n: 7 } });
  });

  it("is not begun without a verdict", { tags: "short" }, async () => {
    const node = await half({ verdictOn: async () => ({ kind: "undecided" }) });
    node.suspects.name(await keyOf(node, "waits"));
    await expect(start(node.starter, "waits", { inputs: { n: 7 } })).rejects.toMatchObject({ status: 503 });
  });

  it("goes on if it lives", { tags: "long" }, async () => {
    const node = await half();
    await recordDeath(database.sql, await keyOf(node, "waits"));
    node.suspects.name(await keyOf(node, "waits"));
    await insist(() => start(node.starter, "waits", { inputs: { n: 7 } }));
  });
});

describe("last words", { tags: "short" }, () => {
  it("are read after the process was killed, and are none when it decided nothing", async () => {
    const file = openNamelessFile();
    const module = pathToFileURL(join(packageRoot(), "dist", "src", "trial", "last-words.js")).href;
    const [first, last] = [uuidv7(), uuidv7()];
    const program = `const { LastWords } = await import(${JSON.stringify(module)});
      const words = new LastWords(4);
      words.say("${first}"); console.log("said");
      process.stdin.once("data", () => { words.say("${first}"); words.say("${last}"); for (;;); });`;
    const node = spawn(process.execPath, ["--input-type=module", "-e", program], {
      stdio: ["pipe", "pipe", "ignore", "ignore", file],
    });
    await once(node.stdout as NodeJS.ReadableStream, "data");
    await until(() => readLastWords(file) === undefined, { what: "the end of its turn" });
    node.stdin?.write("go");
    await until(() => readLastWords(file) === last, { what: "the last words" });
    node.kill("SIGKILL");
    await once(node, "exit");
    expect(readLastWords(file)).toBe(last);
    closeSync(file);
  });

  it("are found by the process that is started in the place of one without a primary, and removed at an end in order", () => {
    const folder = mkdtempSync(join(tmpdir(), "saga-words-"));
    const path = join(folder, "deep", "last-words");
    const first = openWordsFile(path);
    expect(first.before).toBeUndefined();
    const key = uuidv7();
    first.words.say(key);
    const second = openWordsFile(path);
    expect(second.before).toBe(key);
    second.remove();
    expect(() => readFileSync(path)).toThrow("ENOENT");
    rmSync(folder, { recursive: true });
  });

  it("hold while the decision goes on in promises, and no longer", async () => {
    const file = openNamelessFile();
    const words = new LastWords(file);
    const keys = [uuidv7(), uuidv7()];
    for (const key of keys) {
      words.say(key);
      for (let nth = 0; nth < 20; nth++) await Promise.resolve();
      expect(readLastWords(file)).toBe(key);
    }
    await new Promise((resolve) => setImmediate(resolve));
    expect(readLastWords(file)).toBeUndefined();
    closeSync(file);
  });

  it("never make a decision fail", () => {
    const file = openNamelessFile();
    closeSync(file);
    new LastWords(file).say(derivedUuid("x"));
  });
});
