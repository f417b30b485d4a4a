// Several services on one database and one Redis: every route answers the same from the owner of a run and from another node,
// workers of either serve both, and the work continues when Redis dies, which carries hints only, and when a node does.
// @module-tag both
// @access both
import { spawn } from "node:child_process";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { packageRoot } from "../../src/config/package.js";
import { uuidv7 } from "../../src/ids.js";
import { Client } from "../faults/client.js";
import { Load } from "../faults/load.js";
import { openShop, type Shop } from "../faults/shop.js";
import { credential, workerToken } from "../harness/access.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { long } from "../harness/long.js";
import { openPrivateRedis, type PrivateRedis } from "../harness/redis.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { describeWithRedis } from "../harness/services.js";
import { until } from "../harness/until.js";
import { nothingUnwatched, report } from "../run/seen.js";

const WORKER = join(packageRoot(), "test", "cluster", "holding-worker.mjs");
const RUNS = long(8, 20);
/** Orders that come in before Redis is killed, half of those while it is away, and those after it is back. */
const SHARE = 8;

describeWithRedis("two services", (shared) => {
  let database: TestDatabase;
  let redis: PrivateRedis;
  let services: ServiceProcess[];
  let clients: Client[];
  let shops: Shop[];

  beforeAll(async () => {
    database = await createTestDatabase({ max: 2 });
    redis = await openPrivateRedis(shared);
    const env = {
      DATABASE_URL: database.url,
      REDIS_URL: redis.url,
      REDIS_PREFIX: `test:${uuidv7()}:`,
      LOG_LEVEL: "info",
    };
    services = [await createService(env), await createService(env)];
    for (const service of services) await service.start();
    clients = services.map(({ url }) => new Client(url));
    shops = await Promise.all(services.map(({ grpcAddress, url }) => openShop({ grpc: grpcAddress, api: url })));
    await clients[0]?.publish("wait", [{ id: "wait", type: "wait_for_signal", signal_name: "go" }]);
    await clients[0]?.publish("errand", [
      { id: "pay", type: "action", action: "shop.charge", compensation: { action: "shop.refund" }, next: "rest" },
      { id: "rest", type: "wait_duration", duration_ms: 200, next: "wait" },
      { id: "wait", type: "wait_for_signal", signal_name: "go", next: "ship" },
      { id: "ship", type: "action", action: "shop.charge" },
    ]);
    await until(() => services.every(({ log }) => log.some((line) => line.includes('"nodes":2'))), {
      what: "two nodes that know of each other",
    });
  });
  afterAll(async () => {
    for (const shop of shops) await shop.stop();
    for (const service of services) await service.stop();
    await redis.kill();
    await database.drop();
  });

  /** A client that uses the two services in turn. */
  const client = (index: number): Client => clients[index % 2] as Client;

  it("a command gets the same answer from the owner of the run and from another node", { tags: "short" }, async () => {
    const runIds = await Promise.all(Array.from({ length: RUNS / 2 }, (_, index) => client(index).start("wait")));
    for (const [index, runId] of runIds.entries()) {
      await client(index).untilState(runId, "paused");
      const stale = await client(index).insist("POST", `/sagas/${runId}/actions/wait/result`, { result: {} });
      expect(stale).toEqual({ status: 202, body: { accepted: true, stale: true } });
      const unmatched = await client(index + 1).insist("POST", `/sagas/${runId}/signal/other`, { payload: {} });
      expect(unmatched).toMatchObject({ status: 409, body: { error: "conflict", recorded: true } });
      const keyed = { payload: { by: index }, idempotency_key: "once" };
      const first = await client(index).insist("POST", `/sagas/${runId}/signal/go`, keyed);
      const again = await client(index + 1).insist("POST", `/sagas/${runId}/signal/go`, keyed);
      expect(first).toMatchObject({ status: 202, body: { matched: true } });
      expect(again).toEqual(first);
      const cancel = await client(index + 1).insist("POST", `/sagas/${runId}/cancel`);
      expect(cancel).toMatchObject({ status: 202, body: { state: "succeeded", already_terminal: true } });
    }
    const unknown = `/sagas/${uuidv7()}/cancel`;
    const [one, other] = await Promise.all(clients.map((each) => each.insist("POST", unknown)));
    expect(one?.status).toBe(404);
    expect(other?.status).toBe(404);
    await client(0).allEnd(runIds);
  });

  it("either service explains a run, and knows the workers of both", { tags: "short" }, async () => {
    const actions = [{ action_name: "work" }];
    expect(await client(0).insist("POST", "/registry/register", { service: "lonely", actions })).toMatchObject({
      status: 200,
    });
    await client(0).publish("lonely", [{ id: "work", type: "action", action: "lonely.work" }]);
    const runId = await client(0).start("lonely");
    const queued = { action: "lonely.work@1", reason: "no_worker" };
    for (const each of clients) {
      await until(async () => (await each.insist("GET", `/sagas/${runId}`)).body.queued_action, {
        what: "the queued action",
      });
      expect((await each.insist("GET", `/sagas/${runId}`)).body).toMatchObject({
        state: "running",
        queued_action: queued,
      });
      const explained = await each.insist("GET", `/sagas/${runId}/explain`);
      expect(explained.body).toMatchObject({
        because: expect.stringMatching(/^waits for a worker that serves lonely\.work@1: none is connected/),
        waiting_for: [{ kind: "worker", ...queued }],
      });
      const { body } = await each.insist("GET", "/workers");
      expect(body.unserved).toEqual([{ action: "lonely.work@1", transport: "grpc", waiting: 1 }]);
      const nodes = (body.items as { node_id: string }[]).map(({ node_id }) => node_id);
      expect(new Set(nodes).size, "workers of both nodes").toBe(2);
    }
    const [one, other] = await Promise.all(clients.map((each) => each.insist("GET", `/sagas/${runId}/explain`)));
    expect(one).toEqual(other);
    await client(1).insist("POST", `/sagas/${runId}/cancel`);
  });

  it("either service says of a run whose worker was killed that it waits for one, and since when", {
    tags: "short",
  }, async () => {
    const at = [services[0]?.grpcAddress ?? "", services[0]?.url ?? ""];
    const options = { cwd: packageRoot(), env: { ...process.env, TOKEN: workerToken().token } };
    const open = (does: string) => spawn(process.execPath, [WORKER, ...at, does], options);
    const holding = open("holds");
    try {
      const connected = async () => (await client(0).insist("GET", "/workers?service=travel")).body.total > 0;
      await until(connected, { what: "its worker" });
      await client(0).publish("trip", [{ id: "book", type: "action", action: "travel.book" }]);
      const [kept, cancelled] = [await client(0).start("trip"), await client(1).start("trip")];
      const explained = async (each: Client, runId: string) =>
        (await each.insist("GET", `/sagas/${runId}/explain`)).body;
      for (const runId of [kept, cancelled])
        await until(async () => (await explained(client(0), runId)).waiting_for[0]?.kind === "answer");
      holding.kill("SIGKILL");
      const gone = /the worker travel:\S+ that held it is gone since [-\d]+ [:\d]+ UTC, and/;
      for (const each of clients) {
        const words = () => explained(each, kept).then(({ because }) => gone.test(because) && because);
        expect(await until(words, { what: "a worker that is gone" })).toMatch(/and no other is connected/);
        expect((await explained(each, kept)).waiting_for).toMatchObject([{ kind: "worker", reason: "no_worker" }]);
        const unserved = [{ action: "travel.book@1", transport: "grpc", waiting: 2 }];
        await until(async () => (await each.insist("GET", "/workers")).body.unserved[0]?.waiting === 2);
        expect((await each.insist("GET", "/workers?service=travel")).body).toMatchObject({ items: [], unserved });
        const backlog = async () => (await each.insist("GET", "/cluster")).body.backlog.waiting_for_workers === 2;
        await until(backlog, { what: "the backlog" });
      }
      const pages = async () =>
        Promise.all(services.map(async ({ url }) => (await fetch(`${url}/metrics`, { headers: credential() })).text()));
      const sumOf = async (series: RegExp) =>
        (await pages()).reduce((sum, page) => sum + Number(series.exec(page)?.[1] ?? 0), 0);
      for (const series of [/^saga_dispatches_queued (\d+)/m, /^saga_service_queued\{service="travel"\} (\d+)/m])
        await until(async () => (await sumOf(series)) === 2, { what: String(series) });
      await client(1).insist("POST", `/sagas/${cancelled}/cancel`);
      for (const each of clients) {
        const noOther = /and no other worker begins a cancelled step/;
        await until(async () => noOther.test((await explained(each, cancelled)).because), { what: "a cancelled step" });
      }
      const answering = open("answers");
      try {
        await client(1).untilState(kept, "succeeded");
        // A node remembers for a moment that nothing serves the action.
        const unserved = async () => (await client(1).insist("GET", "/workers")).body.unserved;
        await until(async () => (await unserved()).length === 0, { what: "an action that is served" });
      } finally {
        answering.kill("SIGKILL");
      }
      await client(0).insist("POST", `/sagas/${cancelled}/terminate`);
    } finally {
      holding.kill("SIGKILL");
    }
  });

  it("registering an action anew, over HTTP and by a worker that comes, touches no dispatch in flight", {
    tags: "short",
  }, async () => {
    await client(0).publish("hang", [{ id: "hang", type: "action", action: "shop.hang", save_as: "done" }]);
    const runId = await client(0).start("hang");
    const hanging = await until(() => shops.flatMap((shop) => shop.hanging(runId))[0], { what: "the dispatch" });
    const moved = {
      action_name: "hang",
      output_schema: { required: ["other"] },
      transport: "http",
      address: "http://127.0.0.1:9/",
    };
    const { body } = await client(1).insist("POST", "/registry/register", { service: "shop", actions: [moved] });
    expect(body.changed).toMatchObject([
      { action_name: "hang", members: expect.arrayContaining(["output_schema", "transport", "address"]) },
    ]);
    const before = await client(0).run(runId);
    hanging();
    const run = await client(0).untilState(runId, "succeeded");
    expect(run).toMatchObject({ variables: { done: { receipt: expect.any(String) } } });
    expect(before).toMatchObject({ state: "running", current_attempt: 1 });
    // A worker that starts registers its actions as they were, and says hello.
    const third = await openShop({ grpc: services[0]?.grpcAddress ?? "", api: services[0]?.url ?? "" });
    await third.stop();
    const warned = services.flatMap(({ log }) => log.filter((line) => line.includes("registered action changed")));
    expect(warned.map((line) => JSON.parse(line).action)).toEqual(["shop.hang@1", "shop.hang@1"]);
  });

  it("continue without Redis and after its return, and bring every run to its expected end", {
    tags: "long",
    timeout: 400_000,
  }, async () => {
    const load = new Load(clients, shops);
    const began = performance.now();
    await load.begin({ atOnce: 4 });
    await load.more(SHARE);
    const with_ = performance.now() - began;
    await redis.kill();
    await load.more(2 * SHARE);
    const without = performance.now() - began - with_;
    // The runs that were in progress when it died end as well.
    const dead = load.runIds.slice(0, SHARE);
    await client(0).allEnd(dead);
    await redis.start();
    await load.more(SHARE);
    const seen = await load.finish();
    report({ runs: seen.length, msEachWith: with_ / SHARE, msEachWithout: without / (2 * SHARE) });
    for (const service of services) expect(service.log.some((line) => line.includes('"level":"fatal"'))).toBe(false);
    await nothingUnwatched(database.sql);
  });

  it("runs end wherever their commands and their workers are, also if their node is killed", async () => {
    const began = performance.now();
    const runIds = await Promise.all(Array.from({ length: RUNS }, (_, index) => client(index).start("errand")));
    for (const [index, runId] of runIds.entries()) await client(index + 1).untilState(runId, "paused");
    await services[1]?.kill();
    const killed = performance.now();
    for (const runId of runIds) await client(0).insist("POST", `/sagas/${runId}/signal/go`, { payload: {} });
    const seen = await client(0).allEnd(runIds);
    for (const { run } of seen) expect(run).toMatchObject({ state: "succeeded" });
    // One key for each step, whichever shop executed it, and however often.
    const executed = shops.flatMap((shop) => runIds.flatMap((runId) => shop.of(runId)));
    expect(new Set(executed.map(({ key }) => key)).size).toBe(2 * RUNS);
    await nothingUnwatched(database.sql);
    report({
      runs: RUNS,
      ms: performance.now() - began,
      afterKillMs: performance.now() - killed,
      executions: executed.length,
    });
  });
});
