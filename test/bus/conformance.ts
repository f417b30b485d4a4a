// The promises of every bus, whatever carries it. The test file of each implementation runs them with a bench of its own.
import { afterEach, describe, expect, it } from "vitest";
import { asRunId, type JsonObject } from "../../machines/index.js";
import { type Bus, type BusHandlers, MAX_ASKS, MAX_MESSAGE_BYTES } from "../../src/bus/bus.js";
import type { Protocol } from "../../src/bus/protocol.js";
import { uuidv7 } from "../../src/ids.js";
import { newRunId, shardSet } from "../harness/ids.js";
import { until } from "../harness/until.js";

export type Handlers = BusHandlers<JsonObject, JsonObject>;

/** Decodes every body but one. */
export const anyBody: Protocol<JsonObject, JsonObject> = {
  ask: (body) => (body.kind === "unknown kind" ? undefined : body),
  tell: (body) => (body.kind === "unknown kind" ? undefined : body),
};

export interface Bench {
  /** A bus that the others reach when this resolves. */
  open(nodeId: string, handlers: Handlers): Promise<Bus>;
  close(): Promise<void>;
  /** Sends past every check of a sender. Absent: no stranger can reach the nodes. */
  readonly stranger?: {
    /** Delivers a text to a node as if a peer had sent it. */
    send(nodeId: string, text: string): Promise<void>;
    /** The same as an advance message of a shard. */
    advance(shard: number, text: string): Promise<void>;
  };
}

export interface Node {
  readonly id: string;
  readonly bus: Bus;
  readonly advanced: string[];
  readonly told: { readonly message: JsonObject; readonly from: string }[];
  /** The asks that arrived, answered or not. */
  readonly asked: JsonObject[];
}

/** A node that answers with an echo, unless the request's `do` says otherwise. */
export async function openNode(bench: Pick<Bench, "open">, id: string): Promise<Node> {
  const advanced: string[] = [];
  const told: { message: JsonObject; from: string }[] = [];
  const asked: JsonObject[] = [];
  const bus = await bench.open(id, {
    onAdvance(runId) {
      advanced.push(runId);
      if (advanced.length === 1) throw new Error("the first advance fails its handler");
    },
    async onAsk(request, from): Promise<JsonObject | undefined> {
      asked.push(request);
      if (request.do === "throw") throw new Error("no answer to this");
      if (request.do === "nothing") return undefined;
      if (request.do === "hang") return new Promise<never>(() => {});
      if (request.do === "grow") return { big: "x".repeat(MAX_MESSAGE_BYTES) };
      return { echo: request, from, by: id };
    },
    onTell(message, from) {
      told.push({ message, from });
      if (message.do === "throw") throw new Error("this tell fails its handler");
    },
  });
  return { id, bus, advanced, told, asked };
}

/** Advances runs of `shard` until one reaches all listeners: the way is open, and earlier messages have passed. */
export async function advanceReaches(from: Bus, hearers: readonly Node[], shard: number): Promise<void> {
  const sent: string[] = [];
  await until(
    () => {
      const runId = newRunId(shard);
      sent.push(runId);
      from.advance(runId);
      return hearers.every(({ advanced }) => sent.some((id) => advanced.includes(id)));
    },
    { what: `an advance of shard ${shard}` },
  );
}

const LONG = 20_000;
const SHORT = 60;

/** `kind`: which bus it is, for the names of the tests. */
export function busConformance(kind: string, bench: () => Promise<Bench>, { alone = false } = {}): void {
  describe(`${kind}, as every bus`, () => {
    const closing: (() => Promise<unknown>)[] = [];
    afterEach(async () => {
      for (const close of closing.splice(0).reverse()) await close();
    });

    async function open(count: number): Promise<{ stranger: Bench["stranger"]; nodes: [Node, Node, Node] }> {
      const made = await bench();
      closing.push(() => made.close());
      const nodes: Node[] = [];
      for (let i = 0; i < count; i++) {
        const node = await openNode(made, `node-${i}-${uuidv7()}`);
        closing.push(() => node.bus.stop());
        nodes.push(node);
      }
      // A single process sends to itself.
      const [a, b = a, c = a] = nodes;
      return { stranger: made.stranger, nodes: [a, b, c] as [Node, Node, Node] };
    }
    const pair = () => open(alone ? 1 : 2);

    it("an advance reaches the node that listens to its shard, also after a handler threw", async () => {
      const { nodes } = await pair();
      const [a, b] = nodes;
      b.bus.listen(shardSet(7, 8));
      await advanceReaches(a.bus, [b], 7);
      await advanceReaches(a.bus, [b], 8);
      await advanceReaches(a.bus, [b], 7);
    });

    it("an advance reaches no other node", async () => {
      const { nodes } = await open(alone ? 1 : 3);
      const [a, b, c] = nodes;
      b.bus.listen(shardSet(7, 9));
      if (!alone) c.bus.listen(shardSet(8, 9));
      await advanceReaches(a.bus, alone ? [b] : [b, c], 9);
      await advanceReaches(a.bus, [b], 7);
      const foreign = newRunId(8);
      a.bus.advance(foreign);
      await advanceReaches(a.bus, alone ? [b] : [b, c], 9);
      expect(b.advanced).not.toContain(foreign);
      if (!alone) {
        expect(c.advanced).toContain(foreign);
        expect(c.advanced.filter((id) => id.endsWith("07"))).toEqual([]);
        expect(a.advanced).toEqual([]);
      }
    });

    it("listen replaces the former shards", async () => {
      const { nodes } = await pair();
      const [a, b] = nodes;
      b.bus.listen(shardSet(1, 2));
      await advanceReaches(a.bus, [b], 1);
      b.bus.listen(shardSet(2, 3));
      await advanceReaches(a.bus, [b], 3);
      const former = newRunId(1);
      a.bus.advance(former);
      await advanceReaches(a.bus, [b], 2);
      expect(b.advanced).not.toContain(former);
    });

    it("an ask is answered by the node that was asked, which gets the id of the asker", async () => {
      const { nodes } = await pair();
      const [a, b] = nodes;
      const request = { n: 1, text: "ü€😀", deep: { list: [1, null, true] } };
      expect(await a.bus.ask(b.id, request, LONG)).toEqual({ echo: request, from: a.id, by: b.id });
    });

    it("a node can ask itself", async () => {
      const { nodes } = await pair();
      const [a] = nodes;
      expect(await a.bus.ask(a.id, {}, LONG)).toEqual({ echo: {}, from: a.id, by: a.id });
    });

    it("an ask without an answer ends in undefined after its timeout", async () => {
      const { nodes } = await pair();
      const [a, b] = nodes;
      for (const what of ["hang", "nothing", "throw", "grow"]) {
        const before = performance.now();
        expect(await a.bus.ask(b.id, { do: what }, SHORT)).toBeUndefined();
        // A timer may fire a millisecond early.
        expect(performance.now() - before).toBeGreaterThanOrEqual(SHORT - 2);
      }
      await until(() => b.asked.length === 4);
      expect(await a.bus.ask(b.id, { still: "there" }, LONG)).toMatchObject({ by: b.id });
    });

    it("an ask of a node that is not there ends in undefined at once", async () => {
      const { nodes } = await pair();
      const before = performance.now();
      expect(await nodes[0].bus.ask("nobody", {}, LONG)).toBeUndefined();
      expect(performance.now() - before).toBeLessThan(LONG / 2);
    });

    it("a tell reaches its node, also after a handler threw", async () => {
      const { nodes } = await pair();
      const [a, b] = nodes;
      a.bus.tell(b.id, { do: "throw" });
      a.bus.tell("nobody", { lost: true });
      a.bus.tell(b.id, { second: true });
      await until(() => b.told.length === 2);
      expect(b.told[1]).toEqual({ message: { second: true }, from: a.id });
    });

    it("a message that is too large is dropped by its sender, and the largest allowed one passes", async () => {
      const { nodes } = await pair();
      const [a, b] = nodes;
      const tooLarge = { big: "x".repeat(MAX_MESSAGE_BYTES) };
      // Few characters, many bytes.
      const wide = { big: "€".repeat(MAX_MESSAGE_BYTES / 2) };
      const large = { big: "x".repeat(MAX_MESSAGE_BYTES - 400) };
      for (const message of [tooLarge, wide, large]) a.bus.tell(b.id, message);
      expect(await a.bus.ask(b.id, tooLarge, LONG)).toBeUndefined();
      await until(() => b.told.length > 0);
      expect(b.told).toEqual([{ message: large, from: a.id }]);
      expect(b.asked).toEqual([]);
    });

    it("a message that cannot be JSON is dropped, and its sender continues", async () => {
      const { nodes } = await pair();
      const [a, b] = nodes;
      const cycle: Record<string, unknown> = {};
      cycle.self = cycle;
      a.bus.tell(b.id, cycle as JsonObject);
      expect(await a.bus.ask(b.id, cycle as JsonObject, LONG)).toBeUndefined();
      a.bus.advance(asRunId("no uuid"));
      expect(await a.bus.ask(b.id, {}, LONG)).toMatchObject({ by: b.id });
    });

    it("hundreds of simultaneous asks each get their own answer", async () => {
      const { nodes } = await pair();
      const [a, b] = nodes;
      const both = [a, b].flatMap((from, side) =>
        Array.from({ length: 300 }, async (_, n) => {
          const to = side === 0 ? b : a;
          const answer = await from.bus.ask(to.id, { n, side }, LONG);
          return (
            answer?.by === to.id && (answer.echo as JsonObject).n === n && (answer.echo as JsonObject).side === side
          );
        }),
      );
      expect((await Promise.all(both)).every(Boolean)).toBe(true);
    });

    it("waiting asks are bounded, and stop ends all of them", async () => {
      const { nodes } = await pair();
      const [a, b] = nodes;
      let settled = 0;
      const waiting = Array.from({ length: MAX_ASKS }, async () => {
        expect(await a.bus.ask(b.id, { do: "hang" }, LONG)).toBeUndefined();
        settled++;
      });
      expect(await a.bus.ask(b.id, { one: "more" }, LONG)).toBeUndefined();
      await until(() => b.asked.length > 0);
      expect(b.asked).not.toContainEqual({ one: "more" });
      expect(settled).toBe(0);
      await a.bus.stop();
      await Promise.all(waiting);
      expect(settled).toBe(MAX_ASKS);
    });

    it("a stopped bus is silent, and stop may be repeated", async () => {
      const { stranger, nodes } = await pair();
      const [a, b] = nodes;
      b.bus.listen(shardSet(4));
      await advanceReaches(a.bus, [b], 4);
      const before = b.advanced.length;
      await Promise.all([b.bus.stop(), b.bus.stop()]);
      await b.bus.stop();
      b.bus.listen(shardSet(4));
      b.bus.tell(b.id, {});
      b.bus.advance(newRunId(4));
      expect(await b.bus.ask(b.id, {}, LONG)).toBeUndefined();
      if (!alone) {
        a.bus.advance(newRunId(4));
        expect(await a.bus.ask(b.id, {}, LONG)).toBeUndefined();
        // It was sent the same way after the advance, so the advance has passed, too.
        expect(await a.bus.ask(a.id, {}, LONG)).toMatchObject({ by: a.id });
      }
      await stranger?.send(b.id, JSON.stringify({ kind: "tell", from: "x", body: {} }));
      expect([b.advanced.length, b.asked.length, b.told.length]).toEqual([before, 0, 0]);
    });

    // No stranger reaches a single process.
    if (alone) return;

    it("garbage is dropped", async () => {
      const { stranger, nodes } = await pair();
      if (!stranger) throw new Error("this bench lets no stranger in");
      const [a, b] = nodes;
      b.bus.listen(shardSet(5));
      await advanceReaches(a.bus, [b], 5);
      const before = b.advanced.length;
      const garbage = [
        "",
        "{",
        "null",
        "[]",
        "7",
        '"text"',
        "{}",
        JSON.stringify({ kind: "tell", from: 1, body: {} }),
        JSON.stringify({ kind: "tell", from: "x", body: [] }),
        JSON.stringify({ kind: "tell", from: "x" }),
        JSON.stringify({ kind: "ask", from: "x", body: {} }),
        JSON.stringify({ kind: "shout", id: "1", from: "x", body: {} }),
        JSON.stringify({ kind: "answer", id: "1", from: "x", body: {} }),
        JSON.stringify({ kind: "tell", from: "x", body: { big: "x".repeat(MAX_MESSAGE_BYTES) } }),
      ];
      for (const text of garbage) await stranger.send(b.id, text);
      const misplaced = JSON.stringify({ run_id: newRunId(6) });
      for (const text of [...garbage, misplaced, '{"run_id":7}', '{"run_id":"05"}']) await stranger.advance(5, text);
      await stranger.send(b.id, JSON.stringify({ kind: "tell", from: "x", body: { last: true } }));
      await until(() => b.told.length > 0);
      await stranger.advance(5, JSON.stringify({ run_id: newRunId(5) }));
      await until(() => b.advanced.length > before);
      expect(b.told).toEqual([{ message: { last: true }, from: "x" }]);
      expect(b.asked).toEqual([]);
      expect(b.advanced.every((id) => id.endsWith("05"))).toBe(true);
    });
  });
}
