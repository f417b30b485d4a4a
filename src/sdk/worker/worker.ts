// A worker: registers its actions, keeps a connection to every node of the service, executes the steps it gets and
// resends each answer until it is recorded. It installs no signal handlers (runWorker does) and reads no environment.

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { ExecuteStep, Hello, HelloAck } from "../protocol/index.js";
import { Alarm } from "../timer.js";
import { Addresses } from "./addresses.js";
import { Answers, type PendingAnswer as Pending } from "./answers.js";
import type { Codec } from "./codec.js";
import type { Connection, ConnectionOwner } from "./connection.js";
import { ConnectionPool } from "./connection-pool.js";
import { CreditDivision } from "./credit.js";
import { Executor, OUTPUT_BYTES } from "./executor.js";
import { type Handles, HandlingWorker } from "./handlers.js";
import { type Log, stderrLog } from "./log.js";
import { checkGrpc, checkWorker } from "./options.js";
import { Registrar } from "./register.js";
import { completeTiming, type Timing } from "./timing.js";
import type { TlsOptions } from "./tls.js";
import { Credential, type Token } from "./token.js";

export interface WorkerOptions {
  /** The service whose actions these are: workflows name them "service.action". */
  readonly service: string;
  /** Your version of the service, shown in the registry. No effect on which steps the worker gets. */
  readonly serviceVersion?: string;
  /** "host:port" of the orchestrator's gRPC, or several. A name may stand for several addresses. The worker meets the nodes of all. */
  readonly grpc: string | readonly string[];
  /** "http://host:port" of the orchestrator's API; "https:" where it has TLS. */
  readonly api: string;
  /** Steps executed at once, whatever number of nodes the orchestrator has. Default 16. */
  readonly maxInFlight?: number;
  /**
   * The most bytes of JSON in an action's output. A larger one is not sent: its step fails with the code
   * `limit_exceeded`. Default 1,048,576, the default of the orchestrator's `SAGA_LIMIT_OUTPUT_BYTES`: change both together.
   */
  readonly outputBytes?: number;
  /** Decrypts the encrypted values of inputs, and encrypts what `encrypted()` marks in outputs. */
  readonly codec?: Codec;
  /**
   * Unique per process, matching [A-Za-z0-9_.:-]{1,128}. Default: made from service, host, process id and a random
   * part.
   */
  readonly workerId?: string;
  /**
   * The orchestrator's gRPC has TLS: `{}` where its certificate comes from an authority that Node trusts, `{ca}` for one of your own,
   * which then counts for `api`, too. Absent: gRPC without TLS.
   */
  readonly tls?: TlsOptions;
  /**
   * The credential, where the orchestrator asks for one, or a function that gets it: it is asked for every stream and every request, so also
   * when a token was refused or has ended.
   */
  readonly token?: Token | undefined;
  /** Default: JSON lines on stderr. */
  readonly log?: Log;
  /** How long `stop` waits for steps in flight and for unrecorded answers, in milliseconds. Default 30,000. */
  readonly drainTimeoutMs?: number;
  readonly timing?: Partial<Timing>;
}

export interface Worker extends Handles {
  readonly workerId: string;
  /**
   * Resolves once the actions are registered and one stream is open; until then it retries. Rejects with an Error if
   * the orchestrator refuses the actions, if `stop` is called first, or if no action is handled (TypeError). A repeat returns the same promise.
   */
  start(): Promise<void>;
  /**
   * Takes no more steps, finishes those in flight and waits until their answers are recorded, for at most
   * `drainTimeoutMs`; then it aborts what is left. Never rejects. Safe to call twice, and before `start`.
   */
  stop(): Promise<void>;
}

/** Dispatch ids that one hello may name. */
const HELLO_IDS = 10_000;

const MEMBERS: Readonly<Record<keyof WorkerOptions, true>> = {
  ...{
    service: true,
    serviceVersion: true,
    grpc: true,
    api: true,
    maxInFlight: true,
    outputBytes: true,
    codec: true,
  },
  ...{ workerId: true, tls: true, token: true, log: true, drainTimeoutMs: true, timing: true },
};

/** Connects to nothing before `start`. Throws TypeError if an option is missing, malformed or unknown. */
export function createWorker(options: WorkerOptions): Worker {
  checkWorker(options, MEMBERS);
  checkGrpc(options.grpc);
  return new StreamWorker(options);
}

class StreamWorker extends HandlingWorker implements Worker, ConnectionOwner {
  readonly workerId: string;
  private readonly timing: Timing;
  private readonly log: Log;
  private readonly answers = new Answers<Connection>();
  private readonly executor: Executor<Connection>;
  private readonly pool: ConnectionPool;
  private readonly credit: CreditDivision<Connection>;
  private readonly stopping = new AbortController();
  private readonly registrar: Registrar;
  private readonly credential: Credential;
  private ticker: NodeJS.Timeout | undefined;
  private started: Promise<void> | undefined;
  private stopped: Promise<void> | undefined;
  private onConnected: () => void = () => {};
  private onSettled: () => void = () => {};

  constructor(private readonly options: WorkerOptions) {
    super(options.service);
    this.workerId = options.workerId ?? makeId(options.service);
    this.timing = completeTiming(options.timing);
    this.log = options.log ?? stderrLog();
    const { api, service, serviceVersion, tls } = options;
    const { timing, log, stopping, handlers } = this;
    this.credential = new Credential(options.token);
    this.registrar = new Registrar({
      api,
      service,
      serviceVersion,
      credential: this.credential,
      tls,
      handlers,
      timing,
      log,
      signal: stopping.signal,
    });
    this.executor = new Executor({
      handlers,
      outputBytes: options.outputBytes ?? OUTPUT_BYTES,
      codec: options.codec,
      log: this.log,
      answer: (dispatchId, message, via) => {
        this.send(this.answers.add(dispatchId, message, via));
        this.credit.answered();
      },
      heartbeat: (dispatchId, via) => this.pool.liveOr(via)?.send({ heartbeat: { dispatch_id: dispatchId } }),
    });
    this.pool = new ConnectionPool({
      place: { addresses: new Addresses(options.grpc), tls },
      owner: this,
      timing: this.timing,
      log: this.log,
      isBusy: (connection) => this.isBusy(connection),
    });
    this.credit = new CreditDivision({
      total: this.maxInFlight,
      streams: () => this.pool.crediting(),
      executing: () => this.executor.counts(),
    });
  }

  start(): Promise<void> {
    this.started ??= this.registerAndConnect();
    return this.started;
  }

  stop(): Promise<void> {
    this.stopped ??= this.drainAndClose();
    return this.stopped;
  }

  // ---- ConnectionOwner

  token(): string | Promise<string> {
    // The service takes a certificate or a token, not both.
    return this.options.tls?.client ? "" : (this.credential.present() ?? "");
  }

  hello(token: string): Hello {
    const { options } = this;
    return {
      worker_id: this.workerId,
      service: options.service,
      actions: this.handlers.names(),
      max_in_flight: this.maxInFlight,
      token,
      in_flight: this.unattended(),
      batches: true,
      credit: true,
      stream_answers: true,
    };
  }

  onHelloAck(connection: Connection, ack: HelloAck): void {
    if (!ack.credit) this.onConnected();
    this.executor.adopt(connection);
    const owed = [...this.answers.all()].filter(({ via }) => !via.live || via === connection);
    for (const answer of owed) answer.via = connection;
    this.pool.onHelloAck(connection, ack);
    this.credit.divide();
    // Answers that lost their stream are sent on this one at once.
    for (const answer of owed) this.send(answer);
  }

  onExecute(connection: Connection, step: ExecuteStep): void {
    const answered = this.answers.again(step.dispatch_id, connection);
    if (answered) this.send(answered);
    else this.executor.execute(step, connection);
  }

  onCancel(dispatchId: string, reason: string): void {
    this.executor.cancel(dispatchId, reason);
  }

  onRecorded(dispatchId: string): void {
    this.answers.recorded(dispatchId);
    this.pool.closeDrained();
    this.onSettled();
  }

  onReconnected(): void {
    this.registrar.ensure();
  }

  onCredited(connection: Connection, maxInFlight: number): void {
    this.onConnected();
    this.credit.credited(connection, maxInFlight);
  }

  onLost(connection: Connection): void {
    this.pool.onLost(connection);
    this.credit.lost(connection);
  }

  private get maxInFlight(): number {
    return Math.max(this.options.maxInFlight ?? 16, 1);
  }

  private async registerAndConnect(): Promise<void> {
    this.handlers.seal();
    const { timing, log } = this;
    const { signal } = this.stopping;
    await this.registrar.register({ transport: "grpc" });
    await new Promise<void>((resolve, reject) => {
      this.onConnected = resolve;
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      this.ticker = setInterval(() => this.resend(), timing.resendMs);
      this.pool.open();
    });
    log.info({ workerId: this.workerId, service: this.options.service }, "worker connected");
  }

  private async drainAndClose(): Promise<void> {
    this.stopping.abort(new Error("the worker was stopped"));
    this.pool.drain();
    if (!(await this.settledWithin(this.options.drainTimeoutMs ?? 30_000))) {
      this.executor.abortAll("the worker stops");
      await this.settledWithin(this.timing.abortGraceMs);
    }
    const left = { executing: this.executor.size, unrecorded: this.answers.size };
    if (left.executing + left.unrecorded > 0) this.log.warn(left, "worker stopped with unanswered steps");
    clearInterval(this.ticker);
    this.pool.close();
  }

  /** Whether all steps were answered and all answers recorded within the time. */
  private async settledWithin(ms: number): Promise<boolean> {
    const isSettled = () => this.executor.size === 0 && this.answers.size === 0;
    let alarm: Alarm | undefined;
    const timeout = new Promise<void>((resolve) => {
      alarm = new Alarm(ms, resolve);
    });
    const settled = new Promise<void>((resolve) => {
      this.onSettled = () => {
        if (isSettled()) resolve();
      };
      this.onSettled();
    });
    await Promise.race([timeout, settled]);
    alarm?.stop();
    return isSettled();
  }

  private send(answer: Pending<Connection>): void {
    const connection = this.pool.liveOr(answer.via);
    if (connection?.send(answer.message)) answer.sentAt = performance.now();
  }

  private resend(): void {
    const due = performance.now() - this.timing.resendMs;
    for (const answer of this.answers.all()) {
      if (answer.sentAt <= due && !this.pool.liveOr(answer.via)?.congested) this.send(answer);
    }
    this.pool.closeDrained();
    this.credit.tick();
  }

  /**
   * Steps and answers without a live stream: the service learns from the hello that it need not send these steps again.
   */
  private unattended(): string[] {
    const ids: string[] = [];
    for (const [dispatchId, via] of this.executor.all()) if (!via.live) ids.push(dispatchId);
    for (const { dispatchId, via } of this.answers.all()) if (!via.live) ids.push(dispatchId);
    return ids.slice(0, HELLO_IDS);
  }

  private isBusy(connection: Connection): boolean {
    for (const [, via] of this.executor.all()) if (via === connection) return true;
    for (const { via } of this.answers.all()) if (via === connection) return true;
    return false;
  }
}

function makeId(service: string): string {
  const host = hostname().replace(/[^A-Za-z0-9_.-]/g, "-");
  return `${service.slice(0, 50)}:${host.slice(0, 50)}:${process.pid}:${randomUUID().slice(0, 8)}`;
}
