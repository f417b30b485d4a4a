// Requests share the event loop: large answers are encoded in parts, and many requests that compute take turns.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { encodeParts } from "../../src/api/http/turns.js";
import { FairScheduler } from "../../src/work/fair-scheduler.js";
import { NOW, useRig } from "./rig.js";

let now = NOW;

/** The scheduler of a busy loop: each turn comes a second after it was asked for. */
class LateTurns extends FairScheduler {
  override compute<T>(party: string, piece: () => T): Promise<T> {
    now += 1_000;
    return super.compute(party, piece);
  }
}

const scheduler = new LateTurns();
const rig = useRig({ deps: { scheduler, now: () => now } });

const PART = 64 * 1024;

describe("an answer in parts", () => {
  it("is what JSON.stringify writes", () => {
    const text = fc.oneof(fc.string(), fc.constantFrom("x".repeat(PART), "é".repeat(PART / 2), "__proto__"));
    const value = fc.letrec((tie) => ({
      value: fc.oneof(
        ...[text, fc.double(), fc.boolean(), fc.constantFrom(null, undefined, new Date(0))],
        fc.array(tie("value"), { maxLength: 4 }),
        fc.dictionary(text, tie("value"), { maxKeys: 4 }),
      ),
    })).value;
    fc.assert(
      fc.property(fc.array(value, { maxLength: 4 }), (answer) => {
        expect([...encodeParts(answer)].join("")).toBe(JSON.stringify(answer));
      }),
    );
  });

  it.each([
    ["a page", { items: Array.from({ length: 500 }, (_, nth) => ({ nth, text: "x".repeat(1_000) })), total: 500 }],
    ["a long list", Array.from({ length: 200_000 }, (_, nth) => nth)],
    ["many members", Object.fromEntries(Array.from({ length: 20_000 }, (_, nth) => [`name${nth}`, { nth }]))],
    ["a value far inside", { run: { variables: { a: { b: { c: Array(5).fill("x".repeat(PART - 100)) } } } } }],
  ])("has no part that is much larger than a small answer: %s", (_, answer) => {
    const parts = [...encodeParts(answer)];
    expect(parts.join("")).toBe(JSON.stringify(answer));
    expect(parts.length).toBeGreaterThan(3);
    expect(Math.max(...parts.map(({ length }) => length))).toBeLessThan(2 * PART);
  });
});

describe("requests", () => {
  it("are handled after a turn of the loop, once a slice was computed", async () => {
    await rig.app.ready();
    const asked = rig.call("POST", "/api/v1/sagas/start", { workflow_id: "orders" });
    const order: string[] = [];
    void scheduler.compute("a run", () => {
      const until = performance.now() + 25;
      while (performance.now() < until);
    });
    const piece = scheduler.compute("another run", () => order.push("another run"));
    void asked.then(() => order.push("the request"));
    expect([(await asked).status, await piece]).toEqual([202, 1]);
    expect(order).toEqual(["another run", "the request"]);
  });

  it.each([["result", { result: {} }] as const, ["heartbeat", {}] as const])(
    "a %s arrived before the turns that it waits for",
    async (what, body) => {
      const began = now;
      const dispatch = "attempt=1&dispatch_id=0190a000-0000-8000-8000-0000000000aa";
      const url = `/api/v1/sagas/0190a000-0000-7000-8000-0000000000aa/actions/charge/${what}?${dispatch}`;
      expect((await rig.call("POST", url, body)).status).toBe(202);
      expect(now).toBeGreaterThan(began);
      expect(rig.asked.at(-1)?.command).toMatchObject({ arrivedAt: began });
    },
  );
});
