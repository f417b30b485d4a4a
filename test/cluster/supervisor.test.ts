// The supervisor with scripted nodes: some ignore the stop, some never serve, some die at once. Real processes, short times.
import cluster from "node:cluster";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { NodeProcess } from "../../src/cluster/node-process.js";
import { NodeDidNotStart, Supervisor } from "../../src/cluster/supervisor.js";
import { createLogger } from "../../src/log.js";
import { silentLog } from "../harness/database.js";
import { until } from "../harness/until.js";
import { lives } from "./rig.js";

/** The behaviours of the script below. */
type Behaviour = "good" | "deaf" | "silent" | "short" | "stuck" | "broken" | "late";

const SCRIPT = `
  import { existsSync } from "node:fs";
  const behaviour = process.env.BEHAVIOUR;
  const obey = ({ type, key }) => {
    if (type === "stop" && ["good", "short", "late"].includes(behaviour)) process.exit(0);
    if (type === "suspect") process.send({ type: "page.ask", id: Number(key) });
  };
  const serve = () => {
    process.on("message", obey);
    process.send({ type: "ready", nodeId: String(process.pid), http: 1, grpc: 2 });
  };
  if (behaviour === "broken") process.exit(3);
  setInterval(() => {}, 1000);
  const waiting = behaviour === "late" && setInterval(() => {
    if (!existsSync(new URL("released", import.meta.url))) return;
    clearInterval(waiting);
    serve();
  }, 10);
  if (!["late", "silent"].includes(behaviour)) serve();
  if (behaviour === "short") setTimeout(() => process.exit(3), 20);
  if (behaviour !== "silent") setInterval(() => process.send({ type: "pulse" }), 10);
  if (behaviour === "stuck") setTimeout(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0), 50);
`;
/** Far longer than a healthy node takes on a busy machine. A test that waits for one of them to pass gives a shorter one. */
const TIMES = { shortestPause: 10, longestPause: 40, steady: 60_000, start: 30_000, stop: 20_000, silence: 60_000 };

let folder: string;
let supervisor: Supervisor | undefined;
let nodes: NodeProcess[];
let dead: NodeProcess[];
let lines: { msg: string; pause?: number }[];
/** What nodes have said that they were told, by their place among all. */
let told: (readonly [nth: number, key: number])[];

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "saga-supervisor-"));
  const exec = join(folder, "node.mjs");
  writeFileSync(exec, SCRIPT);
  cluster.setupPrimary({ exec, args: [], execArgv: [], silent: true });
});
afterAll(() => rmSync(folder, { recursive: true }));
afterEach(async () => {
  await supervisor?.stop().catch(() => undefined);
  expect(nodes.filter(({ hasEnded }) => !hasEnded)).toEqual([]);
});

/** The nth node has the nth behaviour, and all later ones the last. */
function supervise(count: number, behaviours: readonly Behaviour[], times: Partial<typeof TIMES> = {}): Supervisor {
  nodes = [];
  dead = [];
  lines = [];
  told = [];
  const fork = () => {
    const behaviour = behaviours[Math.min(nodes.length, behaviours.length - 1)] ?? "good";
    const onPageAsk = (from: NodeProcess, key: number) => void told.push([nodes.indexOf(from), key]);
    const hooks = { log: silentLog, onPageAsk, onMetrics: () => {} };
    const node = new NodeProcess({ BEHAVIOUR: behaviour }, hooks);
    nodes.push(node);
    return node;
  };
  const log = createLogger({ logLevel: "info" }, { write: (line) => void lines.push(JSON.parse(line)) });
  supervisor = new Supervisor({ count, fork, onDeath: (node) => dead.push(node), log, times: { ...TIMES, ...times } });
  return supervisor;
}

const logged = (part: string) => lines.filter(({ msg }) => msg.includes(part));

describe("starting", () => {
  it("a node that never serves is killed, and the start fails after the first", async () => {
    await expect(supervise(3, ["silent"], { start: 300 }).start()).rejects.toThrow(NodeDidNotStart);
    expect(nodes).toHaveLength(1);
    expect(dead).toEqual(nodes);
  });

  it("a node that dies during the start is not started a second time", async () => {
    const started = supervise(2, ["silent"]).start();
    nodes[0]?.kill();
    await expect(started).rejects.toThrow(NodeDidNotStart);
    expect(nodes).toHaveLength(1);
  });
});

describe("what all nodes are told", () => {
  it("reaches a node that was starting when it was said, once that serves", async () => {
    const supervisor = supervise(2, ["good", "late"]);
    const started = supervisor.start();
    await until(() => nodes.length === 2);
    supervisor.tell({ type: "suspect", key: "7" });
    await until(() => told.length === 1);
    writeFileSync(join(folder, "released"), "");
    await started;
    supervisor.tell({ type: "suspect", key: "8" });
    await until(() => told.length === 4);
    expect(told.filter(([nth]) => nth === 1)).toEqual([
      [1, 7],
      [1, 8],
    ]);
  });
});

describe("the others, once the first node serves", () => {
  it("may die while they start: the service starts, and they are started again", async () => {
    const supervisor = supervise(3, ["good", "broken", "good"]);
    await supervisor.start();
    await until(() => supervisor.serving.length === 3);
    expect([dead.map(({ pid }) => pid), nodes.length]).toEqual([[nodes[1]?.pid], 4]);
  });

  it("may take the first one with them: it is replaced, and the service starts", { tags: "long" }, async () => {
    const supervisor = supervise(2, ["good", "silent", "good"]);
    const started = supervisor.start();
    await until(() => nodes.length === 2);
    for (const node of nodes) node.kill();
    await started;
    await until(() => supervisor.serving.length === 2);
    expect(nodes).toHaveLength(4);
  });
});

/** The pauses from the first death on, each between half of what is given and all of it. */
function expectPauses(longest: readonly number[]): void {
  const pauses = logged("starting another").map(({ pause }) => Number(pause));
  longest.forEach((most, nth) => {
    expect(pauses[nth]).toBeGreaterThanOrEqual(most / 2);
    expect(pauses[nth]).toBeLessThanOrEqual(most);
  });
}

describe("a node that dies", () => {
  it("is replaced after pauses that double up to the longest", async () => {
    await supervise(1, ["short"]).start();
    await until(() => logged("starting another").length >= 5);
    expectPauses([10, 20, 40, 40, 40]);
    expect(dead.length).toBeGreaterThanOrEqual(5);
  });

  it("is replaced after longer pauses if it never served, however long its start took", { tags: "long" }, async () => {
    await supervise(1, ["short", "broken"], { steady: 1 }).start();
    await until(() => logged("starting another").length >= 4);
    expectPauses([10, 20, 40, 40]);
  });

  it("is replaced after the shortest pause if it had served for long", async () => {
    await supervise(1, ["short"], { steady: 0 }).start();
    await until(() => logged("starting another").length >= 4);
    expectPauses([10, 10, 10, 10]);
  });
});

describe("an unresponsive node", () => {
  it("is killed and replaced; a responsive one is left alone", async () => {
    const supervisor = supervise(2, ["stuck", "good"], { silence: 5_000 });
    await supervisor.start();
    await until(() => supervisor.serving.includes(nodes[2] as NodeProcess));
    expect(dead).toEqual([nodes[0]]);
    expect(logged("unresponsive").length).toBeGreaterThanOrEqual(1);
    expect(supervisor.serving).toEqual([nodes[1], nodes[2]]);
  });
});

describe("replacing", () => {
  it("keeps the old node if no successor becomes ready, and still replaces it when it dies", async () => {
    const successors = Array<Behaviour>(8).fill("broken");
    const supervisor = supervise(1, ["good", ...successors, "good"]);
    await supervisor.start();
    await supervisor.replaceAll();
    expect(logged("successor did not become ready, starting another")).toHaveLength(7);
    expect(logged("successor did not become ready, replacement of nodes ended")).toHaveLength(1);
    expect(nodes).toHaveLength(9);
    expect(supervisor.serving).toEqual([nodes[0]]);
    nodes[0]?.kill();
    await until(() => supervisor.serving.includes(nodes[9] as NodeProcess));
  });

  it("starts another successor after one that failed, while the old node serves", async () => {
    const supervisor = supervise(2, ["good", "good", "broken", "broken", "good"]);
    await supervisor.start();
    await supervisor.replaceAll();
    expect(logged("all nodes replaced")).toHaveLength(1);
    expect(supervisor.serving).toEqual([nodes[4], nodes[5]]);
  });

  it("starts another successor if the old node dies while the first one fails", { tags: "long" }, async () => {
    const supervisor = supervise(1, ["good", "silent", "good"], { start: 5_000 });
    await supervisor.start();
    const replaced = supervisor.replaceAll();
    nodes[0]?.kill();
    await replaced;
    await until(() => supervisor.serving.includes(nodes[2] as NodeProcess));
    expect(nodes).toHaveLength(3);
  });

  it("does one more round, not more, if it is requested again meanwhile", { tags: "long" }, async () => {
    const supervisor = supervise(2, ["good"]);
    await supervisor.start();
    const asked = [supervisor.replaceAll(), supervisor.replaceAll(), supervisor.replaceAll()];
    await Promise.all(asked);
    expect(nodes).toHaveLength(6);
    expect(supervisor.serving).toEqual(nodes.slice(4));
    expect(dead).toEqual([]);
  });
});

describe("stopping", () => {
  it("kills a node that does not stop, and reports it", async () => {
    const supervisor = supervise(2, ["good", "deaf"], { stop: 5_000 });
    await supervisor.start();
    await expect(supervisor.stop()).rejects.toThrow("1 of 2 nodes");
    expect(dead).toEqual([nodes[1]]);
    expect(nodes.map(({ pid = 0 }) => lives(pid))).toEqual([false, false]);
  });

  it("ends a replacement in progress and its successor", { tags: "long" }, async () => {
    const supervisor = supervise(1, ["good", "silent"], { stop: 5_000 });
    await supervisor.start();
    const replaced = supervisor.replaceAll();
    await expect(supervisor.stop()).rejects.toThrow("1 of 2 nodes");
    await replaced;
    expect(nodes).toHaveLength(2);
    expect(dead).toEqual([nodes[1]]);
  });

  it("ends a pause, and nothing is started after it", async () => {
    const supervisor = supervise(1, ["good"], { shortestPause: 60_000, longestPause: 60_000 });
    await supervisor.start();
    nodes[0]?.kill();
    await until(() => logged("starting another").length === 1);
    await supervisor.stop();
    expect(nodes).toHaveLength(1);
  });

  it("is safe to call twice, and before the start", async () => {
    const supervisor = supervise(1, ["good"]);
    await Promise.all([supervisor.stop(), supervisor.stop()]);
    expect(nodes).toEqual([]);
  });
});
