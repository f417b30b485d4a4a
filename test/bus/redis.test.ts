// The bus over a real Redis, and its behaviour when Redis is unreachable, disconnects or falls silent.
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { JsonObject } from "../../machines/index.js";
import { createRedisBus } from "../../src/bus/redis.js";
import { uuidv7 } from "../../src/ids.js";
import { newRunId, shardSet } from "../harness/ids.js";
import { describeWithRedis } from "../harness/services.js";
import { TcpGate } from "../harness/tcp-gate.js";
import { until } from "../harness/until.js";
import { advanceReaches, anyBody, busConformance, type Handlers, type Node, openNode } from "./conformance.js";
import { logLines } from "./log-lines.js";

describeWithRedis("bus over Redis", (url) => {
  let admin: Redis;
  const closing: (() => Promise<unknown>)[] = [];
  beforeAll(() => {
    admin = new Redis(url);
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });
  afterAll(() => admin.quit());

  const randomPrefix = () => `test-${uuidv7()}:`;

  busConformance("the bus over Redis", async () => {
    const prefix = randomPrefix();
    return {
      open: (nodeId, handlers) =>
        createRedisBus({ url, prefix, nodeId, protocol: anyBody, handlers, log: logLines().log }),
      close: async () => undefined,
      stranger: {
        send: async (nodeId, text) => void (await admin.publish(`${prefix}saga:node:${nodeId}`, text)),
        advance: async (shard, text) => void (await admin.publish(`${prefix}saga:advance:${shard}`, text)),
      },
    };
  });

  async function open(
    prefix: string,
    at = url,
  ): Promise<Node & { readonly lines: ReturnType<typeof logLines>["lines"] }> {
    const { log, lines } = logLines();
    const id = uuidv7();
    const bench = {
      open: (nodeId: string, handlers: Handlers) =>
        createRedisBus({ url: at, prefix, nodeId, protocol: anyBody, handlers, log }),
    };
    const node = await openNode(bench, id);
    closing.push(() => node.bus.stop());
    return { ...node, lines };
  }

  async function connectionsOf(nodeId: string): Promise<string[]> {
    const all = String(await admin.client("LIST")).split("\n");
    return all
      .filter((line) => line.includes(` name=saga-bus:${nodeId} `))
      .map((line) => /id=(\d+)/.exec(line)?.[1] ?? "");
  }

  const answered = (from: Node, to: Node, request: JsonObject) =>
    until(() => from.bus.ask(to.id, request, 1_000), { what: "an answer", within: 30_000 });

  const states = (node: { readonly lines: { level: string; msg: string }[] }) =>
    node.lines.filter(({ msg }) => msg.includes("Redis")).map(({ level }) => level);

  it("uses the public channels", async () => {
    const prefix = randomPrefix();
    const heard: [string, string][] = [];
    const listener = new Redis(url);
    closing.push(() => listener.quit());
    await listener.psubscribe(`${prefix}*`);
    listener.on("pmessage", (_pattern, channel: string, text: string) => heard.push([channel, text]));
    const a = await open(prefix);
    const runId = newRunId(11);
    a.bus.advance(runId);
    a.bus.tell("b", { n: 1 });
    await until(() => heard.length === 2);
    expect(heard).toEqual([
      [`${prefix}saga:advance:11`, JSON.stringify({ run_id: runId })],
      [`${prefix}saga:node:b`, JSON.stringify({ kind: "tell", from: a.id, body: { n: 1 } })],
    ]);
  });

  it("a bus with another prefix is separate", async () => {
    const [a, b] = [await open(randomPrefix()), await open(randomPrefix())];
    expect(await a.bus.ask(b.id, {}, 60_000)).toBeUndefined();
  });

  it("reconnects and subscribes again when its connections are killed, with two log lines each time", async () => {
    const prefix = randomPrefix();
    const [a, b] = [await open(prefix), await open(prefix)];
    b.bus.listen(shardSet(1, 2));
    await advanceReaches(a.bus, [b], 1);
    const killed = await connectionsOf(b.id);
    expect(killed).toHaveLength(2);
    const kill = async () => {
      for (const id of await connectionsOf(b.id)) await admin.client("KILL", "ID", id);
    };
    await kill();
    await answered(b, b, { after: "a kill" });
    await advanceReaches(a.bus, [b], 1);
    await until(() => states(b).length === 3);
    await kill();
    // The wanted shards change while Redis is unreachable.
    b.bus.listen(shardSet(2, 3));
    await answered(b, b, { after: "the kill" });
    await answered(a, b, { after: "the kill" });
    await advanceReaches(a.bus, [b], 3);
    const [former, kept] = [newRunId(1), newRunId(2)];
    a.bus.advance(former);
    a.bus.advance(kept);
    await until(() => b.advanced.includes(kept));
    expect(b.advanced).not.toContain(former);
    expect((await connectionsOf(b.id)).filter((id) => killed.includes(id))).toEqual([]);
    expect(states(b)).toEqual(["info", "warn", "info", "warn", "info"]);
  });

  it("starts without Redis, drops messages meanwhile, and connects when Redis is there", async () => {
    const gate = new TcpGate(new URL(url));
    await gate.open();
    await gate.shut();
    const prefix = randomPrefix();
    const [a, b] = [await open(prefix, gate.url), await open(prefix)];
    b.bus.listen(shardSet(1));
    a.bus.listen(shardSet(1));
    const before = performance.now();
    a.bus.tell(b.id, { dropped: true });
    a.bus.advance(newRunId(1));
    expect(await a.bus.ask(b.id, { dropped: true }, 60_000)).toBeUndefined();
    expect(performance.now() - before).toBeLessThan(30_000);
    await until(() => states(a).length === 1);
    await gate.open();
    closing.push(() => gate.shut());
    await answered(a, b, { now: "there" });
    await answered(b, a, { now: "there" });
    await advanceReaches(b.bus, [a], 1);
    expect(b.told).toEqual([]);
    expect(b.asked).not.toContainEqual({ dropped: true });
    expect(states(a)).toEqual(["warn", "info"]);
  });

  it("asks in progress when Redis disconnects end at their timeout, or at the stop", async () => {
    const gate = new TcpGate(new URL(url));
    await gate.open();
    const prefix = randomPrefix();
    const [a, b] = [await open(prefix, gate.url), await open(prefix)];
    const asking = a.bus.ask(b.id, { do: "hang" }, 300);
    const stopped = a.bus.ask(b.id, { do: "hang" }, 60_000);
    await until(() => b.asked.length === 2);
    await gate.shut();
    expect(await asking).toBeUndefined();
    await a.bus.stop();
    expect(await stopped).toBeUndefined();
  });

  it("notices that Redis has fallen silent, and replaces the connection", async () => {
    const gate = new TcpGate(new URL(url));
    await gate.open();
    closing.push(() => gate.shut());
    const prefix = randomPrefix();
    const [a, b] = [await open(prefix, gate.url), await open(prefix)];
    await answered(a, b, {});
    gate.fallSilent();
    expect(await a.bus.ask(b.id, { never: "heard" }, 100)).toBeUndefined();
    gate.speak();
    await answered(a, b, { again: true });
    await answered(b, a, { again: true });
    expect(b.asked).not.toContainEqual({ never: "heard" });
    expect(gate.accepted).toBeGreaterThanOrEqual(4);
  });

  it("a Redis that accepts connections and never replies delays neither the start nor the stop", async () => {
    const gate = new TcpGate(new URL(url));
    await gate.open();
    closing.push(() => gate.shut());
    gate.fallSilent();
    const a = await open(randomPrefix(), gate.url);
    const before = performance.now();
    await a.bus.stop();
    expect(performance.now() - before).toBeLessThan(30_000);
  });

  it("stop sends the earlier messages, and leaves no connection", async () => {
    const prefix = randomPrefix();
    const [a, b] = [await open(prefix), await open(prefix)];
    a.bus.tell(b.id, { last: "words" });
    await a.bus.stop();
    await until(() => b.told.length === 1);
    expect(await connectionsOf(a.id)).toEqual([]);
  });

  describe("stop without Redis", () => {
    it("returns, and there is no further attempt to connect", async () => {
      const gate = new TcpGate(new URL(url));
      await gate.open();
      await gate.shut();
      const [a, b] = [await open(randomPrefix(), gate.url), await open(randomPrefix(), gate.url)];
      await a.bus.stop();
      await a.bus.stop();
      await gate.open();
      closing.push(() => gate.shut());
      // The attempts of the other bus show that the time for an attempt has passed.
      await answered(b, b, {});
      expect(await connectionsOf(a.id)).toEqual([]);
      expect(gate.accepted).toBe(2);
    });
  });
});
