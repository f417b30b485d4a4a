// Everything that a compressed week needs, with the clocks of all of it: two servers of Postgres, a Redis, two machines of the service with two nodes
// each, and two workers. The first machine is the old one: nothing kills its nodes, so that what a node gathers over a week is seen.
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import type { Sql } from "postgres";
import { inject } from "vitest";
import { lives, logged } from "../../cluster/rig.js";
import { ownExchange } from "../../harness/rabbitmq.js";
import { openPrivateRedis, type PrivateRedis } from "../../harness/redis.js";
import { createService, type ServiceProcess } from "../../harness/service.js";
import { until } from "../../harness/until.js";
import { Client } from "../client.js";
import { openShop, type Shop } from "../shop.js";
import { buildClockLibrary, DAY_MS, HOUR_MS, HostClock, untilSaturday } from "./clocks.js";
import { openFolder, removeFolder } from "./disk.js";
import { Pair } from "./pair.js";

export const NODES = 2;
/** Ended runs, audit rows and events are kept for as long. */
export const KEPT_DAYS = 2;
const HEALTHY_WITHIN_MS = 180_000;
/** The heartbeat of a node that is not gone. */
const ALIVE = "5 s";

export interface Machine {
  readonly service: ServiceProcess;
  readonly client: Client;
  readonly clock: HostClock;
}

export class Stage {
  private constructor(
    private readonly folder: string,
    readonly postgres: Pair,
    readonly redis: PrivateRedis,
    private readonly databaseClock: HostClock,
    readonly machines: readonly [Machine, Machine],
    readonly shops: readonly Shop[],
  ) {}

  /** Complete when everything is up. It is a Saturday. */
  static async open(): Promise<Stage> {
    const folder = openFolder();
    process.once("exit", () => removeFolder(folder));
    const library = await buildClockLibrary(folder);
    const clockOf = (name: string) => {
      const clock = HostClock.open(`${folder}/${name}.clock`, library);
      clock.set(untilSaturday(Date.now()));
      return clock;
    };
    const databaseClock = clockOf("postgres");
    const postgres = await Pair.open(folder, databaseClock);
    const redis = await openPrivateRedis("");
    const settings = {
      ...{ DATABASE_URL: postgres.url, REDIS_URL: redis.url, SAGA_WORKERS: String(NODES) },
      ...{ SAGA_RETENTION_DAYS: String(KEPT_DAYS), SAGA_EVENT_RETENTION_DAYS: String(KEPT_DAYS) },
      ...brokerOfAll(),
    };
    const machineOf = async (clock: HostClock): Promise<Machine> => {
      const service = await (await createService({ ...settings, ...clock.env })).start({ within: 120_000 });
      await expectClock(service, clock);
      return { service, client: new Client(service.url), clock };
    };
    const machines = [await machineOf(clockOf("old")), await machineOf(clockOf("young"))] as const;
    const grpc = machines.map(({ service }) => service.grpcAddress);
    const shops: Shop[] = [];
    for (const { service } of machines) shops.push(await openShop({ grpc, api: service.url }));
    const stage = new Stage(folder, postgres, redis, databaseClock, [...machines], shops);
    await stage.healthy();
    return stage;
  }

  get sql(): Sql {
    return this.postgres.database.sql;
  }

  get old(): Machine {
    return this.machines[0];
  }

  get young(): Machine {
    return this.machines[1];
  }

  get clients(): readonly Client[] {
    return this.machines.map(({ client }) => client);
  }

  /** Every server is up, the standby is synchronous, and all nodes have a heartbeat, and no others. */
  async healthy(): Promise<void> {
    await this.postgres.streams();
    for (const { service } of this.machines) await service.waitUntilReady(HEALTHY_WITHIN_MS);
    const wanted = this.machines.length * NODES;
    const all = async () => this.machines.every(hasAllNodes) && (await this.aliveNodes()) === wanted;
    await until(all, { within: HEALTHY_WITHIN_MS, pause: 200, what: "a heartbeat of every node" });
  }

  /** Nodes with a heartbeat, by the clock of Postgres. One that was killed is among them until it is silent for too long. */
  async aliveNodes(): Promise<number> {
    const rows = await this.sql`select 1 from nodes where heartbeat_at > now() - ${ALIVE}::interval`;
    return rows.length;
  }

  /** Milliseconds by which the clock of Postgres is ahead of this process's. */
  get databaseAheadMs(): number {
    return this.databaseClock.aheadMs;
  }

  /** All clocks at once, whatever they differ by. Complete when the nodes have measured it. */
  async passDays(days: number): Promise<void> {
    for (const clock of [this.databaseClock, ...this.machines.map(({ clock }) => clock)]) clock.step(days * DAY_MS);
    await this.healthy();
  }

  async databaseNow(): Promise<number> {
    const [row] = await this.sql<{ now: number }[]>`
      select (extract(epoch from clock_timestamp()) * 1000)::float8 as now`;
    return row?.now ?? 0;
  }

  /** The last lines of both servers of Postgres. Those of the service are printed with any failure. */
  troubles(): readonly string[] {
    return [this.postgres.primary, this.postgres.standby].flatMap((server) => server.lastLines);
  }

  /** Complete on return. */
  async close(): Promise<void> {
    for (const shop of this.shops) await shop.stop();
    for (const { service } of this.machines) await service.stop();
    await this.redis.kill();
    await this.postgres.end();
    for (const { clock } of this.machines) clock.close();
    this.databaseClock.close();
    removeFolder(this.folder);
  }
}

/** A node that asked the system's own clock would see nothing of all this. */
async function expectClock(service: ServiceProcess, { aheadMs }: HostClock): Promise<void> {
  const ready = await until(() => logged(service, "node ready")[0], { what: "a line of a node" });
  const ahead = Date.parse(ready.time) - Date.now();
  if (!(Math.abs(ahead - aheadMs) < HOUR_MS))
    throw new Error(`the clock of a node is ahead by ${ahead}, not ${aheadMs}`);
}

/** The processes of its nodes, the oldest first. The log is no place to look for them: that of an hour is longer than what is kept of it. */
export function nodesOf({ service }: Machine): readonly number[] {
  const { pid } = service;
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
  return children.split(" ").filter(Boolean).map(Number).filter(lives);
}

const hasAllNodes = (machine: Machine) => nodesOf(machine).length === NODES;

/** Both machines are of one service, so they have one exchange. Without a RabbitMQ, the events of runs stay in Postgres. */
function brokerOfAll(): Readonly<Record<string, string>> {
  const url = inject("amqpUrl");
  return url === "" ? {} : { AMQP_URL: url, SAGA_EVENTS_EXCHANGE: ownExchange() };
}

/** A command without an answer of interest, such as FLUSHALL. */
export function tellRedis(url: string, command: string): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => socket.write(`${command}\r\n`));
    socket.once("error", reject);
    socket.once("data", (reply) => {
      socket.destroy();
      resolve(reply.toString("latin1").trim());
    });
  });
}
