// A rolling upgrade under load and back, from this release to a pretended next one, which reads a new record format, and from that to the one
// after, which writes it; each has migrations of its own. Two services on one database are replaced one after the other, while clients start runs
// and signal them and workers answer. No answer is worse than a 503 that says when to try again, and every acknowledged run ends right.
// @module-tag long
// @waits
import { afterAll, beforeAll, expect, it } from "vitest";
import { putKeysBack } from "../harness/access.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { buildNext } from "../harness/next-build.js";
import { freePorts } from "../harness/ports.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { describeWithRedis } from "../harness/services.js";
import { nothingUnwatched, report } from "../run/seen.js";
import { type Answer, Client } from "./client.js";
import { Load } from "./load.js";
import { openShop, type Shop } from "./shop.js";
import { Trips } from "./trips.js";

/** Orders of each stage, in which both builds run side by side. */
const ORDERS = 15;
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
    super(urls[0] as string);
  }

  takeOut(url: string): void {
    this.out.add(url);
  }

  putBack(url: string): void {
    this.out.delete(url);
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

/** A column of the hot table, and an index of it. */
const READS_NEXT = {
  formats: "READS_NEXT",
  migrations: [
    ['ALTER TABLE "runs" ADD COLUMN "later" integer', 'CREATE TABLE "laters" ("id" uuid PRIMARY KEY NOT NULL)'],
    ['CREATE INDEX CONCURRENTLY "runs_later" ON "runs" USING btree ("later") WHERE later is not null'],
  ],
} as const;
const WRITES_NEXT = {
  formats: "WRITES_NEXT",
  migrations: [...READS_NEXT.migrations, ['ALTER TABLE "signals" ADD COLUMN "latest" text']],
} as const;

describeWithRedis("a rolling upgrade under load", (redisUrl) => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase({ max: 2, migrated: false });
  });
  afterAll(() => database.drop());

  interface Machine {
    readonly before: ServiceProcess;
    readonly after: ServiceProcess;
  }

  /** Services of both releases on the same ports. */
  async function machine(...mains: readonly (string | undefined)[]): Promise<Machine> {
    const [http, grpc] = await freePorts(2);
    const env = {
      ...{ HTTP_PORT: String(http), GRPC_PORT: String(grpc), DATABASE_URL: database.url, SAGA_WORKERS: "1" },
      ...{ REDIS_URL: redisUrl, REDIS_PREFIX: `${new URL(database.url).pathname.slice(1)}:` },
    };
    return { before: await createService(env, mains[0]), after: await createService(env, mains[1]) };
  }

  it.each([
    ["to a release that reads the next record format", undefined, READS_NEXT, [1]],
    ["from that one to a release that writes it", READS_NEXT, WRITES_NEXT, [1, 2]],
  ] as const)(
    "%s, and back: no refusal but 503 with Retry-After, and every run ends right",
    async (_, from, to, formats) => {
      const mains = [from && (await buildNext(from)), await buildNext(to)] as const;
      const machines = [await machine(...mains), await machine(...mains)];
      for (const { before } of machines) await before.start({ within: 60_000 });
      await putKeysBack(database.sql);
      const shops: Shop[] = [];
      for (const { before } of machines) shops.push(await openShop({ grpc: before.grpcAddress, api: before.url }));
      const client = new BalancedClient(machines.map(({ before }) => before.url));
      const [load, trips] = [new Load([client], shops), new Trips(client, shops)];
      await load.begin({ atOnce: 2 });
      await trips.begin(6);
      const began = performance.now();
      const replace = async (from: ServiceProcess, to: ServiceProcess) => {
        await load.more(ORDERS);
        trips.nextStage();
        client.takeOut(from.url);
        await from.stop();
        await to.start({ within: 60_000 });
        client.putBack(to.url);
      };
      for (const { before, after } of machines) await replace(before, after);
      await load.more(ORDERS);
      for (const { before, after } of machines) await replace(after, before);
      await load.more(ORDERS);
      const orders = (await load.finish()).length;
      const ended = await trips.finish(database.sql);
      report({ ms: performance.now() - began, orders, trips: ended, statuses: Object.fromEntries(client.statuses) });
      expect(client.bad).toEqual([]);
      expect(await database.sql`select run_id from run_events where metadata->>'kind' = 'quarantine'`).toEqual([]);
      const written = await database.sql<
        { v: number }[]
      >`select distinct (record->>'v')::int as v from runs order by v`;
      expect(written.map(({ v }) => v)).toEqual(formats);
      await nothingUnwatched(database.sql);
      for (const shop of shops) await shop.stop();
      for (const { before } of machines) await before.stop();
    },
    300_000,
  );
});
