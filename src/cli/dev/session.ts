// One run of `saga dev`: its parts in the order in which they start, and stopped in the opposite order. Each part is a file of its own.
import { setTimeout as delay } from "node:timers/promises";
import { type DevSettings, serviceEnvironment, workerEnvironment } from "../../config/dev.js";
import { packageVersion } from "../../config/package.js";
import { within } from "../../sdk/timer.js";
import { EXIT, type ExitCode } from "../exit.js";
import { endText } from "../modules/child.js";
import { Api } from "./api.js";
import { Definitions } from "./definitions.js";
import { Files } from "./files.js";
import { lockFolder } from "./lock.js";
import { choosePorts, type Ports } from "./ports.js";
import type { Printer } from "./printer.js";
import { CONFIG_FILE, type Project, ProjectError, readProject } from "./project.js";
import { ServiceChild } from "./service.js";
import { WorkerKeeper } from "./worker.js";

/** Definitions name actions, and the service warns of those that it does not know: the worker has this long to register them. */
const WORKER_FIRST_MS = 10_000;
const ASK_MS = 100;

export interface SessionOptions {
  readonly folder: string;
  readonly settings: DevSettings;
  readonly printer: Printer;
  /** Aborted: everything is to stop. */
  readonly stop: AbortSignal;
  /** Aborted: at once. */
  readonly hurry: AbortSignal;
}

interface Parts {
  readonly definitions: Definitions;
  readonly worker: WorkerKeeper;
  readonly api: Api;
}

export class Session {
  private project: Project;
  /** The service has ended by itself: nothing goes on without it. */
  private readonly failed = new AbortController();
  private readonly over: AbortSignal;

  constructor(
    private readonly options: SessionOptions,
    project: Project,
  ) {
    this.project = project;
    this.over = AbortSignal.any([options.stop, this.failed.signal]);
  }

  /** 0: it was stopped. 1: the service has ended, or did not start. Throws DevRunning. Nothing is left when it returns. */
  async run(): Promise<ExitCode> {
    const { folder, settings } = this.options;
    const ports = await choosePorts(settings);
    const urls = urlsOf(settings, ports);
    const lock = await lockFolder(folder, settings.dataDir, urls.console);
    try {
      return await this.withService(ports, urls);
    } finally {
      await lock.release();
    }
  }

  private async withService(ports: Ports, urls: Urls): Promise<ExitCode> {
    const { folder, settings, printer, hurry } = this.options;
    const isEmbedded = settings.databaseUrl === undefined;
    const env = serviceEnvironment(settings, ports);
    const service = new ServiceChild({ folder, env, printer, ...(isEmbedded && { dataDir: settings.dataDir }) });
    void service.ended.then((end) => {
      if (this.options.stop.aborted) return;
      printer.say("error", `the service has ended (${endText(end)}): its last lines are above`);
      this.failed.abort();
    });
    try {
      const api = new Api(urls.api, settings.token);
      if (await api.ready(this.over)) await this.withProject(api, ports, urls);
    } finally {
      if (!this.failed.signal.aborted) printer.say("info", "stopping the service");
      const isOrderly = await service.stop(hurry);
      if (!isOrderly && !this.failed.signal.aborted && !hurry.aborted)
        printer.say("warn", "the service did not stop in order");
    }
    if (this.failed.signal.aborted) return EXIT.failed;
    printer.say("info", "stopped");
    return EXIT.succeeded;
  }

  private async withProject(api: Api, ports: Ports, urls: Urls): Promise<void> {
    const { folder, settings, printer, hurry } = this.options;
    const env = workerEnvironment(settings, { api: urls.api, grpc: urls.grpc });
    const onLine = (line: string) => printer.line("definitions", line);
    const worker = new WorkerKeeper({ folder, env, printer });
    const parts = {
      api,
      worker,
      definitions: new Definitions({ folder, env, onLine, api, printer, dataDir: settings.dataDir }),
    };
    const files = new Files({
      folder,
      onChange: (changed) => this.takeUp(changed, parts),
      onTrouble: (message) => printer.say("warn", message),
    });
    try {
      await files.start();
      await this.begin(parts);
      if (!this.over.aborted) this.announce(ports, urls);
      await aborted(this.over);
    } finally {
      await files.close();
      if (worker.isRunning) printer.say("info", "stopping the worker");
      await worker.stop(hurry);
    }
  }

  private async begin(parts: Parts): Promise<void> {
    if (this.project.worker === undefined) this.missWorker();
    await parts.worker.restart(this.project.worker);
    await this.untilRegistered(parts);
    await parts.definitions.refresh(this.project, this.over);
  }

  private missWorker(): void {
    this.options.printer.say("info", `no worker: looked for ${this.project.workers.join(" and ")}`);
  }

  /** Returns at the latest when the time is over, or the worker has crashed. */
  private async untilRegistered({ worker, api }: Parts): Promise<void> {
    const enough = within(this.over, WORKER_FIRST_MS);
    while (!enough.aborted && worker.isRunning) {
      if (await api.hasWorker(enough).catch(() => false)) return;
      await delay(ASK_MS, undefined, { signal: enough }).catch(() => undefined);
    }
  }

  private async takeUp(changed: ReadonlySet<string>, { worker, definitions }: Parts): Promise<void> {
    const before = this.project;
    try {
      this.project = await readProject(this.options.folder);
    } catch (error) {
      // The project as it was before goes on.
      if (!(error instanceof ProjectError)) throw error;
      this.options.printer.say("error", error.message, { file: CONFIG_FILE });
      return;
    }
    if (this.over.aborted) return;
    const isOther = this.project.worker !== before.worker;
    if (isOther && this.project.worker === undefined) this.missWorker();
    const restarts = isOther || (this.project.worker !== undefined && worker.concerns(changed));
    if (restarts) await worker.restart(this.project.worker);
    const isConfig = changed.has(CONFIG_FILE);
    if (isConfig || definitions.concerns(changed, this.project))
      await definitions.refresh(this.project, this.over, changed);
  }

  private announce(ports: Ports, urls: Urls): void {
    const { folder, settings, printer } = this.options;
    const { databaseUrl, dataDir } = settings;
    const rows = {
      Console: urls.console,
      API: `${urls.api}/api/v1`,
      gRPC: urls.grpc,
      Data: databaseUrl === undefined ? `${dataDir} (embedded Postgres)` : databaseUrl,
      Folder: folder,
    };
    const hints = [
      `Watching ${[...this.project.patterns, this.project.worker ?? this.project.workers.join(", ")].join(", ")}. Ctrl-C stops everything.`,
    ];
    if (ports.taken.length > 0) {
      const others = `other programs have port ${ports.taken.join(" and ")}`;
      printer.say("info", `${others}: the service is at ${ports.http} and ${ports.grpc}`, {
        http: ports.http,
        grpc: ports.grpc,
      });
      hints.push(`In other terminals: export SAGA_URL=${urls.api}`);
    }
    printer.banner(`saga dev ${packageVersion()}`, rows, hints);
  }
}

interface Urls {
  readonly api: string;
  readonly console: string;
  /** Host and port. */
  readonly grpc: string;
}

/** An unspecified address is where it listens, and no address to go to. */
function urlsOf({ host, isTls }: DevSettings, { http, grpc }: Ports): Urls {
  const reached = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host.includes(":") ? `[${host}]` : host;
  const api = `${isTls ? "https" : "http"}://${reached}:${http}`;
  return { api, console: `${api}/console`, grpc: `${reached}:${grpc}` };
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
