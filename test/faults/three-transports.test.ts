// One saga whose three steps use three transports and that fails late: it is undone over all three, while the HTTP server, the broker and
// the service are each killed and restarted in flight. Where no broker can be started, the connections to the shared one are cut instead.
// @module-tag long
// @access both
import { setTimeout as delay } from "node:timers/promises";
import fastify, { type FastifyInstance } from "fastify";
import { expect, it } from "vitest";
import { createHttpWorker } from "../../src/sdk/worker/http/index.js";
import { type ActionContext, ActionError, createWorker } from "../../src/sdk/worker/index.js";
import { createRabbitMqWorker } from "../../src/sdk/worker/rabbitmq/index.js";
import { workerToken } from "../harness/access.js";
import { type Action, handleAll } from "../harness/actions.js";
import { createTestDatabase } from "../harness/database.js";
import { freePorts } from "../harness/ports.js";
import { openBreakableRabbitMq, ownQueue } from "../harness/rabbitmq.js";
import { createService } from "../harness/service.js";
import { describeWithRabbitMq } from "../harness/services.js";
import { until } from "../harness/until.js";
import { nothingUnwatched } from "../run/seen.js";
import { Client } from "./client.js";

const RUNS = 30;
const AT_ONCE = 8;
/** The work of a step: long enough that some of it is in progress when its worker is killed. */
const WORKS_MS = 20;
/** How long the broker is away: longer than its clients wait between two tries. */
const AWAY_MS = 10_000;
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const TIMING = { resendMs: 100, backoffMs: 50, backoffMaxMs: 500, abortGraceMs: 100, lookAgainMs: 1_000 };

/** The books of the outside world: one effect for each key, and its undo. They outlive every worker. */
class Books {
  /** The run of each effect that was made. */
  readonly made = new Map<string, string>();
  readonly undone = new Set<string>();
  executions = 0;

  readonly actions: readonly Action[] = [
    { name: "do", compensable: true, execute: (_, ctx) => this.make(ctx) },
    {
      name: "undo",
      retry: { maxAttempts: -1, initialBackoffMs: 50, maxBackoffMs: 200 },
      timeoutMs: 3_000,
      execute: (_, { forwardIdempotencyKey = "" }) => {
        this.undone.add(forwardIdempotencyKey);
        return {};
      },
    },
  ];

  private async make({ idempotencyKey, runId }: ActionContext): Promise<object> {
    this.executions++;
    await delay(WORKS_MS);
    if (this.undone.has(idempotencyKey))
      throw new ActionError("undone", "it comes after its undo", { retryable: false });
    this.made.set(idempotencyKey, runId);
    return {};
  }
}

const SIGNING = "a secret of the tests";

describeWithRabbitMq("a saga over three transports", (url) => {
  it("is undone over all three, each effect once, with everything killed in flight", { timeout: 400_000 }, async () => {
    const database = await createTestDatabase({ max: 2 });
    const broker = await openBreakableRabbitMq(url);
    const env = {
      DATABASE_URL: database.url,
      AMQP_URL: broker.url,
      SAGA_WORKERS: "1",
      SAGA_SIGNING_SECRET: JSON.stringify({ two: SIGNING }),
    };
    const service = await (await createService(env)).start();
    const client = new Client(service.url);
    const books = new Books();
    const common = (name: string) => ({
      ...{
        ...workerToken(),
        service: name,
        api: service.url,
        log: silent,
        timing: TIMING,
        drainTimeoutMs: 1_000,
      },
    });
    const queue = ownQueue("three");
    const grpc = handleAll(createWorker({ ...common("one"), grpc: service.grpcAddress }), "one", books.actions);
    const rabbitMq = createRabbitMqWorker({ ...common("three"), url: broker.url, queue, cancelCheckMs: 500 });
    handleAll(rabbitMq, "three", books.actions);
    const [port = 0] = await freePorts(1);
    let app: FastifyInstance;
    // A new worker each time: whatever the former one had in memory is lost.
    const openHttp = async () => {
      const address = `http://127.0.0.1:${port}/`;
      const worker = createHttpWorker({ ...common("two"), address, signingSecret: SIGNING });
      handleAll(worker, "two", books.actions);
      app = fastify({ forceCloseConnections: true });
      app.register(worker.plugin);
      await app.listen({ host: "127.0.0.1", port });
      return worker;
    };
    await Promise.all([grpc.start(), rabbitMq.start(), openHttp().then((worker) => worker.start())]);
    const retry = { max_attempts: -1, initial_backoff_ms: 50, max_backoff_ms: 200 };
    const step = (id: string, next: string) => ({
      ...{ id, type: "action", action: `${id}.do`, next, retry, timeout_ms: 3_000 },
      compensation: { action: `${id}.undo` },
    });
    await client.publish("late", [
      ...[step("one", "two"), step("two", "three"), step("three", "fail")],
      { id: "fail", type: "error", code: "late" },
    ]);

    const started: string[] = [];
    let next = 0;
    const drivers = Array.from({ length: AT_ONCE }, async () => {
      while (next < RUNS) {
        const runId = await client.start("late", { idempotency_key: `order-${next++}` });
        started.push(runId);
        await until(async () => (await client.run(runId)).terminal_at !== undefined, { within: 120_000, pause: 100 });
      }
    });
    const orders = (share: number) => until(() => started.length >= RUNS * share, { within: 120_000, what: "orders" });
    // Each is killed while runs are in progress.
    await orders(0.25);
    await app!.close();
    await openHttp();
    await orders(0.45);
    await broker.kill();
    await until(() => service.log.some((line) => line.includes("connection to RabbitMQ lost")), { what: "the cut" });
    await delay(AWAY_MS);
    await broker.start();
    await orders(0.65);
    await service.kill();
    await service.start();
    await Promise.all(drivers);

    const seen = await client.allEnd(started, 120_000);
    expect(new Set(started).size).toBe(RUNS);
    expect(seen.map(({ run }) => [run.state, run.error?.code])).toEqual(Array(RUNS).fill(["failed", "late"]));
    expect([...books.made.values()].sort()).toEqual(started.flatMap((runId) => [runId, runId, runId]).sort());
    expect([...books.made.keys()].filter((key) => !books.undone.has(key))).toEqual([]);
    for (const { run, events } of seen) {
      const undone = events.filter(
        ({ event_type, metadata }) => event_type === "step.succeeded" && metadata?.phase === "compensation",
      );
      expect([run.id, ...undone.map(({ step_id }) => step_id)]).toEqual([run.id, "three", "two", "one"]);
    }
    console.log(`${RUNS} runs, ${books.made.size} effects, ${books.executions} executions`);
    await nothingUnwatched(database.sql);

    await Promise.all([grpc.stop(), rabbitMq.stop(), app!.close()]);
    await service.stop();
    await broker.end();
    await database.drop();
  });
});
