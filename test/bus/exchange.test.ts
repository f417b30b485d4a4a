// Envelopes and correlation without a medium: which messages count as an answer, the bounds, and the log.
import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../machines/index.js";
import { MAX_ANSWERING, MAX_UNSENT_MESSAGES, MAX_UNSENT_SIZE } from "../../src/bus/bus.js";
import { Exchange } from "../../src/bus/exchange.js";
import { InFlightLimit } from "../../src/bus/in-flight-limit.js";
import { anyBody, type Handlers } from "./conformance.js";
import { logLines } from "./log-lines.js";

const SILENT: Handlers = { onAdvance: () => {}, onAsk: async () => undefined, onTell: () => {} };

function exchange(handlers: Partial<Handlers> = {}) {
  const sent: { to: string; text: string }[] = [];
  const { log, lines } = logLines();
  const made = new Exchange({
    nodeId: "a",
    protocol: anyBody,
    handlers: { ...SILENT, ...handlers },
    log,
    send: (to, text) => void sent.push({ to, text }),
  });
  const lastId = () => (JSON.parse(sent.at(-1)?.text ?? "{}") as { id: string }).id;
  const answer = (id: string, from: string, body: JsonObject) =>
    made.receive(JSON.stringify({ kind: "answer", id, from, body }));
  return { exchange: made, sent, lines, lastId, answer };
}

describe("exchange", () => {
  it("accepts the first answer, and only from the node that was asked", async () => {
    const { exchange: a, lastId, answer } = exchange();
    const asking = a.ask("b", {}, 20_000);
    answer(lastId(), "c", { forged: true });
    answer("x.1", "b", { of: "another ask" });
    answer(lastId(), "b", { right: true });
    answer(lastId(), "b", { doubled: true });
    expect(await asking).toEqual({ right: true });
  });

  it("drops an answer that is too late, and gives it to no other ask", async () => {
    const { exchange: a, lastId, answer } = exchange();
    expect(await a.ask("b", {}, 1)).toBeUndefined();
    const late = lastId();
    const second = a.ask("b", {}, 20_000);
    answer(late, "b", { late: true });
    answer(lastId(), "b", { second: true });
    expect(await second).toEqual({ second: true });
  });

  it("two exchanges with one node id never share an ask id", async () => {
    const [former, present] = [exchange(), exchange()];
    void former.exchange.ask("b", {}, 20_000);
    const asking = present.exchange.ask("b", {}, 20_000);
    present.answer(former.lastId(), "b", { stale: true });
    former.exchange.stop();
    present.exchange.stop();
    expect(await asking).toBeUndefined();
  });

  it("answers a bounded number of asks at once, and the next one when one is done", async () => {
    let handled = 0;
    let finish = () => {};
    const { exchange: a, sent } = exchange({
      onAsk: () => {
        handled++;
        return new Promise((resolve) => {
          finish = () => resolve({});
        });
      },
    });
    const ask = (n: number) => a.receive(JSON.stringify({ kind: "ask", id: `b.${n}`, from: "b", body: {} }));
    for (let n = 0; n <= MAX_ANSWERING; n++) ask(n);
    expect(handled).toBe(MAX_ANSWERING);
    finish();
    await expect.poll(() => sent.length).toBe(1);
    ask(MAX_ANSWERING + 1);
    expect(handled).toBe(MAX_ANSWERING + 1);
  });

  it("logs a flood of garbage in a few lines, without its content", () => {
    const { exchange: a, lines } = exchange();
    for (let n = 0; n < 1_000; n++) a.receive("secret garbage");
    expect(lines.length).toBe(10);
    expect(lines.at(-1)).toMatchObject({ level: "debug", reason: "malformed", count: 512 });
    expect(JSON.stringify(lines)).not.toContain("secret");
  });

  it("drops and counts a message that no decoder knows, and calls no handler with it", () => {
    const received: JsonObject[] = [];
    const {
      exchange: a,
      lines,
      sent,
    } = exchange({
      onAsk: async (request) => void received.push(request) as undefined,
      onTell: (message) => void received.push(message),
    });
    const body = { kind: "unknown kind" };
    a.receive(JSON.stringify({ kind: "tell", from: "b", body }));
    a.receive(JSON.stringify({ kind: "ask", id: "b.1", from: "b", body }));
    expect(lines).toMatchObject([1, 2].map((count) => ({ level: "debug", reason: "unknown", count })));
    expect([received, sent]).toEqual([[], []]);
  });

  it.each([
    [
      "throws",
      () => {
        throw new Error("broken");
      },
    ],
    ["rejects, although it should return nothing", () => Promise.reject(new Error("broken"))],
  ])("logs a warning for a handler that %s", async (_how, onTell: () => unknown) => {
    const { exchange: a, lines } = exchange({ onTell: () => onTell() as undefined });
    a.receive(JSON.stringify({ kind: "tell", from: "b", body: {} }));
    await expect.poll(() => lines).toMatchObject([{ level: "warn", handler: "onTell" }]);
  });
});

describe("the limit of what is in flight", () => {
  it("is full by messages or by size, and open again after their release", () => {
    const inFlight = new InFlightLimit();
    for (let n = 0; n < MAX_UNSENT_MESSAGES; n++) expect(inFlight.reserve(1)).toBe(true);
    expect(inFlight.reserve(1)).toBe(false);
    inFlight.release(1);
    expect(inFlight.reserve(MAX_UNSENT_SIZE)).toBe(false);
    expect(inFlight.reserve(1)).toBe(true);
  });
});
