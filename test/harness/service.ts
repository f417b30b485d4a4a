// The built service (`dist`) as a process that can be started, stopped, killed, frozen and thawed. It gets no environment but the
// given one, and ends with its test file.
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, readlinkSync, realpathSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { packageRoot } from "../../src/config/package.js";
import { accessSettings } from "./access.js";
import { atFailure } from "./failed-test.js";
import { atFileEnd } from "./file-end.js";
import { freePorts } from "./ports.js";
import { ownExchange } from "./rabbitmq.js";
import { until } from "./until.js";

const LOG_LINES = 2_000;
/** The newest warnings and errors of a service are told if a test fails. */
const TOLD_LINES = 40;
/** Text that is no line of the log, such as a stack trace of Node, is told as well. */
const HARMLESS = /^\{"level":"(?:trace|debug|info)"/;
const STOP_WITHIN_MS = 60_000;

const created = new Set<ServiceProcess>();
process.on("exit", () => {
  for (const service of created) service.endNow();
});

/**
 * Ports stay the same over restarts. `env` wins over the defaults: HOST, both ports, LOG_LEVEL, an empty SAGA_DATA_DIR, and an exchange of
 * its own where it has a broker. `main`: the file to run.
 */
export async function createService(
  env: Readonly<Record<string, string>> = {},
  main = join(packageRoot(), "dist", "service", "main.js"),
): Promise<ServiceProcess> {
  const [http, grpc] = await freePorts(2);
  const folder = await mkdtemp(join(tmpdir(), "saga-service-"));
  const ports = { HTTP_PORT: String(http), GRPC_PORT: String(grpc) };
  const defaults = { HOST: "127.0.0.1", ...ports, LOG_LEVEL: "info", SAGA_DATA_DIR: folder };
  const exchange = env.AMQP_URL !== undefined && { SAGA_EVENTS_EXCHANGE: env.SAGA_EVENTS_EXCHANGE ?? ownExchange() };
  // On an embedded database the key of the tests is unknown.
  const access = env.DATABASE_URL === undefined ? {} : accessSettings();
  const service = new ServiceProcess({ ...defaults, ...access, ...env, ...exchange }, main);
  created.add(service);
  atFailure(() => service.takeTroubles());
  atFileEnd(async () => {
    await service.kill();
    service.endDatabase();
    created.delete(service);
    await rm(folder, { recursive: true, force: true });
  });
  return service;
}

/** The settings of a service that seals what it stores, under a master key that no other has. */
export function sealingSettings(): Readonly<Record<string, string>> {
  const folder = mkdtempSync(join(tmpdir(), "saga-keys-"));
  atFileEnd(() => rm(folder, { recursive: true }));
  const file = join(folder, "keys.json");
  const keys = [{ id: "a", key: randomBytes(32).toString("base64") }];
  writeFileSync(file, JSON.stringify({ current: "a", keys }), { mode: 0o600 });
  return { SAGA_ENCRYPTION_KEYS_FILE: file };
}

export class ServiceProcess {
  private child: ChildProcess | undefined;
  /** The process group, because nodes may outlive their primary. */
  private group: number | undefined;
  private ended: Promise<number | NodeJS.Signals> | undefined;
  private readonly lines: string[] = [];
  private troubles: string[] = [];

  constructor(
    private readonly env: Readonly<Record<string, string>>,
    private readonly main: string,
  ) {}

  get url(): string {
    return `http://127.0.0.1:${this.env.HTTP_PORT}`;
  }

  get grpcAddress(): string {
    return `127.0.0.1:${this.env.GRPC_PORT}`;
  }

  /** The pid of the primary. Throws if it is not running. */
  get pid(): number {
    if (this.child?.pid === undefined) throw new Error("the service is not running");
    return this.child.pid;
  }

  /** The newest lines of both output streams. */
  get log(): readonly string[] {
    return this.lines;
  }

  /** Resolves when the service is ready, or at once with `{ ready: false }`. */
  async start({ ready = true, within = 60_000 } = {}): Promise<this> {
    if (this.child !== undefined) throw new Error("the service is running already");
    // A process group of its own, so that a signal reaches its nodes as well. Source maps would be a tenth of a start.
    const child = spawn(process.execPath, [this.main], {
      cwd: packageRoot(),
      env: { PATH: process.env.PATH, HOME: process.env.HOME, ...this.env },
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.child = child;
    this.group = child.pid;
    for (const stream of [child.stdout, child.stderr]) createInterface({ input: stream }).on("line", this.keep);
    this.ended = new Promise((resolve) => {
      child.once("error", () => resolve(1));
      child.once("exit", (code, signal) => resolve(signal ?? code ?? 1));
    });
    void this.ended.then(() => {
      if (this.child === child) this.child = undefined;
    });
    if (ready) await this.waitUntilReady(within);
    return this;
  }

  private readonly keep = (line: string): void => {
    this.lines.push(line);
    if (this.lines.length > LOG_LINES) this.lines.shift();
    if (HARMLESS.test(line)) return;
    this.troubles.push(line);
    if (this.troubles.length > TOLD_LINES) this.troubles.shift();
  };

  /** The newest lines that are warnings, errors or no log at all, each once. */
  takeTroubles(): readonly string[] {
    const lines = this.troubles.map((line) => `${this.url} ${line}`);
    this.troubles = [];
    return lines;
  }

  async waitUntilReady(within = 60_000): Promise<void> {
    const readiness = async () => {
      if (this.child === undefined) return "ended";
      return (await fetch(`${this.url}/readyz`)).ok && "ready";
    };
    const state = await until(readiness, { within, what: "the service's readiness" }).catch(
      (error: Error) => error.message,
    );
    if (state !== "ready")
      throw new Error(`the service did not become ready (${state}):\n${this.lines.slice(-40).join("\n")}`);
  }

  /** The exit code of a service that ends by itself, or the signal that ended it. */
  async exit(): Promise<number | NodeJS.Signals> {
    return (await this.ended) ?? 0;
  }

  /** Sends SIGTERM to the primary. Returns its exit code, or the signal that ended it. */
  async stop(within = STOP_WITHIN_MS): Promise<number | NodeJS.Signals> {
    if (this.child === undefined || this.ended === undefined) return 0;
    this.child.kill("SIGTERM");
    const child = this.child;
    await until(() => child.exitCode !== null || child.signalCode !== null, { within, what: "the orderly stop" }).catch(
      async (error: Error) => {
        await this.kill();
        throw new Error(`${error.message}\n${this.lines.slice(-40).join("\n")}`);
      },
    );
    this.group = undefined;
    return this.ended;
  }

  /** Sends SIGKILL to the primary and its nodes, or to the primary alone. Resolves when the primary is gone. */
  async kill(whom: "all" | "primary" = "all"): Promise<void> {
    const ended = this.ended;
    if (whom === "all") this.endNow();
    else this.child?.kill("SIGKILL");
    await ended;
  }

  /** Sends SIGSTOP to the whole group: the processes keep their connections, but do nothing. */
  freeze(): void {
    process.kill(-this.pid, "SIGSTOP");
  }

  thaw(): void {
    process.kill(-this.pid, "SIGCONT");
  }

  /** Kills the primary and its nodes, but not its embedded Postgres, which is in another process group. */
  endNow(): void {
    const group = this.group;
    if (group !== undefined) quietly(() => process.kill(-group, "SIGKILL"));
    this.group = undefined;
  }

  /** The pid of the embedded Postgres in its `SAGA_DATA_DIR`, also if a killed service left it behind. */
  get databasePid(): number | undefined {
    const pgdata = join(this.env.SAGA_DATA_DIR ?? "", "postgres");
    return quietly(() => {
      const pid = Number(readFileSync(join(pgdata, "postmaster.pid"), "utf8").split("\n")[0]);
      return readlinkSync(`/proc/${pid}/cwd`) === realpathSync(pgdata) ? pid : undefined;
    });
  }

  /** Ends an embedded Postgres that a killed service left behind. */
  endDatabase(): void {
    const pid = this.databasePid;
    if (pid !== undefined) quietly(() => process.kill(pid, "SIGQUIT"));
  }
}

function quietly<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}
