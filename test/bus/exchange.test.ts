// Envelopes and correlation without a medium: what is taken for an answer, and what the bounds and the log do.
import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../machines/index.js";
import { type BusHandlers, MAX_ANSWERING, MAX_UNSENT_MESSAGES, MAX_UNSENT_SIZE } from "../../src/bus/bus.js";
import { Exchange } from "../../src/bus/exchange.js";
import { Window } from "../../src/bus/window.js";
import { logLines } from "./log-lines.js";

const SILENT: BusHandlers = { onAdvance: () => {}, onAsk: async () => undefined, onTell: () => {} };

function exchange(handlers: Partial<BusHandlers> = {}) {
  const sent: { to: string; text: string }[] = [];
  const { log, lines } = logLines();
  const made = new Exchange({
    nodeId: "a",
    handlers: { ...SILENT, ...handlers },
    log,
    send: (to, text) => void sent.push({ to, text }),
  });
  const lastId = () => (JSON.parse(sent.at(-1)?.text ?? "{}") as { id: string }).id;
  const answer = (id: string, from: string, body: JsonObject) =>
    made.heard(JSON.stringify({ kind: "answer", id, from, body }));
  return { exchange: made, sent, lines, lastId, answer };
}

describe("exchange", () => {
  it("takes an answer from the node that was asked alone, and the first only", async () => {
    const { exchange: a, lastId, answer } = exchange();
    const asking = a.ask("b", {}, 20_000);
    answer(lastId(), "c", { forged: true });
    answer("x.1", "b", { of: "another ask" });
    answer(lastId(), "b", { right: true });
    answer(lastId(), "b", { doubled: true });
    expect(await asking).toEqual({ right: true });
  });

  it("does not take an answer that comes too late, and no other ask gets it", async () => {
    const { exchange: a, lastId, answer } = exchange();
    expect(await a.ask("b", {}, 1)).toBeUndefined();
    const late = lastId();
    const second = a.ask("b", {}, 20_000);
    answer(late, "b", { late: true });
    answer(lastId(), "b", { second: true });
    expect(await second).toEqual({ second: true });
  });

  it("two exchanges of one name never share an id", async () => {
    const [former, present] = [exchange(), exchange()];
    void former.exchange.ask("b", {}, 20_000);
    const asking = present.exchange.ask("b", {}, 20_000);
    present.answer(former.lastId(), "b", { stale: true });
    former.exchange.stop();
    present.exchange.stop();
    expect(await asking).toBeUndefined();
  });

  it("answers no more at once than its bound, and goes on when one is done", async () => {
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
    const ask = (n: number) => a.heard(JSON.stringify({ kind: "ask", id: `b.${n}`, from: "b", body: {} }));
    for (let n = 0; n <= MAX_ANSWERING; n++) ask(n);
    expect(handled).toBe(MAX_ANSWERING);
    finish();
    await expect.poll(() => sent.length).toBe(1);
    ask(MAX_ANSWERING + 1);
    expect(handled).toBe(MAX_ANSWERING + 1);
  });

  it("a flood of garbage costs a few lines, and none shows it", () => {
    const { exchange: a, lines } = exchange();
    for (let n = 0; n < 1_000; n++) a.heard("secret garbage");
    expect(lines.length).toBe(10);
    expect(lines.at(-1)).toMatchObject({ level: "debug", reason: "malformed", count: 512 });
    expect(JSON.stringify(lines)).not.toContain("secret");
  });

  it.each([
    [
      "throws",
      () => {
        throw new Error("broken");
      },
    ],
    ["rejects, though it should return nothing,", () => Promise.reject(new Error("broken"))],
  ])("a handler that %s is said as a warning", async (_how, onTell: () => unknown) => {
    const { exchange: a, lines } = exchange({ onTell: () => onTell() as undefined });
    a.heard(JSON.stringify({ kind: "tell", from: "b", body: {} }));
    await expect.poll(() => lines).toMatchObject([{ level: "warn", handler: "onTell" }]);
  });
});

describe("window", () => {
  it("is full by messages or by size, and open again when they are given back", () => {
    const window = new Window();
    for (let n = 0; n < MAX_UNSENT_MESSAGES; n++) expect(window.take(1)).toBe(true);
    expect(window.take(1)).toBe(false);
    window.giveBack(1);
    expect(window.take(MAX_UNSENT_SIZE)).toBe(false);
    expect(window.take(1)).toBe(true);
  });
});
