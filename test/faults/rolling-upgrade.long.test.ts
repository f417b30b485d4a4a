// A rolling upgrade under load, from the last build of record format 1 to this one and back: two services on one database are replaced
// one after the other, while clients start runs and signal them and workers of both builds answer. No answer is worse than a 503 that
// says when to try again, and every acknowledged run ends right.
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import * as newestSdk from "../../src/sdk/worker/index.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { buildOf, RELEASE_0_6 } from "../harness/old-build.js";
import { freePorts } from "../harness/ports.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { describeWithRedis } from "../harness/services.js";
import { nothingUnwatched, report, type Seen } from "../run/seen.js";
import { type Answer, Client } from "./client.js";
import { Load } from "./load.js";
import { openShop, type Shop } from "./shop.js";
import { Trips } from "./trips.js";

/** Orders of each stage, in which both builds run side by side. */
const ORDERS = 15;
/** As orchestrators have it: afterwards the service is killed. The earlier build never stops if one of its runs forks meanwhile. */
const GRACE_MS = 8_000;

/** A client behind a balancer, which sends no request to a service that is being replaced. */
class BalancedClient extends Client {
  readonly statuses = new Map<number, number>();
  /** Requests without an answer, and refusals that no client could act on. */
  readonly bad: string[] = [];
  private readonly out = new Set<string>();
  /** Requests that were answered with a 503. */
  private readonly putOff = new Set<string>();
  private turn = 0;

  constructor(private readonly urls: readonly string[]) {
    super(urls[0] as string, { isDocumented: false });
  }

  takeOut(url: string): void {
    this.out.add(url);
  }

  putBack(url: string): void {
    this.out.delete(url);
  }

  /** The earlier build's audit times go back a little when a run moves to another node; everything else must be sound. */
  override async look(runId: string): Promise<Seen> {
    const { run, events } = await super.look(runId);
    let latest = "";
    const later = (time: string) => {
      latest = time > latest ? time : latest;
      return latest;
    };
    const inOrder = events.map((event) => ({ ...event, recorded_at: later(event.recorded_at) }));
    return { run: { ...run, last_event_at: later(run.last_event_at) }, events: inOrder };
  }

  override async ask(method: "GET" | "POST", path: string, body?: unknown): Promise<Answer> {
    const urls = this.urls.filter((url) => !this.out.has(url));
    const url = urls[this.turn++ % urls.length] as string;
    const {
      status,
      headers,
      body: answered,
    } = await this.send(url, method, path, body).catch((error) => {
      this.bad.push(`${method} ${path}: ${messageOf(error)}`);
      throw error;
    });
    const answer = { status, body: answered };
    this.judge(`${method} ${path}`, answer, headers.has("retry-after"));
    return answer;
  }

  private judge(asked: string, { status, body }: Answer, saysWhen: boolean): void {
    this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1);
    if (status === 503 && saysWhen) this.putOff.add(asked);
    // 409: the request that was put off has taken effect all the same, and this is its repeat.
    else if (status >= 400 && !(status === 409 && this.putOff.has(asked)))
      this.bad.push(`${asked}: ${status} ${JSON.stringify(body)}`);
  }
}

const messageOf = (error: unknown) => `${(error as Error).message} ${String((error as Error).cause ?? "")}`;

const endOf = (service: ServiceProcess) => service.stop(GRACE_MS).catch(() => undefined);

interface Machine {
  readonly old: ServiceProcess;
  readonly now: ServiceProcess;
}

describeWithRedis("a rolling upgrade under load", (redisUrl) => {
  let database: TestDatabase;
  let machines: readonly Machine[];
  let shops: Shop[] = [];
  let old: string;

  beforeAll(async () => {
    old = await buildOf(RELEASE_0_6);
    database = await createTestDatabase({ max: 2, migrated: false });
    machines = await Promise.all([machine(), machine()]);
    for (const each of machines) await each.old.start({ within: 60_000 });
    const oldSdk = (await import(join(old, "dist", "src", "sdk", "worker", "index.js"))) as typeof newestSdk;
    shops = await Promise.all(
      machines.map(({ now: { grpcAddress: grpc, url: api } }, nth) =>
        openShop({ grpc, api, sdk: [oldSdk, newestSdk][nth] }),
      ),
    );
  });
  afterAll(async () => {
    for (const shop of shops) await shop.stop();
    for (const { old, now } of machines) await Promise.all([endOf(old), now.stop()]);
    await database.drop();
  });

  /** A service of either build on the same ports. */
  async function machine(): Promise<Machine> {
    const [http, grpc] = await freePorts(2);
    const env = {
      ...{ HTTP_PORT: String(http), GRPC_PORT: String(grpc), DATABASE_URL: database.url, SAGA_WORKERS: "1" },
      ...{ REDIS_URL: redisUrl, REDIS_PREFIX: `${new URL(database.url).pathname.slice(1)}:` },
    };
    return {
      old: await createService(env, join(old, "dist", "src", "main.js")),
      now: await createService(env),
    };
  }

  it("to this build and back: no refusal but 503 with Retry-After, and every run ends right", async () => {
    const client = new BalancedClient(machines.map(({ now }) => now.url));
    const [load, trips] = [new Load([client], shops), new Trips(client, shops)];
    await load.begin({ atOnce: 2 });
    await trips.begin(6);
    const began = performance.now();
    const replace = async (from: ServiceProcess, to: ServiceProcess) => {
      await load.more(ORDERS);
      trips.nextStage();
      client.takeOut(from.url);
      await endOf(from);
      await to.start({ within: 60_000 });
      client.putBack(to.url);
    };
    for (const { old, now } of machines) await replace(old, now);
    for (const { old, now } of machines) await replace(now, old);
    await load.more(ORDERS);
    const orders = (await load.finish()).length;
    const ended = await trips.finish(database.sql);
    report({ ms: performance.now() - began, orders, trips: ended, statuses: Object.fromEntries(client.statuses) });
    expect(client.bad).toEqual([]);
    expect(await database.sql`select run_id from run_events where metadata->>'kind' = 'quarantine'`).toEqual([]);
    await nothingUnwatched(database.sql);
  }, 300_000);
});
