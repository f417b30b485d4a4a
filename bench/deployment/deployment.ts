// Where a repetition runs: a deployment of its own (a fresh database, the service, a worker), or the target. Ends with the repetition,
// whatever happens in it.
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { connect } from "amqplib";
import type { Sql } from "postgres";
import { Client } from "../client.js";
import { familyOf, ifPostgres, type ProcessIds } from "../measure/processes.js";
import { type Counters, readCounters, writesBetween } from "../measure/writes.js";
import type { Writes } from "../result.js";
import { backendsOf, type Database, freshDatabase, openDatabase, type Server, untilLeft } from "./database.js";
import { type ServiceProcess, startService } from "./service.js";
import { startWorker, type Transport, type WorkerProcess } from "./worker.js";

export interface DeploymentOptions {
  /** Absent: the bench starts the service itself. */
  readonly target?: string;
  readonly grpc?: string;
  /** The database of the target; without a target, the server for fresh databases. */
  readonly database?: string;
  readonly amqp?: string;
  readonly workerHost: string;
  readonly nodes: number;
  /** The file that is started as the service; absent: that of this build. */
  readonly service?: string;
  readonly settings: Readonly<Record<string, string>>;
  readonly profile?: string;
}

export interface Needs {
  /** A worker over this transport. */
  readonly worker?: Transport;
  /** Dispatches that the worker takes at once. */
  readonly maxInFlight: number;
  /** Settings of the service that the scenario is about. */
  readonly settings?: Readonly<Record<string, string>>;
}

/** Backends that are idle report what they wrote after ten seconds. */
const REPORTED_AFTER_MS = 10_500;

export class Deployment {
  private service: ServiceProcess | undefined;
  private worker: WorkerProcess | undefined;
  private client: Client | undefined;
  private before: (Counters & { readonly transitions: number }) | undefined;
  /** Transitions of services that have stopped. */
  private earlierTransitions = 0;
  private readonly exchange = `saga-bench.${randomUUID()}`;

  private constructor(
    private readonly options: DeploymentOptions,
    private readonly needs: Needs,
    private readonly database: Database | undefined,
  ) {}

  /** `server` is for a deployment of its own. */
  static async open(options: DeploymentOptions, needs: Needs, server: Server | undefined): Promise<Deployment> {
    const target = options.database === undefined ? undefined : openDatabase(options.database);
    const deployment = new Deployment(options, needs, server ? await freshDatabase(server) : target);
    try {
      if (server) await deployment.startService();
      else deployment.client = new Client(options.target ?? "");
      if (needs.worker) deployment.worker = await deployment.startWorker(needs.worker);
      return deployment;
    } catch (error) {
      await deployment.close();
      throw error;
    }
  }

  /** Started by the bench, with a database of its own. */
  get isOwn(): boolean {
    return this.options.target === undefined;
  }

  get api(): Client {
    if (!this.client) throw new Error("the service is not running");
    return this.client;
  }

  /** Throws if no database is known. */
  get sql(): Sql {
    if (!this.database) throw new Error("the database is not known");
    return this.database.sql;
  }

  get databaseUrl(): string {
    return this.database?.url ?? "";
  }

  /** Starts the service of a deployment of the bench's own, and starts it again after `stopService`. */
  async startService(): Promise<void> {
    const { nodes, settings, profile, service: file, amqp } = this.options;
    const broker = this.needs.worker === "rabbitmq" && { AMQP_URL: amqp ?? "", SAGA_EVENTS_EXCHANGE: this.exchange };
    const own = { HOST: "127.0.0.1", HTTP_PORT: "0", GRPC_PORT: "0", SAGA_WORKERS: String(nodes) };
    const env = {
      ...own,
      DATABASE_URL: this.database?.serviceUrl ?? "",
      ...broker,
      ...this.needs.settings,
      ...settings,
    };
    const nodeArgs = profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${profile}`];
    this.service = await startService({ ...(file !== undefined && { file }), env, nodeArgs });
    this.client = new Client(`http://127.0.0.1:${this.service.http}`);
  }

  async stopService(): Promise<void> {
    this.earlierTransitions = (await this.transitions()) ?? 0;
    await this.client?.close();
    this.client = undefined;
    await this.service?.stop();
    this.service = undefined;
  }

  /** Null: they run on another machine. */
  async processIds(): Promise<ProcessIds> {
    return {
      ...(!this.isOwn && { service: null }),
      ...(this.service && { service: familyOf(this.service.pid) }),
      ...(this.worker && { worker: [this.worker.pid] }),
      load: [process.pid],
      postgres: this.database ? ifPostgres(await backendsOf(this.database.sql)) : null,
    };
  }

  /** Counts writes from here on, once. */
  async beginWrites(): Promise<void> {
    if (!this.database || this.before) return;
    this.before = { ...(await readCounters(this.database.sql)), transitions: (await this.transitions()) ?? 0 };
  }

  /** Stops the service, if it is the bench's. */
  async endWrites(): Promise<Writes | null> {
    const transitions = await this.transitions();
    await this.stopWorker();
    if (this.service) await this.stopService();
    if (!this.database || !this.before) return null;
    if (this.isOwn) await untilLeft(this.database.sql);
    else await delay(REPORTED_AFTER_MS);
    const made = transitions === null ? null : transitions - this.before.transitions;
    return writesBetween(this.before, await readCounters(this.database.sql), made);
  }

  async close(): Promise<void> {
    await this.stopWorker();
    await this.client?.close();
    await this.service?.stop();
    if (this.needs.worker === "rabbitmq" && this.isOwn) await this.deleteExchange();
    await this.database?.close();
  }

  private async stopWorker(): Promise<void> {
    await this.worker?.stop();
    this.worker = undefined;
  }

  private startWorker(transport: Transport): Promise<WorkerProcess> {
    const { grpc, amqp = "", workerHost: host } = this.options;
    const at = this.service ? `127.0.0.1:${this.service.grpc}` : (grpc ?? `${new URL(this.api.base).hostname}:9090`);
    return startWorker({ transport, api: this.api.base, grpc: at, amqp, host, maxInFlight: this.needs.maxInFlight });
  }

  /** Since the service began. Null: there is no such metric. */
  private async transitions(): Promise<number | null> {
    if (!this.client) return this.earlierTransitions;
    const page = await this.client.text("/metrics").catch(() => "");
    const [, value] = /^saga_transitions_total (\S+)$/m.exec(page) ?? [];
    return value === undefined ? null : this.earlierTransitions + Number(value);
  }

  private async deleteExchange(): Promise<void> {
    const broker = await connect(this.options.amqp ?? "");
    const channel = await broker.createChannel();
    for (const queue of [`${this.exchange}.in`, `${this.exchange}.dead`]) await channel.deleteQueue(queue);
    await channel.deleteExchange(this.exchange);
    await broker.close();
  }
}
