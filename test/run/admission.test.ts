// Admission: the shortages at which a node refuses work, how it recovers, and which work it refuses last.
import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../machines/index.js";
import { SagaError } from "../../src/errors.js";
import { createMetrics } from "../../src/metrics.js";
import { Admission } from "../../src/run/admission.js";
import { runProtocol } from "../../src/run/node-messages.js";
import { Router } from "../../src/run/router.js";
import type { Runtime } from "../../src/run/runtime.js";
import { silentLog } from "../harness/database.js";

const RUN_ID = "0190a000-0000-7000-8000-0000000000aa";

function node(limits = {}) {
  const state = { runs: 0, heap: 0, loopMs: 0 };
  const metrics = createMetrics();
  const admission = new Admission({
    limits: { runs: 100, loopMs: 500, heapPercent: 80, bodyBytes: 1_000, ...limits },
    busyRuns: () => state.runs,
    pressure: () => state,
    ...{ metrics, log: silentLog },
  });
  return { state, admission, metrics };
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
      const { state, admission, metrics } = node();
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
        expect([now, refusal(() => admission.admit("new"))]).toEqual([now, refused]);
        expect((await metrics.overloaded.get()).values[0]?.value).toBe(refused ? 1 : 0);
      }
      const shed = (await metrics.loadShed.get()).values;
      expect(shed.map(({ labels, value }) => [labels.shortage, value])).toEqual([[shortage, 3]]);
    },
  );

  it("when too many requests are open, and accepted again as they are answered", () => {
    const { admission } = node();
    const places = Array.from({ length: 100 }, () => admission.admit("new"));
    expect(refusal(() => admission.admit("new"))).toBe(503);
    for (const giveBack of places.slice(0, 49)) for (let nth = 0; nth < 3; nth++) giveBack();
    expect(refusal(() => admission.admit("new"))).toBe(503);
    for (const giveBack of places.slice(49, 51)) giveBack();
    expect(refusal(() => admission.admit("new"))).toBeUndefined();
  });

  it("when the bodies of open requests are too large together, but never for one body alone", () => {
    const { admission } = node();
    const giveBack = admission.admit("new", 5_000);
    expect(refusal(() => admission.admit("new", 1))).toBe(503);
    expect(refusal(() => admission.admit("answer", 1))).toBe(503);
    giveBack();
    expect(refusal(() => admission.admit("new", 999))).toBeUndefined();
  });

  it("while one shortage follows another", () => {
    const { state, admission } = node();
    Object.assign(state, { runs: 100 });
    expect(admission.shedding).toBe("runs");
    Object.assign(state, { runs: 0, heap: 0.75 });
    expect(admission.shedding).toBe("runs");
    Object.assign(state, { heap: 0.9 });
    expect(admission.shedding).toBe("heap");
    Object.assign(state, { heap: 0.1 });
    expect(admission.shedding).toBeUndefined();
  });
});

describe("reports of workers", () => {
  it("are accepted where new work is refused, and refused at four times the limit or when memory is short", () => {
    const { state, admission } = node();
    Object.assign(state, { runs: 399, loopMs: 5_000 });
    expect(refusal(() => admission.admit("new"))).toBe(503);
    expect(refusal(() => admission.admit("answer"))).toBeUndefined();
    Object.assign(state, { runs: 400 });
    expect(refusal(() => admission.admit("answer"))).toBe(503);
    Object.assign(state, { runs: 0, loopMs: 0, heap: 0.9 });
    expect(refusal(() => admission.admit("answer"))).toBe(503);
  });
});

describe("a node that gets commands from other nodes", () => {
  const asked = async (type: string, runs: number) => {
    const { state, admission } = node();
    Object.assign(state, { runs });
    let carriedOut = 0;
    const runtime = { command: async () => ({ type: "advanced", nth: ++carriedOut }) } as unknown as Runtime;
    const bus = { ask: async () => undefined, tell: () => {}, advance: () => {} };
    const placement = { owner: () => "here", others: [] };
    const catalog = { refresh: async () => {} };
    const refreshMembership = async () => {};
    const router = new Router({ nodeId: "here", runtime, placement, refreshMembership, bus, admission, catalog });
    const request = runProtocol.ask({ kind: "command", run_id: RUN_ID, command: { type } });
    const reply = (await router.answer(request!)) as JsonObject;
    return {
      carriedOut,
      status: (reply?.error as JsonObject | undefined)?.status,
      code: (reply?.error as JsonObject)?.code,
    };
  };

  it.each(["signal", "cancel", "release"])("refuses a %s before its run is loaded", async (type) => {
    expect(await asked(type, 100)).toEqual({ carriedOut: 0, status: 503, code: "overloaded" });
    expect(await asked(type, 99)).toMatchObject({ carriedOut: 1, status: undefined });
  });

  it.each(["result", "failure", "offer", "advance"])("accepts a %s, which completes work", async (type) => {
    expect(await asked(type, 100)).toMatchObject({ carriedOut: 1, status: undefined });
  });
});
