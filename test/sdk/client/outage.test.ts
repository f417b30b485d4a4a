// The client while its service is killed, frozen and started again: what was started is started once, a signal is taken once, and a watch has each event
// once and in order. The service is the built one, in processes of its own.
// @module-tag long
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { SagaClient, type SocketClass } from "../../../src/sdk/client/index.js";
import { createTestDatabase, type TestDatabase } from "../../harness/database.js";
import { createService, type ServiceProcess } from "../../harness/service.js";
import { until } from "../../harness/until.js";

const SIGNALS = 9;
const STARTS = 40;
const KILLS = 2;
const RETRY = { maxElapsedMs: 120_000, initialBackoffMs: 50, maxBackoffMs: 500 };
/** A service takes some seconds to start on a busy machine. */
const WITHIN = { within: 60_000 };

describe("while the service is away, the client", () => {
  let database: TestDatabase;
  let service: ServiceProcess;
  let saga: SagaClient;
  beforeAll(async () => {
    database = await createTestDatabase({ max: 2 });
    service = await createService({ DATABASE_URL: database.url, SAGA_WORKERS: "1", LOG_LEVEL: "warn" });
    await service.start();
    saga = clientOf(false);
    const waits = Array.from({ length: SIGNALS }, (_, n) => ({
      ...{ id: `w${n}`, type: "wait_for_signal", signal_name: "go" },
      ...(n + 1 < SIGNALS && { next: `w${n + 1}` }),
    }));
    await saga.workflows.publish({ id: "long", name: "long", start: "w0", steps: waits });
    const end = { id: "end", type: "end", output: "${inputs}" };
    await saga.workflows.publish({ id: "echo", name: "echo", start: "end", steps: [end] });
  });
  afterEach(async () => {
    await service.kill();
    await service.start();
  });
  afterAll(async () => {
    await service?.kill();
    await database?.drop();
  });
  const clientOf = (webSocket: SocketClass | false) => new SagaClient({ url: service.url, webSocket, retry: RETRY });

  it("loses and doubles no event of a watch, by either way, and no signal", async () => {
    const run = await saga.start("long");
    const watched = [clientOf(WebSocket as unknown as SocketClass), saga].map(async (client) => {
      const seqs: number[] = [];
      for await (const { seq } of client.run(run.id).watch()) seqs.push(seq);
      return seqs;
    });
    const killed = (async () => {
      for (let kill = 1; kill <= KILLS; kill++) {
        const goal = (SIGNALS / (KILLS + 1)) * kill;
        await until(() => sent >= goal, { ...WITHIN, what: `signal ${goal}` });
        await service.kill();
        await service.start();
      }
    })();
    let sent = 0;
    for (; sent < SIGNALS; sent++) await run.signal("go", { n: sent });
    await killed;
    expect((await run.ended()).state).toBe("succeeded");
    const stored = (await run.events().all()).map(({ seq }) => seq);
    expect(stored.length).toBeGreaterThan(SIGNALS);
    for (const seqs of await Promise.all(watched)) expect(seqs).toEqual(stored);
    const signals = await run.signals().all();
    expect(signals.map(({ payload }) => payload?.n).sort((a, b) => Number(a) - Number(b))).toEqual(
      Array.from({ length: SIGNALS }, (_, n) => n),
    );
  });

  it("starts each run once", async () => {
    const labels = { batch: "killed" };
    let answered = 0;
    const starts = Array.from({ length: STARTS }, async (_, n) => {
      const run = await saga.start("echo", { inputs: { n }, labels });
      answered++;
      return run.result();
    });
    for (let kill = 0; kill < KILLS; kill++) {
      const goal = answered + 1;
      await until(() => answered >= Math.min(goal, STARTS), { ...WITHIN, what: "a start" });
      await service.kill();
      await service.start();
    }
    expect(await Promise.all(starts)).toEqual(Array.from({ length: STARTS }, (_, n) => ({ n })));
    expect(await saga.runs.list({ labels }).count()).toBe(STARTS);
  });

  it("gives an attempt up that hangs, and starts the run once when the service goes on", async () => {
    const labels = { batch: "frozen" };
    service.freeze();
    let attempts = 0;
    const counting = new SagaClient({
      ...{ url: service.url, timeoutMs: 300, retry: RETRY, webSocket: false },
      fetch: (url, init) => {
        attempts++;
        return fetch(url, init);
      },
    });
    const started = counting.start("echo", { inputs: { n: 1 }, labels });
    await until(() => attempts >= 3, { ...WITHIN, what: "three attempts" });
    service.thaw();
    expect(await (await started).result()).toEqual({ n: 1 });
    expect(await saga.runs.list({ labels }).count()).toBe(1);
  });
});
