// The load shedder: the shortages at which a node refuses work, how it recovers, and which work it refuses last.
import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../machines/index.js";
import { EVERYTHING, plainReach } from "../../src/access/index.js";
import { SagaError } from "../../src/errors.js";
import { createMetrics } from "../../src/metrics/index.js";
import { runProtocol } from "../../src/run/node-messages.js";
import { Router } from "../../src/run/router.js";
import type { Runtime } from "../../src/run/runtime.js";
import { LoadShedder } from "../../src/work/load-shedder.js";
import { silentLog } from "../harness/database.js";
import { ACTS } from "../machines/acts.js";

const RUN_ID = "0190a000-0000-7000-8000-0000000000aa";

function node(limits = {}) {
  const state = { runs: 0, heap: 0, loopMs: 0 };
  const metrics = createMetrics();
  const shedder = new LoadShedder({
    limits: { runs: 100, loopMs: 500, heapPercent: 80, bodyBytes: 1_000, ...limits },
    busyRuns: () => state.runs,
    pressure: () => state,
    ...{ metrics, log: silentLog },
  });
  return { state, shedder, metrics };
}

const refusal = (work: () => unknown) => {
  try {
    work();
  } catch (error) {
    expect(error).toBeInstanceOf(SagaError);
    return (error as SagaError).status;
  }
  return undefined;
};

describe("new work is refused", () => {
  it.each([
    ["runs", { runs: 99 }, { runs: 100 }, { runs: 51 }, { runs: 49 }],
    ["event_loop", { loopMs: 499 }, { loopMs: 500 }, { loopMs: 251 }, { loopMs: 249 }],
    ["heap", { heap: 0.79 }, { heap: 0.8 }, { heap: 0.71 }, { heap: 0.69 }],
  ] as const)(
    "when %s is short, until it is well below its limit again",
    async (shortage, fine, short, still, well) => {
      const { state, shedder, metrics } = node();
      for (const [now, refused] of [
        [fine, undefined],
        [short, 503],
        [fine, 503],
        [still, 503],
        [well, undefined],
        [still, undefined],
        [fine, undefined],
      ] as const) {
        Object.assign(state, now);
        expect([now, refusal(() => shedder.admit("new"))]).toEqual([now, refused]);
        expect((await metrics.overloaded.get()).values[0]?.value).toBe(refused ? 1 : 0);
      }
      const shed = (await metrics.loadShed.get()).values.filter(({ value }) => value > 0);
      expect(shed.map(({ labels, value }) => [labels.shortage, value])).toEqual([[shortage, 3]]);
    },
  );

  it("when too many requests are open, and accepted again as they are answered", () => {
    const { shedder } = node();
    const places = Array.from({ length: 101 }, () => shedder.admit("new"));
    const [late, ...open] = places;
    for (const place of open) for (let nth = 0; nth < 3; nth++) place.begin();
    expect(refusal(() => late?.begin())).toBe(503);
    expect(refusal(() => shedder.admit("new"))).toBe(503);
    for (const place of open.slice(0, 49)) for (let nth = 0; nth < 3; nth++) place.release();
    expect(refusal(() => shedder.admit("new"))).toBe(503);
    for (const place of open.slice(49, 51)) place.release();
    expect(refusal(() => shedder.admit("new"))).toBeUndefined();
    expect(refusal(() => late?.begin())).toBeUndefined();
  });

  it("when what has arrived of bodies is too large together, but never for one body alone", () => {
    const { shedder } = node();
    const [large, small] = [shedder.admit("new"), shedder.admit("new")];
    small.receive(10);
    for (let nth = 0; nth < 5; nth++) large.receive(1_000);
    expect(refusal(() => shedder.admit("new"))).toBe(503);
    expect(refusal(() => small.receive(1))).toBe(503);
    small.release();
    expect(refusal(() => large.receive(1_000))).toBeUndefined();
    large.release();
    expect(refusal(() => shedder.admit("new").receive(999))).toBeUndefined();
  });

  it("but no number of half-received bodies keeps a worker's answer out: its bytes have room of their own", () => {
    const { shedder } = node();
    for (let nth = 0; nth < 1_000; nth++) shedder.admit("new");
    const large = shedder.admit("new");
    large.receive(5_000);
    const answer = shedder.admit("answer");
    expect(refusal(() => answer.receive(900))).toBeUndefined();
    expect(refusal(() => answer.begin())).toBeUndefined();
    const [second, third] = [shedder.admit("answer"), shedder.admit("answer")];
    expect(refusal(() => second.receive(100))).toBeUndefined();
    expect(refusal(() => third.receive(1))).toBe(503);
    expect(refusal(() => shedder.admit("answer"))).toBe(503);
    answer.release();
    expect(refusal(() => shedder.admit("answer"))).toBeUndefined();
  });

  it("while one shortage follows another", () => {
    const { state, shedder } = node();
    Object.assign(state, { runs: 100 });
    expect(shedder.shedding).toBe("runs");
    Object.assign(state, { runs: 0, heap: 0.75 });
    expect(shedder.shedding).toBe("runs");
    Object.assign(state, { heap: 0.9 });
    expect(shedder.shedding).toBe("heap");
    Object.assign(state, { heap: 0.1 });
    expect(shedder.shedding).toBeUndefined();
  });
});

describe("reports of workers", () => {
  it("are accepted where new work is refused, and refused at four times the limit or when memory is short", () => {
    const { state, shedder } = node();
    Object.assign(state, { runs: 399, loopMs: 5_000 });
    expect(refusal(() => shedder.admit("new"))).toBe(503);
    expect(refusal(() => shedder.admit("answer"))).toBeUndefined();
    Object.assign(state, { runs: 400 });
    expect(refusal(() => shedder.admit("answer"))).toBe(503);
    Object.assign(state, { runs: 0, loopMs: 0, heap: 0.9 });
    expect(refusal(() => shedder.admit("answer"))).toBe(503);
  });
});

describe("a node that gets commands from other nodes", () => {
  const asked = async (type: string, runs: number) => {
    const { state, shedder } = node();
    Object.assign(state, { runs });
    let carriedOut = 0;
    const runtime = { command: async () => ({ type: "advanced", nth: ++carriedOut }) } as unknown as Runtime;
    const bus = { ask: async () => undefined, advance: () => {} };
    const placement = { owner: () => "here", others: [] };
    const catalog = { refresh: async () => {} };
    const refreshMembership = async () => {};
    const router = new Router({ nodeId: "here", runtime, placement, refreshMembership, bus, shedder, catalog });
    const request = runProtocol.ask({
      kind: "command",
      run_id: RUN_ID,
      command: { type },
      reach: { ...plainReach(EVERYTHING) },
    });
    const reply = (await router.answer(request!)) as JsonObject;
    return {
      carriedOut,
      status: (reply?.error as JsonObject | undefined)?.status,
      code: (reply?.error as JsonObject)?.code,
    };
  };

  it.each(["signal", "cancel", "release", ...Object.keys(ACTS)])(
    "refuses a %s before its run is loaded",
    async (type) => {
      expect(await asked(type, 100)).toEqual({ carriedOut: 0, status: 503, code: "overloaded" });
      expect(await asked(type, 99)).toMatchObject({ carriedOut: 1, status: undefined });
    },
  );

  it.each(["result", "failure", "offer", "advance"])("accepts a %s, which completes work", async (type) => {
    expect(await asked(type, 100)).toMatchObject({ carriedOut: 1, status: undefined });
  });
});
