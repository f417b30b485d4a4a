// The primary of a service with several nodes: shared ports, migrations before the first fork, the supervisor, the metrics of
// all nodes, and the rows of dead nodes. It serves no requests and holds no run. If it dies, its nodes stop in order.
import cluster from "node:cluster";
import { createProcessChannel } from "../bus/channel.js";
import { IpcRelay } from "../bus/ipc-relay.js";
import { CertificateError, type Config, readCertificate, readClientAuthority, readClients } from "../config/index.js";
import type { Logger } from "../log.js";
import type { PageFormat } from "../metrics/page.js";
import { type Database, openDatabase } from "../store/engine/connection.js";
import { removeNode } from "../store/engine/nodes.js";
import { recordDeath } from "../store/engine/suspects.js";
import { migrateDatabase } from "../store/migrate/migrate.js";
import { readerRights } from "../store/migrate/reader-role.js";
import { MetricsGatherer } from "./metrics-page.js";
import { NodeProcess } from "./node-process.js";
import { choosePorts } from "./ports.js";
import { Supervisor, type SupervisorTimes } from "./supervisor.js";

export interface PrimaryOptions {
  readonly config: Config;
  readonly databaseUrl: string;
  readonly log: Logger;
  readonly times?: SupervisorTimes;
}

export class Primary {
  private readonly database: Database;
  private readonly supervisor: Supervisor;
  private readonly gatherer: MetricsGatherer;
  /** Absent with Redis, where the nodes of all machines talk to each other. */
  private readonly relay: IpcRelay | undefined;
  /** What dead nodes left to do. */
  private readonly works = new Set<Promise<void>>();
  private environment: Readonly<Record<string, string>> = {};
  private stopping: Promise<void> | undefined;
  httpPort = 0;
  grpcPort = 0;

  constructor(private readonly options: PrimaryOptions) {
    const { config, databaseUrl, log, times } = options;
    this.database = openDatabase(databaseUrl, { max: 1, applicationName: "saga-primary", log });
    const fork = () => this.fork();
    const onDeath = (node: NodeProcess) => this.settleDeath(node);
    this.supervisor = new Supervisor({ count: config.workers, fork, onDeath, log, ...(times && { times }) });
    this.relay = config.redisUrl === undefined ? new IpcRelay() : undefined;
    this.gatherer = new MetricsGatherer(() => this.supervisor.serving);
  }

  /** On return the first node serves, and each of the others unless it died while it started. Throws NodeDidNotStart, or an error of Postgres; stop the primary then. */
  async start(): Promise<void> {
    const { config, databaseUrl, log } = this.options;
    await migrateDatabase(databaseUrl, log, { reader: readerRights(config) });
    // Round robin: otherwise one node often accepts several connections in a row, and SDKs need a stream to each node.
    cluster.schedulingPolicy = cluster.SCHED_RR;
    [this.httpPort, this.grpcPort] = await choosePorts(config);
    // Not on the command line, which every user of the machine can read.
    const decided = {
      DATABASE_URL: databaseUrl,
      HTTP_PORT: String(this.httpPort),
      GRPC_PORT: String(this.grpcPort),
    };
    // A setting that came from a file would be set twice.
    const fromFiles = Object.keys(decided).map((name) => [`${name}_FILE`, ""]);
    this.environment = { ...decided, ...Object.fromEntries(fromFiles) };
    await this.supervisor.start();
  }

  private fork(): NodeProcess {
    const node = new NodeProcess(this.environment, {
      log: this.options.log,
      onMetrics: (from, id, metrics) => this.gatherer.receive(from, id, metrics),
      onPageAsk: (from, id, format) => void this.sendPage(from, id, format),
    });
    const detach = this.relay?.attach(createProcessChannel(node.process));
    if (detach) void node.ended.then(detach);
    return node;
  }

  private async sendPage(node: NodeProcess, id: number, format?: PageFormat): Promise<void> {
    try {
      node.send({ type: "page", id, page: await this.gatherer.page(format) });
    } catch (error) {
      this.options.log.warn({ err: error }, "gathering metrics of the nodes failed");
      node.send({ type: "page", id });
    }
  }

  /** First what the node has died of: nodes of other machines read it when they see that the node is gone. */
  private settleDeath({ pid, details, lastWords }: NodeProcess): void {
    const suspected = lastWords === undefined ? Promise.resolve() : this.suspect(lastWords);
    const work = suspected.then(() => this.deleteRow(pid, details?.nodeId));
    this.works.add(work);
    void work.then(() => this.works.delete(work));
  }

  private async suspect(key: string): Promise<void> {
    const { log } = this.options;
    this.supervisor.tell({ type: "suspect", key });
    await recordDeath(this.database.sql, key).then(
      () => log.warn({ suspect: key }, "node died while it decided on this, it will be tried"),
      // The nodes of this machine know it.
      (error) => log.warn({ err: error, suspect: key }, "suspect not recorded"),
    );
  }

  /** The row would show the node as alive for 5 s more. Without it, the shards get another owner at once. */
  private async deleteRow(node: number | undefined, nodeId: string | undefined): Promise<void> {
    if (nodeId === undefined) return;
    const { log } = this.options;
    await removeNode(this.database.sql, nodeId).then(
      () => log.debug({ node, nodeId }, "row of a dead node deleted"),
      // The row goes stale by itself.
      (error) => log.warn({ err: error, node, nodeId }, "row of a dead node not deleted"),
    );
  }

  /**
   * Replaces the nodes one by one, each successor ready before its node stops. Every node serves the new certificate at once; with one that
   * cannot be served, or clients that cannot be read, no successor would start, so none is tried. Complete on return; never rejects.
   */
  async replaceNodes(): Promise<void> {
    if (!this.hasFitCertificate()) return;
    this.supervisor.tell({ type: "certificate" });
    await this.supervisor.replaceAll();
  }

  /** Also without TLS. */
  private hasFitCertificate(): boolean {
    const { config, log } = this.options;
    try {
      if (config.tls) readCertificate(config.tls);
      if (config.tlsClients) readClientAuthority(config.tlsClients.caFile);
      if (config.tlsClients) readClients(config.tlsClients.clientsFile);
      return true;
    } catch (error) {
      if (!(error instanceof CertificateError)) throw error;
      log.error({ reason: error.message }, "certificate not replaced, the old one and the nodes stay");
      return false;
    }
  }

  /** Complete on return, safe to call twice and before the start has ended. Throws if a node did not stop in order. */
  stop(): Promise<void> {
    this.stopping ??= this.supervisor.stop().finally(async () => {
      await Promise.all(this.works);
      await this.database.close();
    });
    return this.stopping;
  }
}
