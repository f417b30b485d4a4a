// The bus over IPC: with both ends of every channel in this process, and once with processes that node:cluster forks.
// @module-tag both
import cluster, { type Worker } from "node:cluster";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { JsonObject } from "../../machines/index.js";
import { MAX_UNSENT_MESSAGES } from "../../src/bus/bus.js";
import { type Channel, createProcessChannel, type IpcPeer } from "../../src/bus/channel.js";
import { IpcBus } from "../../src/bus/ipc.js";
import { IpcRelay } from "../../src/bus/ipc-relay.js";
import { newRunId } from "../harness/ids.js";
import { until } from "../harness/until.js";
import { anyBody, type Bench, busConformance, openNode } from "./conformance.js";
import type { Order, Report } from "./forked-node.js";
import { logLines } from "./log-lines.js";

/** The two ends of a channel: each receives what the other sends, a turn later and copied. */
function channelEnds(): readonly [Channel, Channel] {
  const hearers = [new Set<(message: unknown) => void>(), new Set<(message: unknown) => void>()] as const;
  const end = (mine: (typeof hearers)[0], others: (typeof hearers)[0]): Channel => ({
    send: (message) => void setImmediate(() => others.forEach((hear) => void hear(structuredClone(message)))),
    onMessage: (hear) => {
      mine.add(hear);
      return () => void mine.delete(hear);
    },
  });
  return [end(hearers[0], hearers[1]), end(hearers[1], hearers[0])];
}

/** Sends past the types. */
const raw = (end: Channel, message: unknown) => (end.send as (message: unknown) => void)(message);

function ipcBench(
  relay: IpcRelay = new IpcRelay(),
): Bench & { detach(nodeId: string): void; relayEnd(nodeId: string): Channel } {
  const attached = new Map<string, { readonly detach: () => void; readonly relayEnd: Channel }>();
  const [strangersEnd, strangerAtRelay] = channelEnds();
  relay.attach(strangerAtRelay);
  const entry = (nodeId: string) => {
    const found = attached.get(nodeId);
    if (!found) throw new Error(`${nodeId} is not attached`);
    return found;
  };
  return {
    async open(nodeId, handlers) {
      const [nodeEnd, relayEnd] = channelEnds();
      attached.set(nodeId, { detach: relay.attach(relayEnd), relayEnd });
      const bus = new IpcBus({ nodeId, protocol: anyBody, handlers, log: logLines().log, channel: nodeEnd });
      await until(() => bus.ask(nodeId, {}, 1_000).then((answer) => answer !== undefined || undefined));
      return bus;
    },
    stranger: {
      send: async (to, text) => raw(strangersEnd, { saga_bus: "node", to, text }),
      advance: async (_shard, text) => {
        const runId = text.startsWith('{"run_id"') ? (JSON.parse(text) as JsonObject).run_id : text;
        for (const { relayEnd } of attached.values()) raw(relayEnd, { saga_bus: "advance", run_id: runId });
        raw(strangersEnd, { saga_bus: "advance", run_id: 7 });
      },
    },
    async close() {},
    detach: (nodeId) => entry(nodeId).detach(),
    relayEnd: (nodeId) => entry(nodeId).relayEnd,
  };
}

busConformance("the bus between nodes of a primary", async () => {
  const bench = ipcBench();
  // Asks while the bus is opened are not asks of the tests.
  return {
    ...bench,
    open: (nodeId, handlers) => {
      let opened = false;
      return bench
        .open(nodeId, { ...handlers, onAsk: async (...ask) => (opened ? handlers.onAsk(...ask) : {}) })
        .finally(() => {
          opened = true;
        });
    },
  };
});

describe("relay", () => {
  it("learns of a node that started before it, and forgets one that is detached", async () => {
    const [nodeEnd, relayEnd] = channelEnds();
    const { bus } = await openNode(
      {
        open: async (nodeId, handlers) =>
          new IpcBus({ nodeId, protocol: anyBody, handlers, log: logLines().log, channel: nodeEnd }),
      },
      "early",
    );
    // Its first introduction reached no relay; it has passed when this ask has.
    await new Promise(setImmediate);
    const relay = new IpcRelay();
    const other = ipcBench(relay);
    const detach = relay.attach(relayEnd);
    const asker = await openNode(other, "asker");
    await until(() => asker.bus.ask("early", {}, 1_000));
    detach();
    expect(await asker.bus.ask("early", {}, 60_000)).toBeUndefined();
    await Promise.all([bus.stop(), asker.bus.stop()]);
  });

  it("gives a node id to the last node that took it, and keeps it there when the former one leaves", async () => {
    const bench = ipcBench();
    const asker = await openNode(bench, "asker");
    const former = await openNode(bench, "twin");
    const detachFormer = bench.detach.bind(undefined, "twin");
    const formerEntry = bench.relayEnd("twin");
    const present = await openNode(bench, "twin");
    expect(bench.relayEnd("twin")).not.toBe(formerEntry);
    await former.bus.stop();
    expect(await asker.bus.ask("twin", { n: 1 }, 60_000)).toMatchObject({ echo: { n: 1 } });
    expect(present.asked).toContainEqual({ n: 1 });
    detachFormer();
    expect(await asker.bus.ask("twin", { n: 2 }, 60_000)).toBeUndefined();
    await Promise.all([asker.bus.stop(), present.bus.stop()]);
  });

  it("neither end is disturbed by other messages on the channel, or by malformed frames", async () => {
    const bench = ipcBench();
    const a = await openNode(bench, "a");
    const broken = [null, 7, "text", [], {}, { cmd: "x" }, { saga_bus: "x" }, { saga_bus: 1 }, { saga_bus: "here" }];
    const worse = [
      { saga_bus: "here", node_id: "a", shards: ["1"] },
      { saga_bus: "here", node_id: "a", shards: Array.from({ length: 257 }, () => 1) },
      { saga_bus: "node", to: "a" },
      { saga_bus: "node", to: "b", text: "{}" },
      { saga_bus: "unheard" },
    ];
    const [own, atRelay] = channelEnds();
    const relay = new IpcRelay();
    relay.attach(atRelay);
    for (const message of [...broken, ...worse]) {
      raw(bench.relayEnd("a"), message);
      raw(own, message);
    }
    expect(await a.bus.ask("a", { n: 1 }, 60_000)).toMatchObject({ echo: { n: 1 } });
    await a.bus.stop();
  });
});

describe("process channel", () => {
  it("drops frames while its peer does not read, and sends again when it reads", () => {
    const unread: (() => void)[] = [];
    const peer: IpcPeer = {
      connected: true,
      on: () => undefined,
      off: () => undefined,
      send: (_message, _handle, _options, sent) => unread.push(() => sent(null)) > 0,
    };
    const channel = createProcessChannel(peer);
    for (let n = 0; n < MAX_UNSENT_MESSAGES + 100; n++) channel.send({ saga_bus: "advance", run_id: newRunId() });
    expect(unread).toHaveLength(MAX_UNSENT_MESSAGES);
    unread[0]?.();
    channel.send({ saga_bus: "who" });
    expect(unread).toHaveLength(MAX_UNSENT_MESSAGES + 1);
  });

  it("drops frames without throwing when it is closed", () => {
    const peer = { connected: false, on: () => undefined, off: () => undefined, send: () => expect.unreachable() };
    createProcessChannel(peer).send({ saga_bus: "who" });
  });
});

interface Forked {
  readonly worker: Worker;
  readonly reports: Report[];
  carryOut(order: Omit<Order, "order">): Promise<JsonObject | undefined>;
}

describe("processes forked by node:cluster", { tags: "long" }, () => {
  const exec = resolve(import.meta.dirname, "../../dist/test/bus/forked-node.js");
  const workers: Worker[] = [];
  afterEach(async () => {
    for (const worker of workers.splice(0)) worker.process.kill("SIGKILL");
    await until(() => Object.keys(cluster.workers ?? {}).length === 0, { what: "the end of the forked nodes" });
  });

  async function fork(relay: IpcRelay, nodeId: string): Promise<Forked> {
    expect(existsSync(exec), "run `npm run build` first").toBe(true);
    // All of them: what another file of this process has set, as files that it has closed since, stays otherwise.
    cluster.setupPrimary({ exec, args: [nodeId], execArgv: [], stdio: ["ignore", "ignore", "ignore", "ipc"] });
    const worker = cluster.fork();
    workers.push(worker);
    const detach = relay.attach(createProcessChannel(worker.process));
    worker.on("exit", detach);
    const reports: Report[] = [];
    worker.on("message", (message: Report) => "saga_bus" in message || reports.push(message));
    let last = 0;
    const done = (order: number) => reports.find((report) => "done" in report && report.done === order);
    await until(() => done(0));
    return {
      worker,
      reports,
      async carryOut(order) {
        const number = ++last;
        worker.send({ ...order, order: number });
        const report = await until(() => done(number));
        return "answer" in report ? report.answer : undefined;
      },
    };
  }

  it("ask, tell and advance each other; a killed one is known to be gone; others may use the channel", async () => {
    const relay = new IpcRelay();
    const a = await fork(relay, "a");
    const b = await fork(relay, "b");
    const c = await fork(relay, "c");
    const askB = { ask: { to: "b", request: { n: 1 }, withinMs: 30_000 } };
    expect(await a.carryOut(askB)).toEqual({ echo: { n: 1 }, from: "a", by: "b" });

    await b.carryOut({ listen: [3] });
    await c.carryOut({ listen: [4] });
    const [three, four] = [newRunId(3), newRunId(4)];
    await a.carryOut({ advance: three });
    await a.carryOut({ advance: four });
    await until(() => c.reports.some((report) => "advanced" in report && report.advanced === four));
    await until(() => b.reports.some((report) => "advanced" in report && report.advanced === three));
    expect(c.reports).not.toContainEqual({ advanced: three });

    await a.carryOut({ tell: { to: "c", message: { told: "to c" } } });
    await until(() => c.reports.some((report) => "told" in report));

    b.worker.process.kill("SIGKILL");
    await until(() => b.worker.isDead());
    expect(await a.carryOut({ ask: { ...askB.ask, withinMs: 60_000 } })).toBeUndefined();
    await c.carryOut({ stop: true });
    // A stopped bus does not keep its process alive.
    await until(() => c.worker.isDead());
    expect(c.worker.process.exitCode).toBe(0);
  });
});
