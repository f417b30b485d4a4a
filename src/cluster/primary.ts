// The primary of a service with several nodes: ports that all share, migrations before the first fork, one keeper, metrics of
// all, and the rows of nodes that died. It serves nothing itself and holds no run: if it dies, its nodes end in order.
import cluster from "node:cluster";
import { createServer } from "node:net";
import { createProcessPort } from "../bus/port.js";
import { createRelay, type Relay } from "../bus/relay.js";
import type { Config } from "../config/index.js";
import type { Logger } from "../log.js";
import { type Database, openDatabase } from "../store/connection.js";
import { migrateDatabase } from "../store/migrate.js";
import { Child } from "./child.js";
import { Keeper, type KeeperTimes } from "./keeper.js";
import { MetricsGatherer } from "./metrics-page.js";

export interface PrimaryOptions {
  readonly config: Config;
  readonly databaseUrl: string;
  readonly log: Logger;
  readonly times?: KeeperTimes;
}

export class Primary {
  private readonly database: Database;
  private readonly keeper: Keeper;
  private readonly gatherer: MetricsGatherer;
  /** Where there is Redis the nodes of all machines talk over it. */
  private readonly relay: Relay | undefined;
  private readonly forgetting = new Set<Promise<void>>();
  private environment: Readonly<Record<string, string>> = {};
  private stopping: Promise<void> | undefined;
  httpPort = 0;
  grpcPort = 0;

  constructor(private readonly options: PrimaryOptions) {
    const { config, databaseUrl, log, times } = options;
    this.database = openDatabase(databaseUrl, { max: 1, applicationName: "saga-primary", log });
    const fork = () => this.fork();
    const onDeath = (child: Child) => this.forget(child);
    this.keeper = new Keeper({ count: config.workers, fork, onDeath, log, ...(times && { times }) });
    this.relay = config.redisUrl === undefined ? createRelay() : undefined;
    this.gatherer = new MetricsGatherer(() => this.keeper.serving);
  }

  /** All nodes serve on return. Throws NodeDidNotStart, or what Postgres throws; stop it then. */
  async start(): Promise<void> {
    const { config, databaseUrl, log } = this.options;
    await migrateDatabase(databaseUrl, log);
    // In turn: the least busy of the nodes' own accepts would often be the same one, and SDKs look for a stream to each.
    cluster.schedulingPolicy = cluster.SCHED_RR;
    [this.httpPort, this.grpcPort] = await choosePorts(config);
    // By environment: a command line can be read by everyone on the machine.
    this.environment = {
      DATABASE_URL: databaseUrl,
      HTTP_PORT: String(this.httpPort),
      GRPC_PORT: String(this.grpcPort),
    };
    await this.keeper.start();
  }

  private fork(): Child {
    const { log } = this.options;
    const child = new Child(this.environment, {
      log,
      onMetrics: (from, id, metrics) => this.gatherer.hear(from, id, metrics),
      onPageAsk: (asker, id) => {
        this.gatherer.page().then(
          (page) => asker.tell({ type: "page", id, page }),
          (error) => {
            log.warn({ err: error }, "the metrics of the nodes could not be added up");
            asker.tell({ type: "page", id });
          },
        );
      },
    });
    const detach = this.relay?.attach(createProcessPort(child.process));
    if (detach) void child.ended.then(detach);
    return child;
  }

  /** Its row says for 5 s that it is alive: gone, its shards have another owner at once. */
  private forget({ details }: Child): void {
    if (details === undefined) return;
    const { log } = this.options;
    const work = this.database.sql`delete from nodes where node_id = ${details.nodeId}`.then(
      () => log.debug({ nodeId: details.nodeId }, "the row of a dead node is deleted"),
      // It goes stale by itself.
      (error) => log.warn({ err: error, nodeId: details.nodeId }, "the row of a dead node could not be deleted"),
    );
    this.forgetting.add(work);
    void work.then(() => this.forgetting.delete(work));
  }

  /** A new node for each, one by one, each ready before the old one stops. Complete on return; never rejects. */
  async replaceNodes(): Promise<void> {
    await this.keeper.replaceAll();
  }

  /** Complete on return, safe twice, and before the start is over. Throws if a node did not stop in order. */
  stop(): Promise<void> {
    this.stopping ??= this.keeper.stop().finally(async () => {
      await Promise.all(this.forgetting);
      await this.database.close();
    });
    return this.stopping;
  }
}

/**
 * Port 0 of node:cluster is one port for all nodes, too, but a new one when all of them have died. So it is chosen here, for
 * as long as the service lives; between this look and the first node's it may be lost to somebody else, and the start fails.
 */
async function choosePorts({ host, httpPort, grpcPort }: Config): Promise<[number, number]> {
  const held = await Promise.all([httpPort, grpcPort].map((port) => (port === 0 ? hold(host) : undefined)));
  const ports = held.map((server) => (server?.address() as { port: number } | undefined)?.port);
  await Promise.all(held.map((server) => server && new Promise((resolve) => server.close(resolve))));
  return [ports[0] ?? httpPort, ports[1] ?? grpcPort];
}

function hold(host: string): Promise<ReturnType<typeof createServer>> {
  return new Promise((resolve, reject) => {
    const server = createServer().once("error", reject);
    server.listen(0, host, () => resolve(server));
  });
}
