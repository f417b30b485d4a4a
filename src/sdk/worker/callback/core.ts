// What workers that the service calls have in common: each step is executed once, its answer is kept for repeats and reported until it is
// recorded, and a heartbeat's answer may cancel it. How steps come is the business of http/ and rabbitmq/.
import type { Reach } from "../action.js";
import { type AnswerMessage, Answers } from "../answers.js";
import { Executor, type Origin, OUTPUT_BYTES } from "../executor.js";
import type { Handlers } from "../handlers.js";
import { type Log, stderrLog } from "../log.js";
import { Registrar } from "../register.js";
import { completeTiming, type Timing } from "../timing.js";
import { Credential } from "../token.js";
import { answerBody, type CalledStep } from "./message.js";
import type { CalledWorkerOptions } from "./options.js";
import { type Callback, Reports } from "./reports.js";

interface Task extends Origin {
  readonly callback: Callback;
}

/** How long after its deadline a run may still take an answer that was in time. */
const TRANSIT_MS = 1_000;

export class CalledWorkerCore {
  readonly log: Log;
  readonly timing: Timing;
  private readonly executor: Executor<Task>;
  private readonly answers = new Answers<Task>();
  private readonly reports: Reports;
  private readonly waiters = new Map<string, ((answer: AnswerMessage) => void)[]>();
  private readonly stopping = new AbortController();
  /** Aborted when nothing is waited for any more. */
  private readonly given = new AbortController();
  private readonly reporting = new Set<Promise<void>>();
  private readonly registrar: Registrar;

  constructor(
    private readonly options: CalledWorkerOptions,
    private readonly handlers: Handlers,
    /** Steps come out of a queue. */
    isConsumer = false,
  ) {
    this.log = options.log ?? stderrLog();
    this.timing = completeTiming(options.timing);
    const { api, service, serviceVersion, token, tls } = options;
    const credential = new Credential(token);
    this.reports = new Reports({ credential, tls, timing: this.timing, log: this.log });
    const { timing, log, stopping } = this;
    this.registrar = new Registrar({
      api,
      service,
      serviceVersion,
      credential,
      tls,
      handlers,
      timing,
      log,
      signal: stopping.signal,
    });
    this.executor = new Executor<Task>({
      handlers,
      isConsumer,
      outputBytes: options.outputBytes ?? OUTPUT_BYTES,
      codec: options.codec,
      log: this.log,
      answer: (dispatchId, message, via) => this.answered(dispatchId, message, via),
      heartbeat: (dispatchId, via) => void this.heartbeat(dispatchId, via),
    });
  }

  /** Steps in progress, and answers that are not recorded. */
  get busy(): number {
    return this.executor.size + this.reporting.size;
  }

  get stopped(): boolean {
    return this.stopping.signal.aborted;
  }

  /** Registers the actions, and from then on makes sure that they stay registered. */
  async register(reach: Reach): Promise<void> {
    this.handlers.seal();
    await this.registrar.register(reach);
    if (!this.stopped) this.registrar.ensureRegularly();
  }

  /** What this worker relies on was away: the service may have been, too. */
  cameBack(): void {
    this.registrar.ensure();
  }

  /** The answer, once the step is executed: once for a dispatch, however often it comes. Undefined: its deadline has passed. */
  execute({ step, callback, deadline }: CalledStep): Promise<AnswerMessage> | undefined {
    const task: Task = { live: true, heartbeatIntervalMs: 0, callback };
    const known = this.answers.again(step.dispatch_id, task);
    if (known) return Promise.resolve(known.message);
    if (!(deadline > Date.now())) return undefined;
    const { cancelCheckMs = 10_000 } = this.options;
    // Heartbeats are sent four times in each timeout.
    const heartbeat = step.heartbeat_timeout_ms > 0 ? step.heartbeat_timeout_ms : 4 * cancelCheckMs;
    const answer = new Promise<AnswerMessage>((resolve) => this.waitFor(step.dispatch_id, resolve));
    if (this.executor.execute({ ...step, heartbeat_timeout_ms: heartbeat }, task)) return answer;
    this.waiters.delete(step.dispatch_id);
    return undefined;
  }

  /** Reports the answer until it is recorded. */
  async report({ step, callback, deadline }: CalledStep, answer: AnswerMessage): Promise<void> {
    const { given, reports } = this;
    const work = reports
      .answer(callback, answerBody(answer), deadline + TRANSIT_MS, given.signal)
      .then((outcome) => this.settled(step.dispatch_id, outcome !== "late"));
    this.reporting.add(work);
    await work.finally(() => this.reporting.delete(work));
  }

  /** The answer is with the service, or is given up. */
  settled(dispatchId: string, recorded = true): void {
    if (recorded) this.answers.recorded(dispatchId);
  }

  /** Waits until all is answered and recorded, at most the drain timeout; then aborts what is left. */
  async stop(): Promise<void> {
    this.stopping.abort(new Error("the worker was stopped"));
    if (await this.idleWithin(this.options.drainTimeoutMs ?? 30_000)) return;
    this.executor.abortAll("the worker stops");
    if (await this.idleWithin(this.timing.abortGraceMs)) return;
    this.given.abort();
    this.log.warn({ unfinished: this.busy }, "worker stopped with unanswered steps");
  }

  private async idleWithin(ms: number): Promise<boolean> {
    const until = performance.now() + ms;
    while (this.busy > 0 && performance.now() < until) await new Promise((resolve) => setTimeout(resolve, 20));
    return this.busy === 0;
  }

  private waitFor(dispatchId: string, resolve: (answer: AnswerMessage) => void): void {
    this.waiters.set(dispatchId, [...(this.waiters.get(dispatchId) ?? []), resolve]);
  }

  private answered(dispatchId: string, message: AnswerMessage, via: Task): void {
    this.answers.add(dispatchId, message, via);
    const waiters = this.waiters.get(dispatchId) ?? [];
    this.waiters.delete(dispatchId);
    for (const resolve of waiters) resolve(message);
  }

  private async heartbeat(dispatchId: string, { callback }: Task): Promise<void> {
    if (await this.reports.heartbeat(callback)) this.executor.cancel(dispatchId, "the run asks for it");
  }
}
