// Three hosts as docs/deploy/hosts sets them up: the files there are read, filled in and run. A fourth host has the balancer of clients. Facts about
// them, such as which server is the primary, are read where an operator reads them. What goes wrong on them is the matter of the test.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { packageRoot } from "../../src/config/package.js";
import { type Database, openDatabase } from "../../src/store/engine/connection.js";
import { silentLog } from "../harness/database.js";
import { answersAsRabbitMq } from "../harness/probe.js";
import { until } from "../harness/until.js";
import { Host, missingHere, Network, type Program } from "./rig.js";

const FILES = join(packageRoot(), "docs", "deploy", "hosts");
const NAMES = ["saga-1", "saga-2", "saga-3"] as const;
const PREFIX = "10.77.0";
const BALANCER = `${PREFIX}.10`;
const PASSWORD = "of-the-test";
/** With RabbitMQ. */
const BROKER = "saga-3";
const HEALTHY_WITHIN_MS = 180_000;
/** Of each program. */
const TOLD_LINES = 12;
/** Lines of the service that are no trouble. */
const HARMLESS = /^\{"level":"(?:trace|debug|info)"/;

const RABBITMQ = "/usr/lib/rabbitmq/bin/rabbitmq-server";
const POSTGRES = "/usr/lib/postgresql/15/bin/postgres";

export const missing = (): readonly string[] =>
  missingHere(["etcd", "patroni", "pgbouncer", "haproxy", "redis-server", "psql", RABBITMQ, POSTGRES]);

interface Member {
  readonly name: string;
  readonly role: "leader" | "sync_standby" | "replica";
  readonly state: string;
  readonly timeline?: number;
  readonly lag?: number | string;
}

/** As the role that sees everything of the servers. */
const openAt = (servers: string): Database =>
  openDatabase(`postgres://postgres:${PASSWORD}@${servers}/saga`, {
    ...{ max: 2, applicationName: "saga-test", log: silentLog },
  });

/** A file of docs/deploy/hosts with its placeholders filled in. */
function filled(file: string, values: Readonly<Record<string, string>>): string {
  const text = readFileSync(join(FILES, file), "utf8");
  return text.replace(/\$\{([A-Z]+)\}/g, (whole, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`${file} has ${whole}, which has no value`);
    return value;
  });
}

/** As systemd reads it. */
function environment(text: string): Readonly<Record<string, string>> {
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]));
}

/** What the unit starts, with this build in place of the installed one. */
function serviceCommand(): readonly string[] {
  const unit = readFileSync(join(FILES, "saga.service"), "utf8");
  const command = /^ExecStart=(.*)$/m.exec(unit)?.[1]?.split(" ") ?? [];
  const places: Readonly<Record<string, string>> = { "/usr/bin/node": process.execPath };
  return command.map((word) => places[word] ?? word.replace(/^\/opt\/saga\//, `${packageRoot()}/`));
}

export class Machines {
  readonly url = `http://${BALANCER}:8080`;
  readonly grpc = NAMES.map((_, nth) => `${PREFIX}.${nth + 1}:9090`);
  readonly database: Database;

  private constructor(
    readonly hosts: readonly Host[],
    private readonly clients: Host,
    private readonly network: Network,
    private readonly folder: string,
  ) {
    this.database = openAt(hosts.map(({ address }) => `${address}:5432`).join());
  }

  /** Complete when everything is up. */
  static async start(): Promise<Machines> {
    const folder = mkdtempSync(join(tmpdir(), "saga-hosts-"));
    const network = new Network(`${PREFIX}.254/24`);
    const hosts = NAMES.map((name, nth) =>
      hostOf(network, { name, address: `${PREFIX}.${nth + 1}`, folder: join(folder, name) }),
    );
    const clients = balancerOf(network, folder);
    const machines = new Machines(hosts, clients, network, folder);
    process.once("exit", () => machines.endNow());
    for (const host of [...hosts, clients]) await host.powerOn();
    await machines.createDatabase();
    await machines.healthy();
    return machines;
  }

  async stop(): Promise<void> {
    await this.database.close();
    for (const host of [...this.hosts, this.clients]) await host.powerOff();
    this.endNow();
  }

  private endNow(): void {
    this.network.remove();
    rmSync(this.folder, { recursive: true, force: true });
  }

  host(name: string): Host {
    const host = this.hosts.find((each) => each.name === name);
    if (!host) throw new Error(`there is no host ${name}`);
    return host;
  }

  get broker(): Host {
    return this.host(BROKER);
  }

  private async createDatabase(): Promise<void> {
    const leader = await until(() => this.leader(), { within: HEALTHY_WITHIN_MS, pause: 500, what: "a primary" });
    leader.write("var/tmp/database.sql", filled("database.sql", { PASSWORD }));
    const psql = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "psql", "-v", "ON_ERROR_STOP=1"];
    await leader.command(...psql, "-h", "/run/postgresql", "-f", "/var/tmp/database.sql");
  }

  /** As Patroni sees them, asked at the first host that answers. */
  async members(): Promise<readonly Member[]> {
    for (const { address } of this.hosts) {
      const answer = await ask(`http://${address}:8008/cluster`);
      if (answer) return (answer as { readonly members: readonly Member[] }).members;
    }
    return [];
  }

  /** The host of the server that takes writes. */
  async leader(): Promise<Host | undefined> {
    for (const host of this.hosts) if (await this.isPrimary(host)) return host;
    return;
  }

  /** As its Patroni says. */
  async isPrimary({ address }: Host): Promise<boolean> {
    return (await ask(`http://${address}:8008/primary`)) !== undefined;
  }

  /** The host of the primary, then that of the synchronous standby, then the third. */
  async inTurn(nth: number): Promise<Host> {
    const role = (["leader", "sync_standby", "replica"] as const)[nth % 3];
    const members = await this.members();
    const member = members.find((each) => each.role === role);
    if (!member) throw new Error(`there is no ${role}: ${JSON.stringify(members)}`);
    return this.host(member.name);
  }

  async configurePatroni(change: object): Promise<void> {
    const leader = await until(() => this.leader(), { pause: 200, what: "a primary" });
    const body = JSON.stringify(change);
    const response = await fetch(`http://${leader.address}:8008/config`, { method: "PATCH", body });
    if (!response.ok) throw new Error(await response.text());
  }

  /** Moves the primary in order. */
  async switchover(): Promise<void> {
    const leader = await until(() => this.leader(), { pause: 200, what: "a primary" });
    const body = JSON.stringify({ leader: leader.name });
    const response = await fetch(`http://${leader.address}:8008/switchover`, { method: "POST", body });
    if (!response.ok) throw new Error(await response.text());
  }

  /** The host of the Redis that takes writes. With two, the one that all hosts use. */
  async master(): Promise<Host | undefined> {
    for (const host of this.hosts) if ((await replication(host)).includes("role:master")) return host;
    return;
  }

  /** The others count the nodes of this host as gone, and have its runs. Over a session of its own: one to a host that is cut off has no answer. */
  async isSilent({ name }: Host): Promise<boolean> {
    const leader = await this.leader();
    if (!leader) return false;
    const { sql, close } = openAt(`${leader.address}:5432`);
    try {
      const alive = await sql`select 1 from nodes where host = ${name} and heartbeat_at > now() - interval '5 seconds'`;
      return alive.length === 0;
    } finally {
      await close();
    }
  }

  /** Everything is up, everywhere, and has its standbys: the next fault meets whole machines. */
  async healthy(synchronous = true): Promise<void> {
    const troubles = () => this.troubles(synchronous);
    let last: readonly string[] = [];
    const none = async () => {
      last = await troubles();
      return last.length === 0;
    };
    await until(none, { within: HEALTHY_WITHIN_MS, pause: 500, what: "health of all" }).catch((error: Error) => {
      throw new Error(`${last.join("; ")}: ${error.message}`);
    });
  }

  private async troubles(synchronous: boolean): Promise<readonly string[]> {
    const found: string[] = [];
    const must = (what: string, holds: boolean) => {
      if (!holds) found.push(what);
    };
    for (const { name, address } of this.hosts) {
      const etcd = (await ask(`http://${address}:2379/health`)) as { readonly health?: string } | undefined;
      must(`etcd of ${name}`, etcd?.health === "true");
      must(`service of ${name}`, (await ask(`http://${address}:8080/readyz`)) !== undefined);
    }
    const members = await this.members();
    const roles = members.map(({ role }) => role).sort();
    const standbys = synchronous ? ["leader", "replica", "sync_standby"] : ["leader", "replica", "replica"];
    must(`Patroni: ${JSON.stringify(members)}`, roles.join() === standbys.join());
    must(
      "Patroni: running",
      members.every(({ state }) => state === "running" || state === "streaming"),
    );
    const infos = await Promise.all(this.hosts.map(replication));
    const master = infos.find((info) => info.includes("role:master"));
    must(`Redis: ${infos.map((info) => /role:\w+/.exec(info)?.[0])}`, master?.includes("connected_slaves:2") === true);
    must("Redis: one master", infos.filter((info) => info.includes("role:slave")).length === 2);
    must("RabbitMQ", await answersAsRabbitMq(`amqp://saga:${PASSWORD}@${this.broker.address}:5672`).catch(() => false));
    // Only what is up answers this, and an answer that is late is none.
    if (found.length === 0) {
      const nodes = await this.database.sql`select 1 from nodes where heartbeat_at > now() - interval '3 seconds'`;
      must(`${nodes.length} nodes`, nodes.length === 2 * this.hosts.length);
      const streams = await this.database.sql`select 1 from pg_stat_get_wal_senders() where state = 'streaming'`;
      must(`${streams.length} standbys stream`, streams.length === 2);
    }
    return found;
  }

  /** What the command says on the first host, with the settings of the service. */
  async doctor(): Promise<readonly { readonly name: string; readonly state: string; readonly says: string }[]> {
    const [host] = this.hosts;
    const program = [
      process.execPath,
      join(packageRoot(), "dist", "service", "cli", "main.js"),
      "doctor",
      "-o",
      "json",
    ];
    const settings = Object.entries(host?.get("saga").spec.env ?? {}).map(([name, value]) => `${name}=${value}`);
    const said = await host?.command("env", ...settings, "SAGA_URL=http://127.0.0.1:8080", ...program);
    return JSON.parse(said ?? "");
  }

  /** The newest lines of what may have gone wrong, for a test that fails. */
  troublesTold(): readonly string[] {
    return this.hosts.flatMap((host) =>
      host.all.flatMap(({ spec, lines }) =>
        lines
          .filter((line) => !HARMLESS.test(line))
          .slice(-TOLD_LINES)
          .map((line) => `${host.name} ${spec.name}: ${line}`),
      ),
    );
  }
}

function hostOf(
  network: Network,
  options: { readonly name: string; readonly address: string; readonly folder: string },
): Host {
  const host = new Host(network, options);
  const { name } = options;
  const values = { NAME: name, PASSWORD, BALANCER, NETWORK: `${PREFIX}.0/24` };
  const put = (file: string, path: string, user?: string) => host.write(path, filled(file, values), user);
  host.write("etc/hosts", namesOfAll());
  put("patroni.yml", "etc/patroni/patroni.yml", "postgres");
  put("haproxy.cfg", "etc/haproxy/haproxy.cfg");
  put("pgbouncer.ini", "etc/pgbouncer/pgbouncer.ini", "postgres");
  put("userlist.txt", "etc/pgbouncer/userlist.txt", "postgres");
  put("sentinel.conf", "etc/redis/sentinel.conf");
  const replicaOf = name === NAMES[0] ? "" : `replicaof ${NAMES[0]} 6379\n`;
  host.write("etc/redis/redis.conf", filled("redis.conf", values) + replicaOf);
  for (const folder of ["etcd", "redis", "saga"]) host.folderFor(`var/lib/${folder}`);
  host.folderFor("var/lib/postgresql", "postgres");
  host.add({ name: "etcd", command: ["etcd"], env: environment(filled("etcd.env", values)) });
  host.add({ name: "redis", command: ["redis-server", "/etc/redis/redis.conf"] });
  host.add({ name: "sentinel", command: ["redis-server", "/etc/redis/sentinel.conf", "--sentinel"] });
  if (name === BROKER) addBroker(host, put);
  host.add({ name: "patroni", command: ["patroni", "/etc/patroni/patroni.yml"], user: "postgres" });
  host.add({ name: "haproxy", command: ["haproxy", "-db", "-f", "/etc/haproxy/haproxy.cfg"] });
  host.add({ name: "pgbouncer", command: ["pgbouncer", "/etc/pgbouncer/pgbouncer.ini"], user: "postgres" });
  host.add({ name: "saga", command: serviceCommand(), env: environment(filled("saga.env", values)) });
  return host;
}

function addBroker(host: Host, put: (file: string, path: string, user?: string) => void): Program {
  put("rabbitmq.conf", "etc/rabbitmq/rabbitmq.conf");
  put("rabbitmq-env.conf", "etc/rabbitmq/rabbitmq-env.conf");
  host.write("etc/rabbitmq/enabled_plugins", "[].");
  for (const folder of ["lib", "log"]) host.folderFor(`var/${folder}/rabbitmq`, "rabbitmq");
  const env = { HOME: "/var/lib/rabbitmq" };
  return host.add({ name: "rabbitmq", command: [RABBITMQ], env, user: "rabbitmq" });
}

function balancerOf(network: Network, folder: string): Host {
  const clients = new Host(network, { name: "clients", address: BALANCER, folder: join(folder, "clients") });
  clients.write("etc/hosts", namesOfAll());
  clients.write("etc/haproxy/balancer.cfg", filled("balancer.cfg", { ADDRESS: BALANCER }));
  clients.add({ name: "haproxy", command: ["haproxy", "-db", "-f", "/etc/haproxy/balancer.cfg"] });
  return clients;
}

const namesOfAll = () =>
  ["127.0.0.1 localhost", ...NAMES.map((name, nth) => `${PREFIX}.${nth + 1} ${name}`)]
    .map((line) => `${line}\n`)
    .join("");

/** The answer if it is a good one. */
async function ask(url: string): Promise<unknown> {
  const response = await fetch(url, { signal: AbortSignal.timeout(2_000) }).catch(() => undefined);
  if (!response?.ok) return;
  const text = await response.text();
  return text.startsWith("{") ? JSON.parse(text) : text;
}

/** What Redis on that host says of its replication. */
async function replication({ address }: Host): Promise<string> {
  const redis = new Redis(`redis://:${PASSWORD}@${address}:6379`, {
    ...{ lazyConnect: true, connectTimeout: 2_000, commandTimeout: 2_000, maxRetriesPerRequest: 0 },
    retryStrategy: () => null,
  });
  redis.on("error", () => {});
  try {
    await redis.connect();
    return await redis.info("replication");
  } catch {
    return "";
  } finally {
    redis.disconnect();
  }
}
