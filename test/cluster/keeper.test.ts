// The keeper with children that misbehave by script: deaf ones, ones that never serve, ones that die at once. Real processes,
// short times.
import cluster from "node:cluster";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { Child } from "../../src/cluster/child.js";
import { Keeper, NodeDidNotStart } from "../../src/cluster/keeper.js";
import { createLogger } from "../../src/log.js";
import { silentLog } from "../harness/database.js";
import { until } from "../harness/until.js";
import { lives } from "./rig.js";

/** What a child does; the script below knows these. */
type Manner = "good" | "deaf" | "silent" | "short" | "stuck";

const SCRIPT = `
  const manner = process.env.MANNER;
  process.on("message", ({ type }) => type === "stop" && ["good", "short"].includes(manner) && process.exit(0));
  setInterval(() => {}, 1000);
  if (manner !== "silent") process.send({ type: "ready", nodeId: String(process.pid), http: 1, grpc: 2 });
  if (manner === "short") setTimeout(() => process.exit(3), 20);
  if (manner !== "silent") setInterval(() => process.send({ type: "pulse" }), 10);
  if (manner === "stuck") setTimeout(() => { for (;;); }, 50);
`;
const TIMES = { shortestPause: 10, longestPause: 40, steady: 60_000, start: 2_000, stop: 500, silence: 60_000 };

let folder: string;
let keeper: Keeper | undefined;
let children: Child[];
let dead: Child[];
let lines: { msg: string; pause?: number }[];

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "saga-keeper-"));
  const exec = join(folder, "child.mjs");
  writeFileSync(exec, SCRIPT);
  cluster.setupPrimary({ exec, args: [], execArgv: [], silent: true });
});
afterAll(() => rmSync(folder, { recursive: true }));
afterEach(async () => {
  await keeper?.stop().catch(() => undefined);
  expect(children.filter(({ isOver }) => !isOver)).toEqual([]);
});

/** The nth child has the nth manner, and all others the last. */
function keep(count: number, manners: readonly Manner[], times: Partial<typeof TIMES> = {}): Keeper {
  children = [];
  dead = [];
  lines = [];
  const fork = () => {
    const manner = manners[Math.min(children.length, manners.length - 1)] ?? "good";
    const hooks = { log: silentLog, onPageAsk: () => {}, onMetrics: () => {} };
    const child = new Child({ MANNER: manner }, hooks);
    children.push(child);
    return child;
  };
  const log = createLogger({ logLevel: "info" }, { write: (line) => void lines.push(JSON.parse(line)) });
  keeper = new Keeper({ count, fork, onDeath: (child) => dead.push(child), log, times: { ...TIMES, ...times } });
  return keeper;
}

const said = (part: string) => lines.filter(({ msg }) => msg.includes(part));

describe("starting", () => {
  it("a node that never serves is killed, and the start fails after the first", async () => {
    await expect(keep(3, ["silent"], { start: 300 }).start()).rejects.toThrow(NodeDidNotStart);
    expect(children).toHaveLength(1);
    expect(dead).toEqual(children);
  });

  it("one that dies of its start is told only once, too", async () => {
    const started = keep(2, ["silent"]).start();
    children[0]?.kill();
    await expect(started).rejects.toThrow(NodeDidNotStart);
    expect(children).toHaveLength(1);
  });
});

describe("dying", () => {
  it("pauses double up to the longest", async () => {
    await keep(1, ["short"]).start();
    await until(() => said("starting another").length >= 5);
    expect(
      said("starting another")
        .slice(0, 5)
        .map(({ pause }) => pause),
    ).toEqual([10, 20, 40, 40, 40]);
    expect(dead.length).toBeGreaterThanOrEqual(5);
  });

  it("pauses begin again after a node that lived for long", async () => {
    await keep(1, ["short"], { steady: 1 }).start();
    await until(() => said("starting another").length >= 4);
    expect(new Set(said("starting another").map(({ pause }) => pause))).toEqual(new Set([10]));
  });
});

describe("standing still", () => {
  it("a node whose event loop turns no more is killed and has a successor; one that turns is left alone", async () => {
    const kept = keep(2, ["stuck", "good"], { silence: 2_000 });
    await kept.start();
    await until(() => kept.serving.includes(children[2] as Child));
    expect(dead).toEqual([children[0]]);
    expect(said("stands still").length).toBeGreaterThanOrEqual(1);
    expect(kept.serving).toEqual([children[1], children[2]]);
  });
});

describe("replacing", () => {
  it("keeps the old node where no successor serves, and goes on watching it", async () => {
    const kept = keep(1, ["good", "silent", "good"], { start: 300 });
    await kept.start();
    await kept.replaceAll();
    expect(said("no successor became ready")).toHaveLength(1);
    expect(kept.serving).toEqual([children[0]]);
    children[0]?.kill();
    await until(() => kept.serving.includes(children[2] as Child));
  });

  it("an old node that dies while its successor fails has another", async () => {
    const kept = keep(1, ["good", "silent", "good"], { start: 500 });
    await kept.start();
    const replaced = kept.replaceAll();
    children[0]?.kill();
    await replaced;
    await until(() => kept.serving.includes(children[2] as Child));
    expect(children).toHaveLength(3);
  });

  it("asked again while it is under way it does one more round, not more", async () => {
    const kept = keep(2, ["good"]);
    await kept.start();
    const asked = [kept.replaceAll(), kept.replaceAll(), kept.replaceAll()];
    await Promise.all(asked);
    expect(children).toHaveLength(6);
    expect(kept.serving).toEqual(children.slice(4));
    expect(dead).toEqual([]);
  });
});

describe("stopping", () => {
  it("a deaf node is killed, and the stop was not orderly", async () => {
    const kept = keep(2, ["good", "deaf"]);
    await kept.start();
    await expect(kept.stop()).rejects.toThrow("1 of 2 nodes");
    expect(dead).toEqual([children[1]]);
    expect(children.map(({ pid = 0 }) => lives(pid))).toEqual([false, false]);
  });

  it("ends a replacement that is under way, successor and all", async () => {
    const kept = keep(1, ["good", "silent"]);
    await kept.start();
    const replaced = kept.replaceAll();
    await expect(kept.stop()).rejects.toThrow("1 of 2 nodes");
    await replaced;
    expect(children).toHaveLength(2);
    expect(dead).toEqual([children[1]]);
  });

  it("ends a pause: nothing is started after it", async () => {
    const kept = keep(1, ["good"], { shortestPause: 60_000, longestPause: 60_000 });
    await kept.start();
    children[0]?.kill();
    await until(() => said("starting another").length === 1);
    await kept.stop();
    expect(children).toHaveLength(1);
  });

  it("is safe twice, and before the start", async () => {
    const kept = keep(1, ["good"]);
    await Promise.all([kept.stop(), kept.stop()]);
    expect(children).toEqual([]);
  });
});
