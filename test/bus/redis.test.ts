// The bus over a real Redis, and its behaviour when Redis is unreachable, disconnects or falls silent.
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { JsonObject } from "../../machines/index.js";
import { MAX_MESSAGE_BYTES } from "../../src/bus/bus.js";
import type { DropReason } from "../../src/bus/drop-counter.js";
import { parsedObject } from "../../src/bus/envelope.js";
import { createRedisBus } from "../../src/bus/redis.js";
import { Seal } from "../../src/bus/seal.js";
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

  const SEAL = { secrets: ["a key of thirty-two characters at least"], now: () => Date.now() };

  const randomPrefix = () => `test-${uuidv7()}:`;

  busConformance("the bus over Redis", async () => {
    const prefix = randomPrefix();
    return {
      open: (nodeId, handlers) =>
        createRedisBus({ url, prefix, nodeId, seal: SEAL, protocol: anyBody, handlers, log: logLines().log }),
      close: async () => undefined,
      // It has the key: what stops at the seal has tests of its own.
      stranger: {
        send: async (nodeId, text) => {
          const channel = `${prefix}saga:node:${nodeId}`;
          await admin.publish(channel, JSON.stringify(new Seal(SEAL).encrypt(channel, text)));
        },
        advance: async (shard, text) => {
          const channel = `${prefix}saga:advance:${shard}`;
          const runId = parsedObject(text)?.run_id ?? text;
          await admin.publish(
            channel,
            JSON.stringify({ run_id: runId, ...new Seal(SEAL).sign(channel, String(runId)) }),
          );
        },
      },
    };
  });

  async function open(
    prefix: string,
    at = url,
  ): Promise<Node & { readonly lines: ReturnType<typeof logLines>["lines"]; readonly dropped: DropReason[] }> {
    const { log, lines } = logLines();
    const dropped: DropReason[] = [];
    const id = uuidv7();
    const bench = {
      open: (nodeId: string, handlers: Handlers) =>
        createRedisBus({
          ...{ url: at, prefix, nodeId, seal: SEAL, protocol: anyBody, handlers, log },
          onDropped: (reason) => dropped.push(reason),
        }),
    };
    const node = await openNode(bench, id);
    closing.push(() => node.bus.stop());
    return { ...node, lines, dropped };
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

  /** Everything that is published under the prefix from now on. */
  async function listen(prefix: string): Promise<[string, string][]> {
    const heard: [string, string][] = [];
    const listener = new Redis(url);
    closing.push(() => listener.quit());
    await listener.psubscribe(`${prefix}*`);
    listener.on("pmessage", (_pattern, channel: string, text: string) => heard.push([channel, text]));
    return heard;
  }

  it("uses the public channels; an advance names its run, and nothing of any other message can be read", async () => {
    const prefix = randomPrefix();
    const heard = await listen(prefix);
    const a = await open(prefix);
    const runId = newRunId(11);
    a.bus.advance(runId);
    a.bus.tell("b", { iban: "DE02120300000000202051" });
    await until(() => heard.length === 2);
    const [[first, advance], [second, tell]] = heard as [[string, string], [string, string]];
    expect([first, second]).toEqual([`${prefix}saga:advance:11`, `${prefix}saga:node:b`]);
    expect(JSON.parse(advance)).toEqual({ run_id: runId, by: expect.any(String), mac: expect.any(String) });
    expect(JSON.parse(tell)).toEqual({ by: expect.any(String), mac: expect.any(String), body: expect.any(String) });
    expect(tell).not.toMatch(/iban|DE02|tell|kind/);
    expect(tell).not.toContain(a.id);
  });

  it("what is forged, repeated, truncated, or sent to another channel does nothing and is counted", async () => {
    const prefix = randomPrefix();
    const heard = await listen(prefix);
    const [a, b, c] = [await open(prefix), await open(prefix), await open(prefix)];
    for (const node of [b, c]) node.bus.listen(shardSet(5, 6));
    await advanceReaches(a.bus, [b, c], 5);
    a.bus.tell(b.id, { n: 1 });
    await until(() => b.told.length === 1);
    await until(() => heard.some(([channel]) => channel.endsWith(b.id)));
    const [node, advance] = [`${prefix}saga:node:${b.id}`, `${prefix}saga:advance:5`];
    const told = heard.find(([channel]) => channel === node)?.[1] ?? "";
    const advanced = heard.find(([channel]) => channel === advance)?.[1] ?? "";
    const [before, runs] = [b.dropped.length, b.advanced.length];
    const runId = newRunId(5);
    const strange = new Seal({ ...SEAL, secrets: ["another key of thirty-two characters"] });
    const forged: [string, string][] = [
      [node, JSON.stringify({ kind: "tell", from: a.id, body: { n: 2 } })],
      [node, JSON.stringify(strange.encrypt(node, JSON.stringify({ kind: "tell", from: a.id, body: { n: 3 } })))],
      [node, told],
      [node, told.slice(0, -20)],
      [node, "{}"],
      [node, "\u0000"],
      [node, advanced],
      [node, "x".repeat(2 * MAX_MESSAGE_BYTES)],
      [advance, JSON.stringify({ run_id: runId })],
      [advance, JSON.stringify({ run_id: runId, ...strange.sign(advance, runId) })],
      [advance, advanced],
      [advance, JSON.stringify({ ...JSON.parse(advanced), run_id: runId })],
      [`${prefix}saga:advance:6`, advanced],
    ];
    for (const [channel, text] of forged) await admin.publish(channel, text);
    await until(() => b.dropped.length >= before + forged.length);
    expect(b.dropped.slice(before)).toEqual(forged.map(() => "unauthentic"));
    // To another node than the one that it was made for.
    await admin.publish(`${prefix}saga:node:${c.id}`, told);
    await until(() => c.dropped.length >= 6);
    expect([b.told, c.told, b.advanced.length]).toEqual([[{ message: { n: 1 }, from: a.id }], [], runs]);
    await answered(a, b, { still: "there" });
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
