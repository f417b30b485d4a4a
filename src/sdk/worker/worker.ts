// A worker: registers its actions, keeps a connection to every node of the service, executes what comes and answers until
// the answer is recorded. It installs no signal handlers (runWorker does) and reads no environment.
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { Action } from "./action.js";
import { Answers, type PendingAnswer } from "./answers.js";
import type { Connection, ConnectionOwner } from "./connection.js";
import { Executor } from "./executor.js";
import { Fleet } from "./fleet.js";
import { type Log, stderrLog } from "./log.js";
import type { AnswerMessage, ExecuteStep, Hello, HelloAck } from "./protocol.js";
import { register } from "./register.js";
import { DEFAULT_TIMING, type Timing } from "./timing.js";

export interface WorkerOptions {
  readonly service: string;
  readonly serviceVersion?: string;
  /** "host:port" of the service's gRPC. */
  readonly grpc: string;
  /** "http://host:port" of the service's API. */
  readonly api: string;
  readonly actions: readonly Action[];
  /** Steps executed at once per node of the service. Default 16. */
  readonly maxInFlight?: number;
  /** Unique per process. Default: made from service, host, process id and a random part. */
  readonly workerId?: string;
  /** The credential, where the service asks for one. */
  readonly token?: string;
  readonly log?: Log;
  /** How long `stop` waits for steps in flight and unrecorded answers. Default 30 s. */
  readonly drainTimeoutMs?: number;
  readonly timing?: Partial<Timing>;
}

export interface Worker {
  readonly workerId: string;
  /** Resolves once the actions are registered and a stream stands. Rejects if the service refuses the actions, or on `stop`. */
  start(): Promise<void>;
  /** Takes nothing more, finishes what is in flight, waits until its answers are recorded. Safe twice, and before `start`. */
  stop(): Promise<void>;
}

/** Ids that one hello may name. */
const HELLO_IDS = 10_000;

export function createWorker(options: WorkerOptions): Worker {
  return new StreamWorker(options);
}

class StreamWorker implements Worker, ConnectionOwner {
  readonly workerId: string;
  readonly #timing: Timing;
  readonly #log: Log;
  readonly #answers = new Answers();
  readonly #executor: Executor;
  readonly #fleet: Fleet;
  readonly #stop = new AbortController();
  #ticker: NodeJS.Timeout | undefined;
  #started: Promise<void> | undefined;
  #stopped: Promise<void> | undefined;
  #connected: () => void = () => {};
  #settled: () => void = () => {};

  constructor(private readonly options: WorkerOptions) {
    if (options.actions.length === 0) throw new TypeError("a worker needs at least one action");
    this.workerId = options.workerId ?? makeId(options.service);
    this.#timing = { ...DEFAULT_TIMING, ...options.timing };
    this.#log = options.log ?? stderrLog();
    this.#executor = new Executor({
      actions: options.actions,
      log: this.#log,
      answer: (dispatchId, message, via) => this.#answer(dispatchId, message, via),
      heartbeat: (dispatchId, via) => this.#fleet.liveOr(via)?.send({ heartbeat: { dispatch_id: dispatchId } }),
    });
    this.#fleet = new Fleet({
      target: options.grpc,
      owner: this,
      timing: this.#timing,
      log: this.#log,
      busy: (connection) => this.#isBusy(connection),
    });
  }

  start(): Promise<void> {
    this.#started ??= this.#start();
    return this.#started;
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#drain();
    return this.#stopped;
  }

  hello(): Hello {
    const { options } = this;
    return {
      worker_id: this.workerId,
      service: options.service,
      actions: options.actions.map(({ name, version }) => `${name}@${version}`),
      max_in_flight: options.maxInFlight ?? 16,
      token: options.token ?? "",
      in_flight: this.#unattended(),
    };
  }

  acknowledged(connection: Connection, ack: HelloAck): void {
    this.#connected();
    this.#executor.adopt(connection);
    const owed = [...this.#answers.all()].filter(({ via }) => !via.live || via === connection);
    for (const answer of owed) answer.via = connection;
    this.#fleet.acknowledged(connection, ack);
    // Whatever lost its stream goes out on this one at once.
    for (const answer of owed) this.#send(answer);
  }

  execute(connection: Connection, step: ExecuteStep): void {
    const answered = this.#answers.again(step.dispatch_id, connection);
    if (answered) this.#send(answered);
    else this.#executor.execute(step, connection);
  }

  cancelled(dispatchId: string, reason: string): void {
    this.#executor.cancel(dispatchId, reason);
  }

  recorded(dispatchId: string): void {
    this.#answers.recorded(dispatchId);
    this.#fleet.sweep();
    this.#settled();
  }

  lost(connection: Connection): void {
    this.#fleet.lost(connection);
  }

  async #start(): Promise<void> {
    const { options } = this;
    await register({
      api: options.api,
      service: options.service,
      serviceVersion: options.serviceVersion,
      token: options.token,
      actions: options.actions,
      timing: this.#timing,
      log: this.#log,
      signal: this.#stop.signal,
    });
    await new Promise<void>((resolve, reject) => {
      this.#connected = resolve;
      this.#stop.signal.addEventListener("abort", () => reject(this.#stop.signal.reason), { once: true });
      this.#ticker = setInterval(() => this.#resend(), this.#timing.resendMs);
      this.#fleet.open();
    });
    this.#log.info({ workerId: this.workerId, service: options.service }, "the worker is connected");
  }

  async #drain(): Promise<void> {
    this.#stop.abort(new Error("the worker was stopped"));
    this.#fleet.drain();
    if (!(await this.#quiet(this.options.drainTimeoutMs ?? 30_000))) {
      this.#executor.abortAll("the worker stops");
      await this.#quiet(this.#timing.abortGraceMs);
    }
    const left = { executing: this.#executor.size, unrecorded: this.#answers.size };
    if (left.executing + left.unrecorded > 0) this.#log.warn(left, "the worker stops with steps unanswered");
    clearInterval(this.#ticker);
    this.#fleet.close();
  }

  /** Whether all steps were answered and all answers recorded within the time. */
  async #quiet(withinMs: number): Promise<boolean> {
    const isQuiet = () => this.#executor.size === 0 && this.#answers.size === 0;
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, withinMs);
    });
    const quiet = new Promise<void>((resolve) => {
      this.#settled = () => {
        if (isQuiet()) resolve();
      };
      this.#settled();
    });
    await Promise.race([timeout, quiet]);
    clearTimeout(timer);
    return isQuiet();
  }

  #answer(dispatchId: string, message: AnswerMessage, via: Connection): void {
    this.#send(this.#answers.add(dispatchId, message, via));
  }

  #send(answer: PendingAnswer): void {
    const connection = this.#fleet.liveOr(answer.via);
    if (connection?.send(answer.message)) answer.sentAt = performance.now();
  }

  #resend(): void {
    const due = performance.now() - this.#timing.resendMs;
    for (const answer of this.#answers.all()) {
      if (answer.sentAt <= due && !this.#fleet.liveOr(answer.via)?.congested) this.#send(answer);
    }
    this.#fleet.sweep();
  }

  /** Held or unrecorded, and on no live stream: a node that has one of them learns that it need not send it again. */
  #unattended(): string[] {
    const ids: string[] = [];
    for (const [dispatchId, via] of this.#executor.all()) if (!via.live) ids.push(dispatchId);
    for (const { dispatchId, via } of this.#answers.all()) if (!via.live) ids.push(dispatchId);
    return ids.slice(0, HELLO_IDS);
  }

  #isBusy(connection: Connection): boolean {
    for (const [, via] of this.#executor.all()) if (via === connection) return true;
    for (const { via } of this.#answers.all()) if (via === connection) return true;
    return false;
  }
}

function makeId(service: string): string {
  const host = hostname().replace(/[^A-Za-z0-9_.-]/g, "-");
  return `${service.slice(0, 50)}:${host.slice(0, 50)}:${process.pid}:${randomUUID().slice(0, 8)}`;
}
